"""One JSON line a case and contender: raw samples, and all that is needed to judge them later."""

from __future__ import annotations

import json
import os
import platform
import subprocess
from collections.abc import Iterable
from contextlib import suppress
from datetime import datetime, timezone
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

_ROOT = Path(__file__).resolve().parents[1]
_VERSIONED = (
    "ditto-fast",
    "fastembed",
    "numpy",
    "onnxruntime",
    "openvino",
    "optimum-intel",
    "sentence-transformers",
    "tokenizers",
    "torch",
    "transformers",
)


def _git(*arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=_ROOT, capture_output=True, text=True).stdout.strip()


def _cpu_model() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), "unknown")


def _versions() -> dict[str, str]:
    installed = {}
    for name in _VERSIONED:
        with suppress(PackageNotFoundError):
            installed[name] = version(name)
    return installed


def environment() -> dict[str, Any]:
    """Machine, its load, versions and commit."""
    return {
        "started": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "cpu": _cpu_model(),
        "cpus": os.cpu_count(),
        "load": round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else 0.0,
        "python": platform.python_version(),
        "versions": _versions(),
        "commit": _git("rev-parse", "HEAD"),
        "dirty": bool(_git("status", "--porcelain", "--untracked-files=no")),
    }


def append(path: Path, rows: Iterable[dict[str, Any]]) -> None:
    """Adds rows to a .jsonl file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as file:
        file.writelines(json.dumps(row, sort_keys=True) + "\n" for row in rows)

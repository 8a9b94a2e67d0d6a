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
    "nncf",
    "numpy",
    "onnxruntime",
    "openvino",
    "optimum-intel",
    "sentence-transformers",
    "tokenizers",
    "torch",
    "transformers",
)
_INSTRUCTIONS = ("avx2", "avx512f", "avx_vnni", "avx512_vnni", "avx512_bf16", "amx_int8", "amx_bf16")


def _git(*arguments: str) -> str | None:
    """What git prints, None where it is not installed or refuses."""
    try:
        return subprocess.run(["git", *arguments], cwd=_ROOT, capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return None


def processor() -> dict[str, Any]:
    """Name, and what of the instructions that matter here it has; a virtual machine's name may hide the generation."""
    try:
        first, *_ = Path("/proc/cpuinfo").read_text().split("\n\n")
    except OSError:
        return {"cpu": platform.processor()}
    facts = {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in first.splitlines())}
    name = facts.get("model name", platform.processor())
    if "cpu family" in facts:
        name += f" (family {facts['cpu family']}, model {facts['model']})"
    return {"cpu": name, "instructions": [each for each in _INSTRUCTIONS if each in facts.get("flags", "").split()]}


def _versions() -> dict[str, str]:
    installed = {}
    for name in _VERSIONED:
        with suppress(PackageNotFoundError):
            installed[name] = version(name)
    return installed


def environment() -> dict[str, Any]:
    """Machine, its load, versions and commit; a tree that git does not vouch for counts as changed."""
    commit = _git("rev-parse", "HEAD")
    return {
        "started": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        **processor(),
        "cpus": os.cpu_count(),
        "load": round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else 0.0,
        "python": platform.python_version(),
        "versions": _versions(),
        "commit": commit or "",
        "dirty": not commit or _git("status", "--porcelain", "--untracked-files=no") != "",
    }


def append(path: Path, rows: Iterable[dict[str, Any]]) -> None:
    """Adds rows to a .jsonl file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a", encoding="utf-8") as file:
        file.writelines(json.dumps(row, sort_keys=True) + "\n" for row in rows)

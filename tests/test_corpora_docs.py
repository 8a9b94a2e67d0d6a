"""docs/corpora.md tells the truth: its block prints what is shown, its options and formats are those there are."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from documents import ROOT, code_blocks

from ditto_fast.corpora.sources import COMPRESSIONS, FORMATS

DOCUMENT = ROOT / "docs" / "corpora.md"


def test_the_example_prints_what_is_shown(minilm_export: Path, tmp_path: Path):
    pytest.importorskip("qdrant_client")
    pytest.importorskip("pyarrow")
    (tmp_path / "minilm-ditto").symlink_to(minilm_export)
    (code,) = code_blocks(DOCUMENT, "python")
    result = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert result.returncode == 0, result.stderr
    assert result.stdout == code_blocks(DOCUMENT, "text")[0]


def test_formats_are_those_there_are():
    text = DOCUMENT.read_text(encoding="utf-8")
    assert tuple(re.findall(r"^\| \.(\w+) \|", text, re.MULTILINE)) == FORMATS
    assert all(suffix in text for suffix in COMPRESSIONS)


def test_options_are_those_there_are(command: Callable[..., subprocess.CompletedProcess[str]]):
    shown = command("ditto-encode", "--help", env={"COLUMNS": "300", "PATH": ""}).stdout
    named = set(re.findall(r"`(--[a-z-]+)", DOCUMENT.read_text(encoding="utf-8")))
    assert named
    assert {name for name in named if name not in shown} == set()

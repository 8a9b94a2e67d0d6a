"""docs/distributed.md tells the truth: each of its Python blocks runs and prints what is shown."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from documents import ROOT

DOCUMENT = ROOT / "docs" / "distributed.md"
SECTIONS = dict(re.findall(r"^## ([^\n]+)\n(.*?)(?=^## |\Z)", DOCUMENT.read_text("utf-8"), re.MULTILINE | re.DOTALL))


def _blocks(section: str, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", SECTIONS[section], re.MULTILINE | re.DOTALL)


@pytest.fixture
def folder(minilm_export: Path, tmp_path: Path) -> Path:
    (tmp_path / "minilm-ditto").symlink_to(minilm_export)
    return tmp_path


def _prints(folder: Path, program: str, **variables: str) -> str:
    command = [sys.executable, "-W", "ignore", "-c", program]
    environment = {**os.environ, **variables}
    result = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=200)
    assert result.returncode == 0, result.stderr
    return result.stdout


def test_every_block_is_run():
    with_code = {section for section in SECTIONS if _blocks(section, "python")}
    assert with_code == {"On one machine", "Your own loop", "Spark"}


def test_the_ray_examples_print_what_is_shown(folder: Path):
    """As one program, since a Ray takes seconds to start."""
    pytest.importorskip("ray", reason="ray is not installed: pip install 'ditto-fast[ray]'")
    program, output = (
        "".join(block for section in ("On one machine", "Your own loop") for block in _blocks(section, language))
        for language in ("python", "text")
    )
    assert _prints(folder, program) == output


def test_the_spark_example_prints_what_is_shown(folder: Path):
    pytest.importorskip("pyspark", reason="pyspark is not installed: pip install pyspark")
    if shutil.which("java") is None:
        pytest.skip("Spark needs java")
    (module, program), (output,) = _blocks("Spark", "python"), _blocks("Spark", "text")
    (folder / "embed_udf.py").write_text(module, "utf-8")
    submit = "--master local[2] --conf spark.ui.enabled=false pyspark-shell"
    variables = {"PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_SUBMIT_ARGS": submit}
    assert _prints(folder, program, **variables) == output

"""The README tells the truth: its example runs, and its table is that of the records."""

from __future__ import annotations

import doctest
import os
from pathlib import Path

from report import RECORDS, ROOT, last_run, markdown, updated

from ditto_fast.export.architectures import SUPPORTED_MODEL_TYPES


def test_the_example_gives_the_output_shown(minilm_export: Path, tmp_path: Path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    os.symlink(minilm_export, tmp_path / "minilm-ditto")
    result = doctest.testfile(str(ROOT / "README.md"), module_relative=False)
    assert result.attempted > 3
    assert result.failed == 0


def test_the_table_is_that_of_the_records():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert updated(readme, markdown(last_run(RECORDS))) == readme


def test_every_architecture_is_named():
    readme = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
    assert f"Architectures: {', '.join(SUPPORTED_MODEL_TYPES)};" in readme

"""The README tells the truth: its example runs, and its figures are those of the records."""

from __future__ import annotations

import doctest
import os
from pathlib import Path

from pages import document, summary
from plots import digest, drawn
from report import DOCUMENT, FOLDER, README, ROOT, committed, updated

from ditto_fast.export.architectures import SUPPORTED_MODEL_TYPES


def test_the_example_gives_the_output_shown(minilm_export: Path, tmp_path: Path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    os.symlink(minilm_export, tmp_path / "minilm-ditto")
    result = doctest.testfile(str(ROOT / "README.md"), module_relative=False)
    assert result.attempted > 3
    assert result.failed == 0


def test_the_table_is_that_of_the_records():
    readme = README.read_text(encoding="utf-8")
    assert updated(readme, summary(committed())) == readme


def test_the_page_and_its_plots_are_those_of_the_records():
    records = committed()
    assert DOCUMENT.read_text(encoding="utf-8") == document(records)
    assert "throughput.svg" in drawn(records)
    for file in drawn(records):
        assert digest(records, file) in (FOLDER / file).read_text(encoding="utf-8")


def test_records_are_of_committed_trees_and_small():
    assert not any(row["dirty"] for row in committed().rows)
    assert sum(path.stat().st_size for path in (ROOT / "benchmarks" / "results").iterdir()) < 300_000


def test_every_architecture_is_named():
    readme = " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
    assert f"Architectures: {', '.join(SUPPORTED_MODEL_TYPES)};" in readme

"""What of benchmarks/tune.py needs no GPU; the rest says that it does."""

from __future__ import annotations

import importlib
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from tune import SETTINGS, candidates, rewritten, work

from ditto_fast.kernels.settings import TABLE


def test_the_tables_own_row_is_among_the_candidates():
    for (kernel, _), row in TABLE.items():
        assert row in set(candidates(kernel, row))


def test_a_rewritten_table_holds_the_rows(tmp_path: Path, monkeypatch):
    best = {key: replace(row, num_warps=2) for key, row in TABLE.items()}
    path = tmp_path / "settings_rewritten.py"
    path.write_text(rewritten(SETTINGS.read_text(), best))
    monkeypatch.syspath_prepend(tmp_path)
    table = importlib.import_module("settings_rewritten").TABLE
    assert {key: row.num_warps for key, row in table.items()} == dict.fromkeys(TABLE, 2)
    with pytest.raises(ValueError, match="0 rows"):
        rewritten("", best)


@pytest.mark.parametrize("kernel", ["diagonal", "pool", "ditto"])
def test_the_work_is_the_operator(kernel: str):
    result = work(kernel, torch.float32, (2, 5, 8), "cpu")()
    assert result.shape == ((2, 5) if kernel == "diagonal" else (2, 8))
    assert torch.isfinite(result).all()


def test_without_a_gpu_it_says_so():
    if torch.cuda.is_available():
        pytest.skip("CUDA is here")
    command = [sys.executable, str(SETTINGS.parents[1] / "benchmarks" / "tune.py"), "--write"]
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode == 1
    assert "needs a CUDA device" in result.stderr

"""The benchmark runs, records what it must, and refuses to time wrong vectors."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from contenders import CONTENDERS
from run import gate
from sentences import load_sentences

from ditto_fast.errors import ParityError

ROOT = Path(__file__).resolve().parents[1]


def test_a_small_run_records_every_contender(tmp_path: Path):
    out = tmp_path / "results.jsonl"
    command = [
        sys.executable,
        str(ROOT / "benchmarks" / "run.py"),
        "--sentences",
        "24",
        "--rounds",
        "1",
        "--out",
        str(out),
    ]
    result = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert result.returncode == 0, result.stderr
    rows = [json.loads(line) for line in out.read_text().splitlines()]
    assert [row["contender"] for row in rows if row["case"] == "throughput"] == [c.name for c in CONTENDERS]
    assert {row["case"] for row in rows} == {"throughput", "import", "cold"}
    assert all({"cpu", "commit", "dirty", "versions", "seconds", "sentences", "source"} <= set(row) for row in rows)
    for contender in CONTENDERS:
        assert contender.name.split()[0] in result.stdout


def test_wrong_vectors_get_no_time():
    vectors = np.random.default_rng(0).standard_normal((3, 8)).astype(np.float32)
    assert gate(CONTENDERS[0], vectors, vectors) == 0
    for wrong in (vectors[::-1], vectors * np.float32("nan"), vectors[:2]):
        with pytest.raises(ParityError, match=CONTENDERS[0].name):
            gate(CONTENDERS[0], wrong, vectors)


def test_synthetic_sentences_are_the_same_every_time():
    source, texts = load_sentences(50, senteval=None)
    assert "synthetic" in source
    assert texts == load_sentences(50, senteval=None)[1]
    assert len({len(text.split()) for text in texts}) > 5

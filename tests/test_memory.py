"""Memory after a batch far larger than the usual ones."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np

from ditto_fast import FastEncoder
from ditto_fast.runner import KEPT_TOKENS
from ditto_fast.tolerances import within

# megabytes that a process keeps from a thousand long texts in one batch, after the same in batches of the usual size
_PROBE = """
import sys
import psutil
from ditto_fast import FastEncoder

encoder = FastEncoder(sys.argv[1], num_threads=1)
texts = [f"{'word ' * 60}{number}" for number in range(1000)]
encoder.encode(texts)
before = psutil.Process().memory_info().rss
encoder.encode(texts, batch_size=len(texts))
print((psutil.Process().memory_info().rss - before) / 1e6)
"""


def test_a_large_batch_gives_its_memory_back(tiny_export: Path):
    command = [sys.executable, "-c", _PROBE, str(tiny_export)]
    out = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    assert float(out) < 75  # about 40, and 120 where the arena keeps all


def test_a_session_without_an_arena_takes_large_batches(tiny_export: Path):
    def configure(options: object) -> None:
        options.enable_cpu_mem_arena = False  # type: ignore[attr-defined]

    texts = ["word " * 60 + str(number) for number in range(1 + KEPT_TOKENS // 60)]
    with FastEncoder(tiny_export, session_options=configure) as plain, FastEncoder(tiny_export) as usual:
        expected = usual.encode(texts)
        assert np.isfinite(expected).all()
        assert within(plain.encode(texts, batch_size=len(texts)), expected)

"""Suite length: the same number of tokens in texts of 16 to 512 tokens."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from contenders import chosen
from gate import admit, timed
from gemm_floor import floor
from job import Job, Row
from sentences import text_of

from ditto_fast.artifact import Manifest

LENGTHS = (16, 64, 128, 256, 512)
_AMONG = ("eager", "sdpa", "st", "openvino", "fp32", "int8")
_TOKENS = 4096  # of a round


def case_of(tokens: int) -> str:
    """The case of texts of so many tokens."""
    return f"T = {tokens}"


def suite(job: Job) -> Iterator[Row]:
    """For each length a row a contender, and the floor; texts are cut to exactly that many tokens."""
    longest = Manifest.read(job.setting.export).max_positions
    for tokens in (length for length in LENGTHS if length <= longest):
        total = _TOKENS // 8 if job.quick else _TOKENS
        texts = [text_of(tokens, seed) for seed in range(max(1, total // tokens))]
        setting = replace(job.setting, max_seq_length=tokens)
        admitted = admit(chosen(job, _AMONG), setting, texts, case_of(tokens))
        for row in timed(admitted, texts, case_of(tokens), job.rounds, floor(setting, texts)):
            yield {**row, "tokens": tokens * len(texts), "length": tokens}

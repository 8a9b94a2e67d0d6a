"""Suite length: texts of 16 to 512 tokens, one or several a call, in rounds of about as many tokens."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cache

from contenders import chosen, in_calls
from gate import admit, timed
from gemm_floor import floors
from job import Job, Row
from sentences import text_of

from ditto_fast.artifact import Manifest

LENGTHS = (16, 64, 128, 256, 512)
SIZES = (1, 8, 32)  # texts of a call
_AMONG = ("eager", "sdpa", "st", "openvino", "fp32", "int8")
_TOKENS, _QUICK_TOKENS = 4096, 512  # of a round, and the most of a call


def case_of(tokens: int, size: int) -> str:
    """The case of texts of so many tokens, so many a call."""
    return f"T = {tokens}, {size} a call"


def suite(job: Job) -> Iterator[Row]:
    """For each length and number of texts a row a contender, and the floors; texts are cut to exactly that length."""
    longest = Manifest.read(job.setting.export).max_positions
    lengths, total = (LENGTHS[::2], _QUICK_TOKENS) if job.quick else (LENGTHS, _TOKENS)
    for tokens in (length for length in lengths if length <= longest):
        setting = replace(job.setting, max_seq_length=tokens)
        # built and checked against once a length, not once a case
        contenders = [
            replace(contender, build=cache(contender.build), expected=cache(contender.expected))
            for contender in chosen(job, _AMONG)
        ]
        for size in (size for size in SIZES if size == 1 or size * tokens <= total):
            texts = [text_of(tokens, seed) for seed in range(max(1, total // tokens))]
            case = case_of(tokens, size)
            admitted = admit([in_calls(contender, size) for contender in contenders], setting, texts, case)
            for row in timed(admitted, texts, case, job.rounds, floors(setting, texts, size)):
                if "missing" not in row or case == case_of(LENGTHS[0], SIZES[0]):  # who is missing is so once
                    yield {**row, "tokens": tokens * len(texts), "length": tokens, "size": size}

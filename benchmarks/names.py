"""What a row's contender is called in tables and plots."""

from __future__ import annotations

from contenders import BY_KEY
from corpus_files import CORPUS
from gemm_floor import FLOOR, FLOOR_INT8

_OTHERS = {
    FLOOR: "floor: the matrix products alone",
    FLOOR_INT8: "floor of int8: the matrix products alone",
    "fp32-batch": "ditto_fast, one batch",
    "int8-no-arena": "ditto_fast, int8, no arena",
    CORPUS: "encode_corpus, int8",
    "one-pass": "ditto_fast, all heads in one pass",
    "fp16": "ditto_fast, fp16",
    "torch-fp16": "torch, SDPA, fp16",
}


def name_of(key: str) -> str:
    """The printed name of a contender, or the key of a case that is none."""
    return BY_KEY[key].name if key in BY_KEY else _OTHERS.get(key, key)

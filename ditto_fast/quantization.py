"""Embeddings in fewer bytes, as sentence-transformers does it."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ditto_fast.checks import one_of
from ditto_fast.errors import OptionError

EMBEDDING_PRECISIONS = ("float32", "float16", "int8", "uint8", "binary", "ubinary")
_RANGED = ("int8", "uint8")  # by the range of each dimension


def quantize_embeddings(
    embeddings: NDArray[np.float32], precision: str, ranges: NDArray[np.float32] | None = None
) -> NDArray[Any]:
    """Converts embeddings (n, H).

    float16 rounds (values past its range become infinite: normalise such embeddings first). int8 and uint8
    spread each dimension's range over 256 steps. binary and ubinary keep the signs, eight to a byte.

    Args:
        embeddings: (n, H), float32.
        precision: One of `EMBEDDING_PRECISIONS`.
        ranges: Smallest and largest value of each dimension (2, H), for int8 and uint8; those of
            `embeddings` by default. Vectors that are to be compared need the same.

    Returns:
        (n, H) of that type; (n, H / 8) int8 or uint8 for binary and ubinary.

    Raises:
        OptionError: The precision is none, ranges are missing where one embedding gives none, or H is no
            multiple of 8 for binary.

    Example:
        >>> quantize_embeddings(np.array([[-1.0, 0.5], [1.0, 0.0]], np.float32), "uint8").tolist()
        [[0, 255], [255, 0]]
    """
    check_quantizable(precision, embeddings.shape[-1], len(embeddings) if ranges is None else None)
    if precision in ("float32", "float16"):
        with np.errstate(over="ignore"):
            return embeddings.astype(precision, copy=False)
    if precision in ("binary", "ubinary"):
        packed: NDArray[np.uint8] = np.packbits(embeddings > 0, axis=-1)
        return packed if precision == "ubinary" else (packed.astype(np.int16) - 128).astype(np.int8)
    if ranges is None:
        if not len(embeddings):
            return embeddings.astype(precision)
        ranges = np.stack([embeddings.min(axis=0), embeddings.max(axis=0)])
    low, high = ranges.astype(np.float64)
    steps = np.where(high > low, high - low, 1) / 255
    integers: NDArray[np.uint8] = np.clip((embeddings - low) / steps, 0, 255).astype(np.uint8)
    return integers if precision == "uint8" else (integers.astype(np.int16) - 128).astype(np.int8)


def check_quantizable(precision: str, width: int, count: int | None) -> None:
    """Passes a precision that embeddings can be given in.

    Args:
        precision: One of `EMBEDDING_PRECISIONS`.
        width: Of an embedding.
        count: How many there are to take the ranges from, None where these are given.

    Raises:
        OptionError: They cannot; the message says what can be done.
    """
    one_of("precision", precision, EMBEDDING_PRECISIONS)
    if precision in ("binary", "ubinary") and width % 8:
        raise OptionError(f"precision={precision!r} needs a width of whole bytes; got {width}.")
    if precision in _RANGED and count == 1:
        raise OptionError(
            f"precision={precision!r} needs the range of each dimension, which one embedding does not give. Encode in "
            "float32 and call quantize_embeddings with the ranges of your corpus."
        )


def check_streamable(precision: str) -> None:
    """Passes a precision that does not depend on the other embeddings of a call.

    Raises:
        OptionError: It does.
    """
    if precision in _RANGED:
        raise OptionError(
            f"precision={precision!r} would take other ranges in each chunk. Stream float32, and call "
            "ditto_fast.quantization.quantize_embeddings with the ranges of your corpus."
        )

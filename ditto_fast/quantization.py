"""Embeddings in fewer bytes, as sentence-transformers does it."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ditto_fast.arrays import as_array
from ditto_fast.checks import one_of
from ditto_fast.errors import NonFiniteError, OptionError

EMBEDDING_PRECISIONS = ("float32", "float16", "int8", "uint8", "binary", "ubinary")
_RANGED = ("int8", "uint8")  # by the range of each dimension
_FEW = 100  # embeddings, below which their ranges say little


def quantize_embeddings(embeddings: ArrayLike, precision: str, ranges: ArrayLike | None = None) -> NDArray[Any]:
    """Converts embeddings (n, H), or one (H,).

    float16 rounds (values past its range become infinite: normalise such embeddings first). int8 and uint8
    spread each dimension's range over 256 steps. binary and ubinary keep the signs, eight to a byte.

    Args:
        embeddings: (n, H) or (H,), floats: an array, a torch tensor or a sequence of either.
        precision: One of `EMBEDDING_PRECISIONS`.
        ranges: Smallest and largest value of each dimension (2, H), for int8 and uint8; those of
            `embeddings` by default. Vectors that are to be compared need the same.

    Returns:
        (n, H) of that type; (n, H / 8) int8 or uint8 for binary and ubinary; without n for one embedding.

    Raises:
        NonFiniteError: An embedding to spread over 256 steps has NaN or infinity; the message names the rows.
        OptionError: The precision is none, ranges are missing where one embedding gives none or are no ranges of that
            shape, H is no multiple of 8 for binary, or the embeddings are no floats of that shape.

    Warns:
        UserWarning: The ranges come from few embeddings.

    Example:
        >>> quantize_embeddings(np.array([[-1.0, 0.5], [1.0, 0.0]], np.float32), "uint8").tolist()
        [[0, 255], [255, 0]]
    """
    rows = as_array("embeddings", embeddings)
    if rows.ndim not in (1, 2) or not np.issubdtype(rows.dtype, np.floating):
        raise OptionError(f"embeddings must be floats (n, H) or (H,); got {rows.dtype} of shape {rows.shape}.")
    count = len(rows) if rows.ndim == 2 else 1
    check_quantizable(precision, rows.shape[-1], count if ranges is None else None)
    if precision in ("float32", "float16"):
        with np.errstate(over="ignore"):
            return rows.astype(precision, copy=False)
    if precision in ("binary", "ubinary"):
        packed: NDArray[np.uint8] = np.packbits(rows > 0, axis=-1)
        return packed if precision == "ubinary" else (packed.astype(np.int16) - 128).astype(np.int8)
    if ranges is None and not count:
        return rows.astype(precision)
    _check_finite(rows, precision)
    low, high = _of(rows, precision) if ranges is None else _checked(ranges, rows.shape[-1])
    steps = np.where(high > low, high - low, 1) / 255
    integers: NDArray[np.uint8] = np.clip((rows - low) / steps, 0, 255).astype(np.uint8)
    return integers if precision == "uint8" else (integers.astype(np.int16) - 128).astype(np.int8)


def _check_finite(rows: NDArray[Any], precision: str) -> None:
    bad = np.flatnonzero(~np.isfinite(rows).all(axis=-1)).tolist()
    if bad:
        raise NonFiniteError(
            f"precision={precision!r} needs finite embeddings; {len(bad)} have NaN or infinity: rows {bad[:10]}"
            f"{' ...' if len(bad) > 10 else ''}. Remove those rows first.",
            bad,
        )


def _of(rows: NDArray[Any], precision: str) -> NDArray[np.float64]:
    """The ranges (2, H) of the rows themselves."""
    if len(rows) < _FEW:
        warnings.warn(
            f"precision={precision!r} takes the range of each dimension from {len(rows)} embeddings, so that vectors "
            "of another call do not compare with these. Encode in float32 and call quantize_embeddings with the "
            f"ranges of {_FEW} or more.",
            UserWarning,
            stacklevel=4,
        )
    return np.stack([rows.min(axis=0), rows.max(axis=0)]).astype(np.float64)


def _checked(ranges: ArrayLike, width: int) -> NDArray[np.float64]:
    given = as_array("ranges", ranges)
    if given.shape != (2, width):
        raise OptionError(f"ranges must be the least and largest values (2, {width}); got shape {given.shape}.")
    wrong = np.flatnonzero(~(np.isfinite(given).all(axis=0) & (given[0] <= given[1])))
    if wrong.size:
        low, high = given[:, wrong[0]].tolist()
        raise OptionError(
            f"ranges must be finite, least values first; got {low} and {high} for dimension {wrong[0]}. "
            "Take np.stack([rows.min(axis=0), rows.max(axis=0)]) of finite rows."
        )
    return given.astype(np.float64)


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

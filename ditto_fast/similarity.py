"""Cosine similarity of embeddings."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ditto_fast.arrays import as_array
from ditto_fast.errors import OptionError
from ditto_fast.pooling import normalize


def _rows(name: str, embeddings: ArrayLike) -> NDArray[np.float32]:
    rows = as_array(name, embeddings).astype(np.float32, copy=False)
    if rows.shape == (0,):  # no embedding at all, of no known width
        return rows.reshape(0, 0)
    rows = np.atleast_2d(rows)
    if rows.ndim != 2:
        raise OptionError(f"{name} must be (n, H) or (H,); got shape {rows.shape}.")
    return rows


def similarity(a: ArrayLike, b: ArrayLike) -> NDArray[np.float32]:
    """Cosine of every row of `a` (n, H) with every row of `b` (m, H): (n, m); zero rows give 0.

    Raises:
        OptionError: The shapes do not fit.

    Example:
        >>> similarity([[1, 0], [0, 2]], [[3, 0]])
        array([[1.],
               [0.]], dtype=float32)
    """
    left, right = _rows("a", a), _rows("b", b)
    if left.shape[1] != right.shape[1] and (0, 0) not in (left.shape, right.shape):
        raise OptionError(f"a and b must have the same width; got {left.shape} and {right.shape}.")
    if not len(left) or not len(right):
        return np.zeros((len(left), len(right)), np.float32)
    return normalize(left) @ normalize(right).T


def similarity_pairwise(a: ArrayLike, b: ArrayLike) -> NDArray[np.float32]:
    """Cosine of row i of `a` (n, H) with row i of `b` (n, H): (n,); zero rows give 0.

    Raises:
        OptionError: The shapes do not fit.

    Example:
        >>> similarity_pairwise([[1, 0], [0, 2]], [[3, 0], [1, 0]])
        array([1., 0.], dtype=float32)
    """
    left, right = _rows("a", a), _rows("b", b)
    if not len(left) and not len(right):
        return np.zeros(0, np.float32)
    if left.shape != right.shape:
        raise OptionError(f"a and b must have the same shape; got {left.shape} and {right.shape}.")
    result: NDArray[np.float32] = np.einsum("nh,nh->n", normalize(left), normalize(right))
    return result

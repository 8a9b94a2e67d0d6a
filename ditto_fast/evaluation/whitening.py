"""BERT-whitening (Su et al., 2021): y = (x - mu) W with W = U diag(s)^(-1/2), where cov(x) = U diag(s) U^T."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ditto_fast.checks import integer
from ditto_fast.errors import DataError

FloatArray = NDArray[np.float32]


class Whitening:
    """A whitening, fit on embeddings.

    Args:
        embeddings: What to fit on (n, H).
        dimensions: How many of the H directions are kept, largest variance first; all by default.

    Raises:
        DataError: There are too few embeddings for the dimensions asked for.
    """

    def __init__(self, embeddings: FloatArray, dimensions: int | None = None) -> None:
        rows = embeddings.astype(np.float64)
        kept = rows.shape[1] if dimensions is None else integer("dimensions", dimensions, 1, rows.shape[1])
        self._mean = rows.mean(axis=0)
        directions, variances, _ = np.linalg.svd(np.cov(rows.T), hermitian=True)
        rank = int((variances > variances[0] * np.finfo(np.float32).eps).sum())
        if rank < kept:
            raise DataError(
                f"{len(rows)} embeddings span {rank} directions, so {kept} cannot be whitened. Fit on more "
                f"sentences, or keep fewer dimensions: +whitening-{rank}."
            )
        self._matrix = directions[:, :kept] / np.sqrt(variances[:kept])

    def __call__(self, embeddings: FloatArray) -> FloatArray:
        """The whitened embeddings (n, dimensions)."""
        whitened: FloatArray = ((embeddings - self._mean) @ self._matrix).astype(np.float32)
        return whitened

"""Embeddings on their way out: checked for NaN, and in the type that was asked for."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from ditto_fast.errors import MissingDependencyError, NonFiniteError

Float = TypeVar("Float", bound=np.floating)


def check_finite(embeddings: NDArray[Float], nonfinite: str) -> NDArray[Float]:
    """Returns embeddings (n, H) without NaN or infinity; with nonfinite="zero" such rows become zeros.

    Raises:
        NonFiniteError: There are such rows, and nonfinite is "raise"; the message names them.
    """
    bad = ~np.isfinite(embeddings).all(axis=1)
    if bad.any():
        rows = np.flatnonzero(bad).tolist()
        if nonfinite == "raise":
            raise NonFiniteError.of(rows, len(embeddings))
        embeddings[bad] = 0
    return embeddings


def import_torch() -> Any:
    """Imports torch.

    Raises:
        MissingDependencyError: It is not installed.
    """
    try:
        import torch
    except ImportError as error:
        raise MissingDependencyError(f"convert_to_tensor=True needs torch: pip install torch ({error}).") from error
    return torch

"""Embeddings on their way out: checked for NaN, and in the type that was asked for."""

from __future__ import annotations

from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from ditto_fast.checks import integer
from ditto_fast.errors import MissingDependencyError, NonFiniteError
from ditto_fast.quantization import check_quantizable

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


def check_options(
    width: int,
    count: int | None,
    batch_size: int | None,
    truncate_dim: int | None,
    convert_to_tensor: bool,
    precision: str,
) -> None:
    """Passes options of `encode` by which embeddings of that width, so many or any number, can be given.

    Raises:
        MissingDependencyError: torch is not installed.
        OptionError: One is outside its valid values.
    """
    if batch_size is not None:
        integer("batch_size", batch_size)
    if truncate_dim is not None:
        integer("truncate_dim", truncate_dim, 1, width, "the embedding's width")
    check_quantizable(precision, truncate_dim or width, count)
    if convert_to_tensor:
        import_torch()


def as_asked(embeddings: NDArray[Any], single: bool, convert_to_numpy: bool, convert_to_tensor: bool) -> Any:
    """Embeddings (n, H) as an array, a tensor, or a list of arrays with memory of their own; or the only one."""
    result = import_torch().from_numpy(embeddings) if convert_to_tensor else embeddings
    if single:
        return result[0]
    return result if convert_to_numpy or convert_to_tensor else [row.copy() for row in result]


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

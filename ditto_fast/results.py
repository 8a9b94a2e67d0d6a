"""Embeddings on their way out: checked for NaN, shrunk, and in the type that was asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ditto_fast.errors import NonFiniteError

if TYPE_CHECKING:
    import torch


def check_finite(embeddings: NDArray[np.float32], nonfinite: str) -> NDArray[np.float32]:
    """Returns embeddings (n, H) without NaN or infinity; with nonfinite="zero" such rows become zeros.

    Raises:
        NonFiniteError: There are such rows, and nonfinite is "raise"; the message names them.
    """
    bad = ~np.isfinite(embeddings).all(axis=1)
    if bad.any():
        rows = np.flatnonzero(bad).tolist()
        if nonfinite == "raise":
            raise NonFiniteError(
                f"{len(rows)} of {len(embeddings)} embeddings are not finite: rows {rows[:10]}"
                f"{' ...' if len(rows) > 10 else ''}. In fp16 the model may overflow: use an fp32 or int8 graph; "
                "nonfinite='zero' returns zeros for such rows.",
                rows,
            )
        embeddings[bad] = 0
    return embeddings


def convert(result: NDArray[Any], to_numpy: bool, to_tensor: bool) -> NDArray[Any] | torch.Tensor | list[Any]:
    """An array as it is, as a list of rows, or as a torch tensor."""
    if to_tensor:
        import torch

        return torch.from_numpy(np.ascontiguousarray(result))
    return result if to_numpy else list(result)

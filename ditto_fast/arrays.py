"""Embeddings as users have them, turned into numpy's arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def as_array(values: Any) -> NDArray[Any]:
    """Numpy's form of an array, of a torch tensor (on any device, of any type), or of a sequence of them.

    Example:
        >>> as_array([np.zeros(2), np.ones(2)]).shape
        (2, 2)
    """
    if hasattr(values, "detach"):  # a tensor's, of a torch that need not be installed
        tensor = values.detach().cpu()
        array: NDArray[Any] = (tensor.float() if tensor.is_floating_point() else tensor).numpy()
        return array
    if isinstance(values, (list, tuple)) and values and hasattr(values[0], "detach"):
        return np.stack([as_array(value) for value in values])
    return np.asarray(values)

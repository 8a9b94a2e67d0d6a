"""Embeddings as users have them, turned into numpy's arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ditto_fast.errors import OptionError
from ditto_fast.texts import describe


def as_array(name: str, values: Any) -> NDArray[Any]:
    """Numpy's form of an array, of a torch tensor (on any device, of any type), or of a sequence of them.

    Args:
        name: What messages call them.
        values: What the user gave.

    Raises:
        OptionError: They are no numbers, or rows of several widths.

    Example:
        >>> as_array("a", [np.zeros(2), np.ones(2)]).shape
        (2, 2)
    """
    if hasattr(values, "detach"):  # a tensor's, of a torch that need not be installed
        tensor = values.detach().cpu()
        array: NDArray[Any] = (tensor.float() if tensor.is_floating_point() else tensor).numpy()
        return array
    try:
        if isinstance(values, (list, tuple)) and values and hasattr(values[0], "detach"):
            return np.stack([as_array(name, value) for value in values])
        array = np.asarray(values)
    except ValueError as error:
        raise OptionError(
            f"{name} must be rows of one width; got {describe(values)} ({error}). Pass one array (n, H)."
        ) from error
    if array.dtype.kind not in "biuf":
        raise OptionError(
            f"{name} must be numbers; got {describe(values)}, of which numpy makes {array.dtype}. "
            "Pass one array (n, H), such as np.stack(rows)."
        )
    return array

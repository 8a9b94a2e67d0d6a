"""Post-processing that learns, by name: what may follow a pooler's name after "+"."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from ditto_fast.errors import OptionError
from ditto_fast.evaluation.whitening import Whitening

FloatArray = NDArray[np.float32]
Transform = Callable[[FloatArray], FloatArray]

POSTPROCESSES = ("whitening", "whitening-K", "flow")


def check_postprocess(name: str) -> None:
    """Checks the name of a post-processing.

    Raises:
        OptionError: There is none of this name.
    """
    if not re.fullmatch(r"whitening(-[1-9][0-9]*)?|flow", name):
        raise OptionError(
            f"After + one of {', '.join(POSTPROCESSES)} is wanted, K the number of dimensions to keep; got {name!r}."
        )


def fit(name: str, embeddings: FloatArray, seed: int) -> Transform:
    """Fits a post-processing on embeddings (n, H); flow needs torch."""
    check_postprocess(name)
    if name == "flow":
        from ditto_fast.evaluation.with_torch.flow import Flow

        return Flow(embeddings, seed=seed)
    _, _, dimensions = name.partition("-")
    return Whitening(embeddings, int(dimensions) if dimensions else None)

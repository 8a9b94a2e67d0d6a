"""How far a fast path may lie from the eager fp32 reference: the one table of it.

Each value is the largest absolute difference allowed per unit of max(1, largest reference value), so it
also serves hidden states, whose outliers grow with the model. All lie far below 1/sqrt(hidden size)
(0.036 at 768), the size of a typical entry of a unit vector: unrelated vectors always fail.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

TOLERANCES: dict[str, float] = {
    "fp32": 1e-5,  # measured: 2e-6 on MiniLM at 256 tokens; summation order only
}

# Smallest cosine of an embedding with the eager fp32 one, over the verification sentences. On all-MiniLM-L6-v2
# the smallest seen on STS-B is 0.9999 in fp16 and 0.992 in int8; unrelated embeddings lie near 0 to 0.5.
MIN_COSINES: dict[str, float] = {"fp32": 0.99999, "fp16": 0.999, "int8": 0.97}

# Largest share that an embedding's L2 norm may be off, which no cosine sees: a graph that lost the factor 1/2 of Ditto
# is off by 1. On all-MiniLM-L6-v2 the largest seen on STS-B is 0.042 in int8.
MAX_NORM_ERRORS: dict[str, float] = {"fp32": 1e-4, "fp16": 0.01, "int8": 0.1}

# Spearman points (x100) that STS-B dev may lose against the eager fp32 model.
MAX_SPEARMAN_DROPS: dict[str, float] = {"fp32": 0.01, "fp16": 0.1, "int8": 0.5}


def difference(actual: NDArray[np.floating], expected: NDArray[np.floating]) -> float:
    """Largest absolute difference per unit of max(1, largest |expected|); NaN where either has one.

    Example:
        >>> difference(np.array([1.0, 4.5]), np.array([1.0, 4.0]))
        0.125
    """
    if actual.shape != expected.shape:
        return float("nan")
    if expected.size == 0:
        return 0.0
    scale = max(1.0, float(np.abs(expected).max()))
    return float(np.abs(actual - expected).max()) / scale


def norm_error(actual: NDArray[np.floating], expected: NDArray[np.floating]) -> float:
    """Largest share that the L2 norm of a row (H,) of `actual` (n, H) lies off that of `expected`; NaN where one is.

    A row of zeros must be one in both.

    Example:
        >>> norm_error(np.array([[3.0, 4.5]]), np.array([[3.0, 4.0]])) < 0.09
        True
    """
    norms, wanted = (np.linalg.norm(rows.astype(np.float64), axis=-1) for rows in (actual, expected))
    off = np.abs(norms - wanted)
    shares = np.divide(off, wanted, out=np.where(off == 0, 0.0, np.inf), where=wanted > 0)
    shares[np.isnan(off)] = np.nan
    return float(shares.max(initial=0.0))


def within(actual: NDArray[np.floating], expected: NDArray[np.floating], precision: str = "fp32") -> bool:
    """Whether `actual` lies within the table's tolerance of `expected`; False for any NaN or other shape.

    Example:
        >>> within(np.array([np.nan]), np.array([np.nan]))
        False
    """
    return difference(actual, expected) <= TOLERANCES[precision]

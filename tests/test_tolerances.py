from __future__ import annotations

import numpy as np
import pytest

from ditto_fast.tolerances import TOLERANCES, within


@pytest.mark.parametrize("precision", TOLERANCES)
@pytest.mark.parametrize("dim", [384, 768, 1024])
def test_unrelated_unit_vectors_nan_and_other_shapes_never_pass(precision: str, dim: int):
    a, b = np.random.default_rng(0).standard_normal((2, dim))
    a, b = a / np.linalg.norm(a), b / np.linalg.norm(b)
    assert TOLERANCES[precision] < 0.1 / np.sqrt(dim)
    assert within(a, a, precision)
    assert not within(a, b, precision)
    assert not within(a[:-1], a, precision)
    nan = a.copy()
    nan[0] = np.nan
    assert not within(nan, a, precision)
    assert not within(nan, nan, precision)

from __future__ import annotations

import numpy as np
import pytest

from ditto_fast.export.verify import Parity
from ditto_fast.tolerances import TOLERANCES, norm_error, within


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


@pytest.mark.parametrize("factor", [0.5, 0.8, 2.0, 0.0, np.nan])
def test_a_lost_factor_shows_in_the_norm_and_passes_no_parity(factor: float):
    rows = np.random.default_rng(0).standard_normal((3, 8))
    assert norm_error(rows, rows) == 0
    off = norm_error(np.concatenate([rows[:1], factor * rows[1:]]), rows)
    assert not off <= 0.1
    reports = [Parity("model.onnx", 3, {}, None, 1.0, 1.0, 0.97, error, 0.1) for error in (0.05, off)]
    assert [report.passed for report in reports] == [True, False]


def test_a_row_of_zeros_must_be_one_in_both():
    rows = np.array([[0.0, 0.0], [3.0, 4.0]])
    assert norm_error(rows, rows) == 0
    assert norm_error(rows + 1e-3, rows) == np.inf
    assert norm_error(np.zeros((0, 2)), np.zeros((0, 2))) == 0

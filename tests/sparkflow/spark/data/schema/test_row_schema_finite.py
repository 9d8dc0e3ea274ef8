"""Which values are NaN or infinite."""

import numpy as np
import pytest

from sparkflow.spark.data.schema.row_schema import all_finite, nans, not_finite


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_great_numbers_are_finite_though_their_sum_is_not(dtype: type) -> None:
    great = np.full(4, np.finfo(dtype).max)
    assert all_finite(great)
    assert nans(great) is None
    assert not_finite(great) is None


def test_nans_and_infinities_are_told_from_each_other() -> None:
    values = np.array([1.0, np.nan, np.inf, -np.inf])
    found, wrong = nans(values), not_finite(values)
    assert found is not None
    assert wrong is not None
    assert found.tolist() == [False, True, False, False]
    assert wrong.tolist() == [False, True, True, True]
    assert nans(np.array([np.inf, 2.0])) is None

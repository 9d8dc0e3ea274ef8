from typing import Any

import numpy as np
import pytest

from sparkflow_runtime.codegen.machine import native
from sparkflow_runtime.codegen.rows.linear_indices import linear_indices

pytestmark = pytest.mark.skipif(not native.available(), reason="there is no code generator here")


@pytest.mark.parametrize("kind", [np.int32, np.int64])
@pytest.mark.parametrize("shape", [(7,), (3, 50), (2, 3, 4, 5, 6)])
@pytest.mark.parametrize("count", [0, 1, 1000])
def test_slices_are_numbered_in_row_major_order(
    kind: Any, shape: tuple[int, ...], count: int
) -> None:
    rng = np.random.default_rng(0)
    indices = np.stack([rng.integers(0, size, count) for size in shape], 1).astype(kind)
    found = linear_indices(indices, shape)
    assert found is not None
    np.testing.assert_array_equal(found, np.ravel_multi_index(tuple(indices.T), shape))


@pytest.mark.parametrize("wrong", [-1, 5, 2**31 - 1, -(2**31)])
@pytest.mark.parametrize("column", [0, 1])
def test_an_index_out_of_bounds_is_found(wrong: int, column: int) -> None:
    indices = np.zeros((20, 2), np.int32)
    indices[13, column] = wrong
    assert linear_indices(indices, (5, 5)) is None


def test_what_there_is_no_code_for() -> None:
    assert linear_indices(np.zeros((3, 2), np.int16), (5, 5)) is None
    assert linear_indices(np.zeros((2, 3), np.int32).T, (5, 5)) is None
    assert linear_indices(np.zeros((3, 9), np.int32), (2,) * 9) is None
    assert linear_indices(np.zeros((3, 0), np.int32), ()) is None

import numpy as np
import pytest

from sparkflow_runtime.codegen.machine import native
from sparkflow_runtime.codegen.rows import fixed_rows
from sparkflow_runtime.dtypes import DType, as_dtype, int32, int64

pytestmark = pytest.mark.skipif(not native.available(), reason="needs llvmlite")
NUMBERS = [pytest.param(each, id=each.name) for each in fixed_rows.NUMBERS]


@pytest.mark.parametrize("index", [int32, int64])
@pytest.mark.parametrize("shape", [(5,), (5, 3), (5, 40), (5, 0)])
def test_rows_are_copied(index: DType, shape: tuple[int, ...]) -> None:
    table = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    ids = np.array([4, 0, 4, 2], index.numpy)
    out, failure = np.full((4, *shape[1:]), -1, np.float32), np.array(7, np.int32)
    row_bytes = table[0].nbytes
    fixed_rows.bind_gather(index, 4, 5, row_bytes)(table, ids, out, failure)
    np.testing.assert_array_equal(out, table[ids])
    assert failure == 0


@pytest.mark.parametrize("wrong", [-1, 5, 2**31 - 1])
def test_rows_that_there_are_not(wrong: int) -> None:
    table, failure = np.zeros((5, 2)), np.array(0, np.int32)
    ids = np.array([1, wrong], np.int32)
    fixed_rows.bind_gather(int32, 2, 5, 16)(table, ids, np.empty((2, 2)), failure)
    assert failure != 0
    fixed_rows.bind_segment_sum(int32, as_dtype(np.float64), 2, 5, 2)(
        table[:2], ids, np.empty((5, 2)), failure
    )
    assert bool(failure) == (wrong > 0)  # negative ones are dropped


@pytest.mark.parametrize("number", NUMBERS)
@pytest.mark.parametrize("row", [1, 3, 33])
def test_segments_are_summed(number: DType, row: int) -> None:
    rows = np.arange(6 * row).reshape(6, row).astype(number.numpy)
    ids = np.array([2, 0, 2, -1, 0, 2], np.int64)
    sums, failure = np.full((4, row), 9, number.numpy), np.array(7, np.int32)
    fixed_rows.bind_segment_sum(int64, number, 6, 4, row)(rows, ids, sums, failure)
    expected = np.zeros_like(sums)
    np.add.at(expected, ids[ids >= 0], rows[ids >= 0])
    np.testing.assert_array_equal(sums, expected)
    assert failure == 0
    fixed_rows.bind_segment_sum(int64, number, 6, 4, row, adds=True)(rows, ids, sums, failure)
    np.testing.assert_array_equal(sums, 2 * expected)


@pytest.mark.parametrize("number", NUMBERS)
@pytest.mark.parametrize(
    "shape", [(1, 1, 1), (2, 5, 1), (3, 9, 4), (40, 7, 1), (3, 6, 12), (2, 4, 33), (1, 5, 64)]
)
@pytest.mark.parametrize("is_least", [False, True])
def test_extremes_pass_nan(number: DType, shape: tuple[int, int, int], is_least: bool) -> None:
    array = np.random.default_rng(0).integers(-3, 4, shape).astype(number.numpy)
    if number.is_floating and shape[1] > 1:
        array[0, 2, 0], array[-1, 3], array[-1, 2, -1] = np.nan, np.inf, np.nan
        array[0, 0], array[-1, :, -1] = np.nan, np.nan
    worst = np.inf if is_least else -np.inf
    plain = np.where(np.isnan(array), worst, array)
    for position in fixed_rows.INDICES:
        out = np.full((shape[0], shape[2]), -1, position.numpy)
        fixed_rows.bind_extreme(number, position, is_least, shape)(array, out)
        np.testing.assert_array_equal(out, (np.argmin if is_least else np.argmax)(plain, 1))


@pytest.mark.parametrize("number", fixed_rows.FLOATS, ids=str)
@pytest.mark.parametrize("is_least", [False, True])
def test_rows_with_nan_are_searched_again(number: DType, is_least: bool) -> None:
    array = np.random.default_rng(0).integers(-3, 4, (5, 9)).astype(number.numpy)
    array[1, 2] = array[2] = array[3, :8] = array[4, 0] = np.nan
    out = (np.argmin if is_least else np.argmax)(array, 1)
    fixed_rows.bind_extreme_again(number, is_least, array.shape)(array, out)
    plain = np.where(np.isnan(array), np.inf if is_least else -np.inf, array)
    np.testing.assert_array_equal(out, (np.argmin if is_least else np.argmax)(plain, 1))

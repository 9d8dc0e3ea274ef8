import numpy as np
import pytest

from sparkflow_runtime.codegen.cpu.parts import ADDED, Along, bind_part
from sparkflow_runtime.codegen.machine import native
from sparkflow_runtime.dtypes import int32, int64

pytestmark = pytest.mark.skipif(not native.available(), reason="needs llvmlite")
ARRAY = np.arange(120, dtype=np.float32).reshape(2, 3, 4, 5)


@pytest.mark.parametrize("index", [int32, int64])
@pytest.mark.parametrize(
    ("taken", "entries", "begin"),
    [
        ((1, 3, 4, 5), (0, None, None, None), [1]),
        ((2, 3, 4, 1), (None, None, None, 0), [3]),
        ((1, 1, 2, 5), (0, 1, 2, None), [0, 2, 2]),
        ((2, 2, 4, 2), (None, 1, None, 0), [3, 1]),
        ((2, 3, 4, 5), (0, None, None, 1), [0, 0]),
        ((2, 3, 4, 5), (None, None, None, None), [0]),
        ((0, 3, 4, 5), (0, None, None, None), [2]),
    ],
)
def test_a_part_is_copied_and_put_back(index, taken, entries, begin):
    dims = [Along(*each) for each in zip(ARRAY.shape, taken, entries, strict=True)]
    starts = [0 if entry is None else begin[entry] for entry in entries]
    where = tuple(slice(n, n + m) for n, m in zip(starts, taken, strict=True))
    part, failure = np.full(taken, -1, np.float32), np.array(7, np.int32)
    numbers = np.array(begin, index.numpy)
    bind_part(dims, 4, index)(ARRAY, numbers, part, failure)
    np.testing.assert_array_equal(part, ARRAY[where])
    assert failure == 0
    whole, expected = np.full_like(ARRAY, -1), np.zeros_like(ARRAY)
    expected[where] = part
    bind_part(dims, 4, index, puts=True)(part, numbers, whole, failure)
    np.testing.assert_array_equal(whole, expected)


@pytest.mark.parametrize("number", ADDED)
def test_a_part_is_added(number):
    array = np.arange(24).reshape(2, 3, 4).astype(number.numpy)
    part, failure = np.full((1, 2, 4), 5, number.numpy), np.array(7, np.int32)
    expected = array.copy()
    expected[1:, 1:] += part
    dims = [Along(2, 1, 0), Along(3, 2, 1), Along(4, 4, None)]
    add = bind_part(dims, array.itemsize, int32, adds=number)
    add(part, np.array([1, 1], np.int32), array, failure)
    np.testing.assert_array_equal(array, expected)
    assert failure == 0
    add(part, np.array([2, 1], np.int32), array, failure)
    np.testing.assert_array_equal(array, expected)
    assert failure != 0


@pytest.mark.parametrize(
    ("begin", "wraps", "found"),
    [
        (0, False, 0),
        (3, False, 3),
        (4, False, None),
        (-1, False, None),
        (-2, True, 3),
        (-1, True, None),
        (-5, True, 0),
        (-6, True, None),
    ],
)
def test_parts_beyond_the_array_are_refused(begin, wraps, found):
    array, part = np.arange(5.0), np.full(2, -1.0)
    failure = np.array(7, np.int32)
    bind_part([Along(5, 2, 0, wraps)], 8, int64)(array, np.array([begin]), part, failure)
    assert (failure != 0) == (found is None)
    assert part.tolist() == ([-1, -1] if found is None else [found, found + 1])

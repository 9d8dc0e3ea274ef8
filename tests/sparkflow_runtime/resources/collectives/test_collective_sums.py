"""The arithmetic of collectives."""

import ml_dtypes
import numpy as np
import pytest

from sparkflow_runtime.dtypes import wide
from sparkflow_runtime.resources.collectives.collective_sums import PIECE, Merge, merge_into

NUMPY = {"Add": np.add, "Mul": np.multiply, "Min": np.minimum, "Max": np.maximum}
DTYPES = [np.float16, ml_dtypes.bfloat16, np.float32, np.float64, np.int32, np.int64]


def parts_of(dtype, count, length, seed=0):
    rng = np.random.default_rng(seed)
    return [(rng.standard_normal(length) * 4 + 6).astype(dtype) for _ in range(count)]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("op", NUMPY)
@pytest.mark.parametrize("length", [0, 1, PIECE + 3])
@pytest.mark.parametrize("count", [1, 2, 3])
def test_parts_are_merged_from_left_to_right(dtype, op, length, count):
    parts = parts_of(dtype, count, length)
    expected = parts[0].astype(wide(np.dtype(dtype)))
    for part in parts[1:]:
        expected = NUMPY[op](expected, part.astype(expected.dtype))
    merge_into(parts[-1], parts, Merge(op), range(count))
    np.testing.assert_array_equal(parts[-1], expected.astype(dtype))


def test_half_precision_is_rounded_once():
    parts = [np.array([value], np.float16) for value in (2048, 1, 1)]
    out = np.empty(1, np.float16)
    merge_into(out, parts, Merge("Add"), range(3))
    assert out[0] == 2050  # 2048 + 1 is 2048 in float16


def test_sums_are_divided_when_they_are_complete():
    parts = [np.array([3.0, -4.0]), np.array([2.0, 1.0])]
    out = np.empty(2)
    merge_into(out, parts, Merge("Add", 2), range(2), is_last=False)
    np.testing.assert_array_equal(out, [5, -3])
    merge_into(out, parts, Merge("Add", 2), range(2))
    np.testing.assert_array_equal(out, [2.5, -1.5])


def test_integers_are_divided_towards_zero():
    out = np.array([7, -7, 6], np.int32)
    merge_into(out, [out, np.zeros(3, np.int32)], Merge("Add", 2), range(2))
    np.testing.assert_array_equal(out, [3, -3, 3])


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16])
def test_shares_weigh_the_parts(dtype):
    parts = parts_of(dtype, 3, 100)
    out = np.empty(100, dtype)
    shares = (0.5, 0.25, 0.25)
    merge_into(out, parts, Merge("Add", shares=shares), range(3))
    kind = wide(np.dtype(dtype))
    expected = sum(p.astype(kind) * kind.type(s) for p, s in zip(parts, shares, strict=True))
    np.testing.assert_array_equal(out, expected.astype(dtype))


def test_parts_without_a_share_do_not_count_whatever_they_are():
    parts = [np.array([np.nan, np.inf]), np.array([1.0, 2.0])]
    out = np.empty(2)
    merge_into(out, parts, Merge("Add", shares=(0.0, 1.0)), range(2))
    np.testing.assert_array_equal(out, [1, 2])
    merge_into(out, parts, Merge("Add", shares=(0.0, 0.0)), range(2))
    np.testing.assert_array_equal(out, [0, 0])


def test_shares_belong_to_ranks():
    parts = [np.array([8.0]), np.array([2.0])]
    out = np.empty(1)
    merge_into(out, parts, Merge("Add", shares=(0.5, 0.25, 0.25)), [2, 0])
    assert out[0] == 3

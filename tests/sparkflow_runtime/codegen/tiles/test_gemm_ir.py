import itertools
from dataclasses import replace

import numpy as np
import pytest

from sparkflow_runtime.codegen.machine import native
from sparkflow_runtime.codegen.tiles.gemm_form import Size
from sparkflow_runtime.codegen.tiles.gemm_ir import text
from support.tiles import FORMS, body_of, packed, strides

pytestmark = pytest.mark.skipif(not native.available(), reason="makes machine code")

SIZES = (1, 2, 13, 40, 67)


def product(form, left, right, parts=(1, 1, 1)):
    """The product of stacks of matrices, computed part after part."""
    body = body_of(text, form)
    count, m, k = left.shape
    n = right.shape[-1]
    out = np.full((count, m, n), np.nan, left.dtype)
    sizes = np.zeros(len(Size), np.int64)
    sizes[[Size.M, Size.N, Size.K, Size.COUNT, Size.GROUP]] = m, n, k, count, count
    sizes[[Size.LEFT_NEXT, Size.LEFT_ROW, Size.LEFT_DEPTH]] = strides(left)
    sizes[[Size.RIGHT_NEXT, Size.RIGHT_DEPTH, Size.RIGHT_COLUMN]] = strides(right)
    sizes[[Size.OUT_NEXT, Size.OUT_ROW]] = strides(out)[:2]
    sizes[[Size.COUNT_PARTS, Size.ROW_PARTS, Size.COLUMN_PARTS]] = parts
    arrays = np.array([each.ctypes.data for each in (left, right, out)], np.int64)
    for part in range(np.prod(parts)):
        body(sizes.ctypes.data, arrays.ctypes.data, 0, 0, part)
    return out


def packed_product(form, left, right, parts):
    """The product of two matrices, the right one of which is packed first."""
    (m, k), n = left.shape, right.shape[-1]
    columns = form.packed_columns(n)
    factor = packed(form, right)
    sizes = np.zeros(len(Size), np.int64)
    sizes[[Size.M, Size.N, Size.K, Size.COUNT, Size.GROUP]] = m, n, k, 1, 1
    out = np.full((m, n), np.nan, left.dtype)
    sizes[[Size.LEFT_ROW, Size.LEFT_DEPTH]] = strides(left)
    sizes[[Size.RIGHT_DEPTH, Size.RIGHT_COLUMN, Size.OUT_ROW]] = columns, 0, n
    sizes[[Size.COUNT_PARTS, Size.ROW_PARTS, Size.COLUMN_PARTS]] = 1, *parts
    arrays = np.array([each.ctypes.data for each in (left, factor, out)], np.int64)
    body = body_of(text, replace(form, right_is_packed=True))
    for part in range(np.prod(parts)):
        body(sizes.ctypes.data, arrays.ctypes.data, 0, 0, part)
    return out


def matrices(form, shape, turned, seed):
    dtype = np.float32 if form.element == "float" else np.float64
    values = np.random.default_rng(seed).integers(-4, 5, shape).astype(dtype)
    return np.ascontiguousarray(values.swapaxes(-1, -2)).swapaxes(-1, -2) if turned else values


@pytest.mark.parametrize("name", list(FORMS))
@pytest.mark.parametrize("left_turned", [False, True])
@pytest.mark.parametrize("right_turned", [False, True])
def test_products_are_exact_for_small_whole_numbers(name, left_turned, right_turned):
    form = FORMS[name]
    for m, n, k in itertools.product(SIZES, SIZES, SIZES):
        left = matrices(form, (1, m, k), left_turned, m)
        right = matrices(form, (1, k, n), right_turned, n)
        np.testing.assert_array_equal(product(form, left, right), left @ right)


@pytest.mark.parametrize("name", list(FORMS))
@pytest.mark.parametrize("left_turned", [False, True])
@pytest.mark.parametrize("right_turned", [False, True])
@pytest.mark.parametrize("parts", [(1, 1), (2, 3)])
def test_packed_factors_are_read_as_they_were_written(name, left_turned, right_turned, parts):
    form = FORMS[name]
    for m, n, k in itertools.product((7, 40), (form.columns + 1, 67, 120), (1, 23, 67)):
        left = matrices(form, (m, k), left_turned, m)
        right = matrices(form, (k, n), right_turned, n)
        np.testing.assert_array_equal(packed_product(form, left, right, parts), left @ right)


@pytest.mark.parametrize("parts", [(2, 1, 1), (1, 3, 2), (3, 2, 3), (1, 40, 40)])
def test_parts_together_are_the_whole(parts):
    form = FORMS["sse"]
    left, right = matrices(form, (4, 29, 31), False, 1), matrices(form, (4, 31, 37), False, 2)
    np.testing.assert_array_equal(product(form, left, right, parts), left @ right)


def test_nothing_is_read_beside_the_factors():
    form = FORMS["sse"]
    around = np.full((1, 21, 23), np.nan, np.float32)
    left, right = around[:, 1:14, 1:8].copy(), around[:, 1:8, 1:20]
    left[...], right[...] = 1, 2
    np.testing.assert_array_equal(product(form, left, right), np.full((1, 13, 19), 14))


def test_infinite_and_missing_numbers():
    form = FORMS["avx"]
    left = matrices(form, (1, 9, 9), False, 3)
    right = matrices(form, (1, 9, 9), False, 4)
    left[0, 2, 3], left[0, 8, 8] = np.nan, np.inf
    found = product(form, left, right)
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(found, left @ right)
    assert np.isnan(found[0, 2]).all()

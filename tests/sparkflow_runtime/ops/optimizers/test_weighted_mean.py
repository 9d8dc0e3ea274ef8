"""Weighted means against float64, by machine code and by numpy."""

import numpy as np
import pytest

from sparkflow_runtime.dtypes import bfloat16, float16
from sparkflow_runtime.ops.optimizers.weighted_mean import (
    MOST_AT_ONCE,
    scaled,
    weighted_mean,
    weighted_means,
)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("shape", [(), (3,), (0, 4), (20, 30)])
@pytest.mark.parametrize("count", [1, 2, 5, 2 * MOST_AT_ONCE + 1])
def test_it_is_the_mean_over_all_rows(dtype, shape, count):
    random = np.random.default_rng(count)
    arrays = [random.standard_normal(shape).astype(dtype) for _ in range(count)]
    weights = [float(w) for w in random.integers(1, 9, count)]
    before = [array.copy() for array in arrays]
    mean = weighted_mean(arrays, weights)
    expected = np.average([a.astype(np.float64) for a in arrays], axis=0, weights=weights)
    assert mean.dtype == dtype
    assert mean.shape == shape
    tolerance = {np.float16: 4e-3, np.float32: 1e-6, np.float64: 1e-14}[dtype]
    np.testing.assert_allclose(mean, expected, rtol=tolerance, atol=tolerance)
    for array, kept in zip(arrays, before, strict=True):
        np.testing.assert_array_equal(array, kept)


def test_gaps_in_memory_do_not_matter():
    wide = np.arange(2 * 400, dtype=np.float32).reshape(400, 2)
    mean = weighted_mean([wide[:, 0], wide[:, 1]], [1.0, 3.0])
    np.testing.assert_allclose(mean, wide[:, 0] / 4 + wide[:, 1] * 3 / 4)


def test_what_weighs_nothing_is_not_looked_at():
    ones, broken = np.ones(300, np.float32), np.full(300, np.nan, np.float32)
    np.testing.assert_array_equal(weighted_mean([broken, ones], [0.0, 2.0]), ones)
    np.testing.assert_array_equal(weighted_mean([broken, broken], [0.0, 0.0]), np.zeros(300))


def test_the_mean_of_one_is_it_bit_for_bit_in_an_array_of_its_own():
    values = np.random.default_rng(1).standard_normal(1000).astype(np.float32)
    mean = weighted_mean([values], [7.0])
    np.testing.assert_array_equal(mean, values)
    assert not np.shares_memory(mean, values)


def test_many_arrays_have_the_same_means_as_each_alone():
    random = np.random.default_rng(2)
    shapes = [(3,), (), (200, 100), (0, 2), (20, 30)]
    kinds = [np.float32, np.float64, np.float32, np.float32, np.float64]
    contributions = [
        tuple(
            np.asarray(random.standard_normal(shape)).astype(kind)
            for shape, kind in zip(shapes, kinds, strict=True)
        )
        for _ in range(3)
    ]
    weights = [2.0, 0.0, 5.0]
    means = weighted_means(contributions, weights)
    for mean, arrays in zip(means, zip(*contributions, strict=True), strict=True):
        expected = weighted_mean(arrays, weights)
        assert (mean.shape, mean.dtype) == (expected.shape, expected.dtype)
        np.testing.assert_allclose(mean, expected, rtol=3e-7, atol=1e-7)
    assert weighted_means([(), ()], [1.0, 1.0]) == []


@pytest.mark.parametrize("dtype", [float16, bfloat16], ids=lambda each: each.name)
@pytest.mark.parametrize("count", [3, 7, 2 * MOST_AT_ONCE + 1])
def test_16_bits_are_rounded_once(dtype, count):
    """A third in bfloat16 is 0.334: what three replicas agree on used to grow with each mean."""
    value = np.linspace(0.1, 300, 5000).astype(dtype.as_numpy_dtype)
    np.testing.assert_array_equal(weighted_mean([value] * count, [1.0] * count), value)
    third = (value.astype(np.float64) / 3).astype(np.float32).astype(value.dtype)
    assert scaled(value, 1 / 3).dtype == value.dtype
    np.testing.assert_array_equal(scaled(value, 1 / 3), third)


@pytest.mark.parametrize(
    ("values", "dtype", "expected"),
    [
        ([[3, 5, 700], [3, 5, 700]], np.int32, [3, 5, 700]),
        ([[2**62 + 1, 0], [2**62 + 1, 4]], np.int64, [2**62 + 1, 3]),
        ([[0, 10], [4, 20]], np.int64, [3, 18]),
        ([[True, False], [True, False]], np.bool_, [True, False]),
        ([[b"a", b"b"], [b"a", b"b"]], object, [b"a", b"b"]),
    ],
)
def test_what_is_no_float_keeps_its_kind(values, dtype, expected):
    arrays = [np.array(each, dtype) for each in values]
    (mean,) = weighted_means([[each] for each in arrays], [1.0, 3.0])
    assert mean.dtype == dtype
    assert mean.tolist() == expected
    mean[...] = arrays[1]  # it is the caller's
    assert arrays[0].tolist() == values[0]


@pytest.mark.parametrize("dtype", [np.complex64, np.complex128])
def test_complex_numbers_have_a_mean(dtype):
    mean = weighted_mean([np.array([1 + 2j], dtype), np.array([5 - 2j], dtype)], [1.0, 3.0])
    assert mean.dtype == dtype
    assert mean.tolist() == [4 - 1j]

import numpy as np
import pytest

from sparkflow_runtime.codegen.machine import native
from sparkflow_runtime.dtypes import bfloat16, float16, float32, float64
from sparkflow_runtime.ops.kernels import narrow_kernels

EDGES = np.array(
    [0.0, -0.0, 1.0, -1.5, np.inf, -np.inf, np.nan, 65504, 65519, 65520, 1e-8, 6e-8, 1e-42, 3e38],
    np.float32,
)
needs_machine_code = pytest.mark.skipif(not native.available(), reason="llvmlite is not installed")


def bits(array):
    return np.where(np.isnan(array.astype(np.float32)), 0, array.view(f"u{array.itemsize}"))


@needs_machine_code
@pytest.mark.parametrize("count", [0, 1, 15, 16, 17, 5000, (1 << 20) + 3])
@pytest.mark.parametrize("dtype", [float16, bfloat16])
def test_conversions_are_numpys_to_the_bit(dtype, count):
    values = np.random.default_rng(0).normal(size=count).astype(np.float32) * 300
    values[: min(count, EDGES.size)] = EDGES[:count]
    with np.errstate(over="ignore"):
        expected = values.astype(dtype.numpy)
    narrow = np.empty(count, dtype.numpy)
    assert narrow_kernels.kernel(float32, dtype)(values, narrow)
    np.testing.assert_array_equal(bits(narrow), bits(expected))
    assert np.array_equal(np.isnan(narrow), np.isnan(values))
    wide = np.empty(count, np.float32)
    assert narrow_kernels.kernel(dtype, float32)(narrow, wide)
    np.testing.assert_array_equal(wide, expected.astype(np.float32))


@needs_machine_code
def test_arrays_with_gaps_and_other_dtypes_are_left_alone():
    convert = narrow_kernels.kernel(float32, float16)
    assert not convert(np.ones(8, np.float32)[::2], np.empty(4, np.float16))
    assert not convert(np.float32(1), np.empty(1, np.float16))
    assert narrow_kernels.kernel(float64, float16) is None


@pytest.mark.parametrize("count", [1, 16, 17, 5000])
def test_rounding_by_chance_is_the_same_without_machine_code(monkeypatch, count):
    values = np.random.default_rng(0).normal(size=count).astype(np.float32) * 300
    values[: min(count, EDGES.size)] = EDGES[:count]
    found = narrow_kernels.rounded_by_chance(values, 12345)
    monkeypatch.setattr(native, "available", lambda: False)
    np.testing.assert_array_equal(
        found.view(np.uint16), narrow_kernels.rounded_by_chance(values, 12345).view(np.uint16)
    )
    assert np.array_equal(np.isnan(found.astype(np.float32)), np.isnan(values))
    assert np.array_equal(np.isinf(found.astype(np.float32)), np.isinf(values))


def test_chance_rounds_to_the_number_on_average():
    values = np.linspace(-2, 2, 1001, dtype=np.float32)
    rounds = [narrow_kernels.rounded_by_chance(values, seed) for seed in range(2000)]
    found = np.stack(rounds).astype(np.float32)
    below, above = found.min(0), found.max(0)
    assert ((above - below) <= np.maximum(np.abs(values), 1e-38) / 128).all()
    # Six standard deviations of a mean of 2,000 rounds.
    np.testing.assert_array_less(
        np.abs(found.mean(0) - values), (above - below) * 3 / 2000**0.5 + 1e-6
    )
    changes = np.corrcoef(found[:, 100] > values[100], found[:, 101] > values[101])[0, 1]
    assert abs(changes) < 0.2 or np.isnan(changes)


def test_widened_without_machine_code(monkeypatch):
    values = EDGES.astype(bfloat16.numpy)
    monkeypatch.setattr(native, "available", lambda: False)
    np.testing.assert_array_equal(narrow_kernels.widened(values), values.astype(np.float32))
    np.testing.assert_array_equal(bits(narrow_kernels.rounded(EDGES)), bits(values))

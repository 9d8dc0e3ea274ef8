from typing import Any

import ml_dtypes
import numpy as np
import pytest

from sparkflow_runtime.ops.kernels.ordering import descending, largest_of_long

DTYPES = ("f2", "f4", "f8", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", ml_dtypes.bfloat16)


def stable(value: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The order by a sort of (element, position), one row after the other."""

    def by(row: list[Any]) -> list[int]:
        def key(place: int) -> tuple[bool, Any, int]:
            is_nan = row[place] != row[place]
            return not is_nan, 0 if is_nan else -row[place], place

        return sorted(range(len(row)), key=key)

    rows = value.reshape(-1, value.shape[-1]).tolist()
    return np.array([by(row) for row in rows]).reshape(value.shape)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(5000,), (3, 40, 50), (70, 64), (9, 7), (0, 5)])
def test_the_order_of_any_numbers(dtype: Any, shape: tuple[int, ...]) -> None:
    rng = np.random.default_rng(sum(shape))
    kind = np.dtype(dtype)
    if kind.kind in "iu":
        limits = np.iinfo(kind)
        value = rng.integers(limits.min, limits.max, shape, kind, endpoint=True)
        value[..., :2] = limits.min
        value[..., -2:] = limits.max
    else:
        value = rng.normal(size=shape).astype(kind)
    value[rng.random(shape) < 0.3] = 3
    np.testing.assert_array_equal(descending(value), stable(value))


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8", ml_dtypes.bfloat16])
def test_zeros_are_equal_infinities_last_and_nan_is_the_largest(dtype: Any) -> None:
    rng = np.random.default_rng(0)
    numbers = [0.0, -0.0, np.inf, -np.inf, np.nan, -np.nan, 1e-7, -1e-7, 1.0]
    value = rng.choice(np.array(numbers).astype(dtype), (30, 200))
    np.testing.assert_array_equal(descending(value), stable(value))


@pytest.mark.parametrize("count", [1, 33, 100, 1000])
@pytest.mark.parametrize("size", [1 << 14, 20_011, 100_003])
@pytest.mark.parametrize("values", ["numbers", "few", "equal", "rising"])
def test_the_largest_of_a_long_row(count: int, size: int, values: str) -> None:
    rng = np.random.default_rng(size)
    row = {
        "numbers": rng.normal(size=size).astype(np.float32),
        "few": rng.integers(0, 5, size),
        "equal": np.ones(size, np.int32),
        "rising": np.arange(size, dtype=np.float64),
    }[values]
    found = largest_of_long(row, count)
    assert found is not None
    np.testing.assert_array_equal(found, descending(row)[:count])


def test_what_is_no_long_row_is_left_to_others() -> None:
    row = np.arange(1 << 14, dtype=np.float32)
    assert largest_of_long(row[:-1], 3) is None
    assert largest_of_long(row, 2000) is None
    for place in (0, 9_000, -1):
        with_nan = row.copy()
        with_nan[place] = np.nan
        assert largest_of_long(with_nan, 100) is None

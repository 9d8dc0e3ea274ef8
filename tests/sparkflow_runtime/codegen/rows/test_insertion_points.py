from typing import Any, Literal

import numpy as np
import pytest

from sparkflow_runtime.codegen.machine import native, threads
from sparkflow_runtime.codegen.rows.insertion_points import insertion_points

SIDES: tuple[Literal["left", "right"], ...] = ("left", "right")


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("dtype", ["f4", "f8", "i4", "i8"])
@pytest.mark.parametrize("size", [0, 1, 2, 3, 10, 31, 32, 33, 64, 65, 1000, 4097])
@pytest.mark.parametrize("count", [0, 5, 256, 1003])
def test_places_are_those_of_numpy(
    side: Literal["left", "right"], dtype: str, size: int, count: int
) -> None:
    rng = np.random.default_rng(size)
    for spread in (5, 10_000):  # with and without many equal elements
        ordered = np.sort(rng.integers(-spread, spread, size)).astype(dtype)
        values = rng.integers(-spread - 2, spread + 2, count).astype(dtype)
        found = insertion_points(ordered, values, side)
        np.testing.assert_array_equal(found, np.searchsorted(ordered, values, side))


@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("size", [7, 100])
def test_infinities_zeros_and_nan_are_in_the_place_of_numpy(side: Any, size: int) -> None:
    rng = np.random.default_rng(0)
    special = np.array([0.0, -0.0, np.inf, -np.inf, 1.0], np.float32)
    ordered = np.sort(rng.choice(special, size))
    values = rng.choice(special, (20, 20))
    expected = np.searchsorted(ordered, values, side)
    np.testing.assert_array_equal(insertion_points(ordered, values, side), expected)
    values[3, 4] = np.nan
    expected = np.searchsorted(ordered, values, side)
    np.testing.assert_array_equal(insertion_points(ordered, values, side), expected)
    ordered[-2:] = np.nan
    expected = np.searchsorted(ordered, values, side)
    np.testing.assert_array_equal(insertion_points(ordered, values, side), expected)


@pytest.mark.parametrize("size", [10, 5000])
def test_several_threads_find_the_same(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "count", lambda: 2)
    rng = np.random.default_rng(0)
    ordered, values = np.sort(rng.normal(size=size)), rng.normal(size=100_001)
    found = insertion_points(ordered, values, "left")
    np.testing.assert_array_equal(found, np.searchsorted(ordered, values))


def test_numpy_finds_them_without_machine_code(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native, "available", lambda: False)
    ordered, values = np.arange(100.0), np.linspace(-5, 105, 1000)
    found = insertion_points(ordered, values, "right")
    np.testing.assert_array_equal(found, np.searchsorted(ordered, values, "right"))

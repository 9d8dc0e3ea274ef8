"""Sorting by digits, against numpy's stable sort."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sparkflow_runtime.codegen.machine import native
from sparkflow_runtime.codegen.rows import radix

pytestmark = pytest.mark.skipif(not native.available(), reason="needs llvmlite")


def random_rows(shape: tuple[int, ...], dtype: Any, what: str) -> Any:
    generator = np.random.default_rng(9)
    if what == "few":
        return generator.integers(-3, 3, shape).astype(dtype)
    if np.issubdtype(dtype, np.integer):
        limits = np.iinfo(dtype)
        values = generator.integers(limits.min, limits.max, shape, dtype, endpoint=True)
        values.reshape(-1)[:3] = limits.min, limits.max, 0
        return values
    values = (generator.standard_normal(shape) * 10.0 ** generator.integers(-9, 9, shape)).astype(
        dtype
    )
    if what == "special":
        special = [np.nan, -np.nan, np.inf, -np.inf, 0.0, -0.0, np.finfo(dtype).tiny / 4]
        chosen = generator.random(shape) < 0.3
        values[chosen] = generator.choice(np.array(special, dtype), int(chosen.sum()))
    return values


@pytest.mark.parametrize("what", ["any", "few", "special"])
@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.float32, np.float64])
@pytest.mark.parametrize("shape", [(512,), (3, 1000), (2, 5, 700), (40_000,), (9, 5000)])
def test_descending(shape: tuple[int, ...], dtype: Any, what: str) -> None:
    values = random_rows(shape, dtype, what)
    last = shape[-1] - 1
    order = (last - np.argsort(values[..., ::-1], axis=-1, kind="stable"))[..., ::-1]
    for count in (1, shape[-1] // 2, shape[-1]):
        found = radix.descending(values, count)
        assert found is not None
        wanted = order[..., :count]
        np.testing.assert_array_equal(found[1], wanted)
        chosen = np.take_along_axis(values, wanted, -1)
        assert found[0].tobytes() == chosen.tobytes()


@pytest.mark.parametrize("top", [1, 2, 1 << 8, 1 << 11, 1 << 22, 1 << 31, 1 << 45, 1 << 63])
def test_the_order_is_stable(top: int) -> None:
    generator = np.random.default_rng(0)
    for numbers in (generator.integers(0, top, 3000), generator.integers(-top, top, 3000)):
        for given in (numbers, np.sort(numbers)[::-1], np.repeat(numbers, 2)[::2]):
            found = radix.ascending_order(given)
            assert found is not None
            np.testing.assert_array_equal(found, np.argsort(given, kind="stable"))


def test_large_rows_need_no_kept_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(radix, "_KEPT_BYTES", 0)
    numbers = random_rows((2000,), np.int32, "any")
    found = radix.ascending_order(numbers)
    np.testing.assert_array_equal(found, np.argsort(numbers, kind="stable"))


def test_what_is_left_to_numpy() -> None:
    values = np.zeros((2, 600), np.float32)
    assert radix.descending(values, 0) is None
    assert radix.descending(values, 601) is None
    assert radix.descending(values[:, :511], 5) is None
    assert radix.descending(values[:0], 5) is None
    assert radix.descending(values[:, ::-1], 5) is None
    assert radix.descending(values.astype(np.float16), 5) is None
    assert radix.descending(values.astype(">f4"), 5) is None
    assert radix.ascending_order(np.arange(100)) is None
    assert radix.ascending_order(np.arange(0)) is None

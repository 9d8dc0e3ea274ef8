"""Sums of sparse tensors in order, against a dictionary."""

from typing import Any

import numpy as np
import pytest

from sparkflow_runtime.codegen.machine import native
from sparkflow_runtime.codegen.sparse.sums import added

pytestmark = pytest.mark.skipif(not native.available(), reason="there is no code generator here")

Array = np.ndarray[Any, Any]


def elements(rng: np.random.Generator, count: int, rank: int, dtype: Any) -> tuple[Array, ...]:
    positions = np.unique(rng.integers(0, 3**rank, count))
    indices = np.stack(np.unravel_index(positions, (3,) * rank), 1).astype(np.int64)
    return indices, rng.integers(-4, 5, len(positions)).astype(dtype), positions


@pytest.mark.parametrize("threshold", [0, 3])
@pytest.mark.parametrize("rank", [1, 2, 5])
@pytest.mark.parametrize("dtype", ["f4", "f8", "i4", "i8"])
def test_sums(dtype: str, rank: int, threshold: int) -> None:
    rng = np.random.default_rng(0)
    for counts in ((0, 0), (0, 5), (5, 0), (1, 1), (60, 60), (200, 3)):
        a, b = (elements(rng, count, rank, dtype) for count in counts)
        wanted: dict[tuple[int, ...], Any] = {}
        for indices, values, _ in (a, b):
            for place, value in zip(indices.tolist(), values, strict=True):
                wanted[tuple(place)] = wanted.get(tuple(place), 0) + value
        both = {*map(tuple, a[0].tolist())} & {*map(tuple, b[0].tolist())}
        kept = sorted(p for p in wanted if p not in both or abs(wanted[p]) >= threshold)
        pairs = zip(a, b, strict=True)
        found = added(*pairs, np.array(threshold, dtype))
        assert found is not None
        assert found[0].tolist() == [list(each) for each in kept]
        assert found[1].tolist() == [wanted[each] for each in kept]
        assert found[1].dtype == dtype


def test_special_numbers() -> None:
    indices, positions = np.array([[0], [1], [2]]), np.array([0, 1, 2])
    a, b = np.array([np.nan, -np.inf, -0.0]), np.array([1.0, 1.0, -0.0])
    pairs = (indices, indices), (a, b), (positions, positions)
    found = added(*pairs, np.array(0.0))
    assert found is not None
    assert found[0].tolist() == [[1], [2]]  # NaN is not large
    np.testing.assert_array_equal(found[1], [-np.inf, 0.0])
    least = np.full(3, -(1 << 31), np.int32)
    ints = added((indices, indices), (least, least * 0), pairs[2], np.array(0, np.int32))
    assert ints is not None
    assert not len(ints[0])  # as in numpy, the magnitude of the least number is itself


def test_what_there_is_no_code_for() -> None:
    indices, positions = np.array([[0]]), np.array([0])
    for dtype, other in (("f2", "f2"), ("c8", "f4"), ("f4", "f8"), ("u4", "u4"), (">f4", ">f4")):
        values = np.ones(1, dtype)
        pairs = (indices, indices), (values, values), (positions, positions)
        assert added(*pairs, np.array(0, other)) is None

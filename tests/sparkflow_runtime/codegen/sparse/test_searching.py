"""Coordinate vectors among others."""

import numpy as np
import pytest

from sparkflow_runtime.codegen.machine import native
from sparkflow_runtime.codegen.sparse.searching import found_among

pytestmark = pytest.mark.skipif(not native.available(), reason="there is no code generator here")


def random_rows(rng: np.random.Generator, rank: int, count: int) -> np.ndarray:
    return np.unique(rng.integers(-3, 4, (count, rank)), axis=0)


@pytest.mark.parametrize("rank", [1, 2, 3, 8])
def test_vectors_are_found_among_others(rank: int) -> None:
    rng = np.random.default_rng(2)
    start = rng.integers(-1, 2, rank)
    for counts in ((0, 0), (0, 9), (9, 0), (1, 1), (50, 20), (20, 50), (300, 300)):
        indices, others = (random_rows(rng, rank, count) for count in counts)
        known = {tuple(each): n for n, each in enumerate((others + start).tolist())}
        wanted = [known.get(tuple(each), -1) for each in indices.tolist()]
        found = found_among(np.asfortranarray(indices), np.repeat(others, 2, axis=0)[::2], start)
        assert found is not None
        assert found.tolist() == wanted


@pytest.mark.parametrize("wrong", [[[1, 2], [1, 2]], [[1, 3], [1, 2]], [[2, 0], [1, 9]]])
def test_vectors_out_of_order_are_not_searched(wrong: list[list[int]]) -> None:
    rows, start = np.array([[0, 0], *wrong, [3, 0]]), np.zeros(2, np.int64)
    good = np.array([[0, 0], [3, 0]])
    assert found_among(rows, good, start) is None
    assert found_among(good, rows, start) is None
    assert found_among(good, good, start) is not None


def test_what_there_is_no_code_for() -> None:
    rows, start = np.zeros((1, 2), np.int64), np.zeros(2, np.int64)
    assert found_among(rows, np.zeros((1, 3), np.int64), start) is None
    assert found_among(rows, rows, np.zeros(3, np.int64)) is None
    assert found_among(rows.astype(np.int32), rows, start) is None

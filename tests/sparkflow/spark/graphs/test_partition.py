import itertools
from typing import Any

import numpy as np
import pytest

from sparkflow.spark.graphs.partition import partition


def test_the_slowest_part_costs_least() -> None:
    assert partition([1, 1, 1, 9, 1, 1], [0] * 6, [0] * 6, 3) in ([3, 4], [2, 3], [1, 3])
    assert partition([4, 1, 1, 1, 1], [0] * 5, [0] * 5, 2) == [1]


def test_no_part_holds_much_more_than_the_others() -> None:
    costs = [1, 1, 5, 5]
    assert partition(costs, [0] * 4, [0] * 4, 2) == [3]
    assert partition(costs, [8, 8, 0, 0], [0] * 4, 2) == [1]


def test_of_equals_the_cut_that_few_bytes_cross() -> None:
    assert partition([5, 0, 0, 0, 5], [0] * 5, [0, 9, 9, 2, 9], 2) == [3]


def test_too_few_elements() -> None:
    with pytest.raises(ValueError, match="2 elements cannot be divided into 3 parts"):
        partition([1, 1], [0, 0], [0, 0], 3)


@pytest.mark.parametrize("seed", range(20))
def test_against_all_divisions(seed: int) -> None:
    draw = np.random.default_rng(seed)
    size, count = int(draw.integers(4, 9)), int(draw.integers(2, 5))
    costs, held, crossing = draw.integers(0, 10, (3, size)).astype(float).tolist()

    def parts(values: list[float], cuts: Any) -> list[float]:
        return [sum(values[a:b]) for a, b in itertools.pairwise((0, *cuts, size))]

    every = list(itertools.combinations(range(1, size), count - 1))
    most = max(1.25 * min(max(parts(held, cuts)) for cuts in every), 1.5 * sum(held) / count)
    fitting = [cuts for cuts in every if max(parts(held, cuts)) <= most + 1e-9]
    slowest = 1.02 * min(max(parts(costs, cuts)) for cuts in fitting)
    good = [cuts for cuts in fitting if max(parts(costs, cuts)) <= slowest + 1e-9]
    found = tuple(partition(costs, held, crossing, count))
    assert found in good
    least = min(sum(crossing[each] for each in cuts) for cuts in good)
    assert sum(crossing[each] for each in found) == least
    assert tuple(partition(costs, held, crossing, count)) == found

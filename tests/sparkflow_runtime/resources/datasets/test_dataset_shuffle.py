"""Shuffled datasets: TensorFlow's numbers, and every element once from a moving ring."""

import itertools
from typing import Any

import pytest

from sparkflow_runtime.resources.datasets.dataset import Dataset, ElementIterator
from sparkflow_runtime.resources.datasets.dataset_shuffle import Seeds, philox_numbers, shuffled


class Counting(ElementIterator):
    """0, 1, 2, ... as elements of one number."""

    def __init__(self, length: int) -> None:
        self.given = 0
        self.length = length

    def next(self, step: Any) -> tuple[int, ...] | None:
        if self.given == self.length:
            return None
        self.given += 1
        return (self.given - 1,)

    def close(self) -> None:
        self.length = self.given = 0


def order(length: int, size: int, seeds: Seeds) -> list[int]:
    source = Dataset(lambda: Counting(length), length)
    iterator = shuffled(source, size, seeds).iterate()
    return [element[0] for element in iter(lambda: iterator.next(None), None)]


# Known answers of Random123 (Salmon et al.) for Philox 4x32-10 and a counter of zeros: first with a
# key of zeros, then with one of ones.
@pytest.mark.parametrize(
    ("key", "numbers"),
    [(0, [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8])],
)
def test_numbers_are_those_of_the_paper(key: int, numbers: list[int]) -> None:
    assert list(itertools.islice(philox_numbers(key, 0), 4)) == numbers


def test_the_second_seed_and_the_block_count_are_in_the_counter() -> None:
    # The counter's high half is the second seed: a negative one is its two's complement.
    ones = list(itertools.islice(philox_numbers(-1, -1), 4))
    assert ones == list(itertools.islice(philox_numbers((1 << 64) - 1, (1 << 64) - 1), 4))
    assert ones != list(itertools.islice(philox_numbers(-1, 0), 4))
    numbers = list(itertools.islice(philox_numbers(3, 4), 3 * 4096))
    assert len(set(numbers)) > 3 * 4096 - 20  # blocks of 1024 counters do not repeat


@pytest.mark.parametrize("size", [1, 3, 10, 50])
@pytest.mark.parametrize("length", [0, 1, 10])
def test_each_element_comes_once(length: int, size: int) -> None:
    assert sorted(order(length, size, Seeds(1, 2, change=False))) == list(range(length))


def test_a_ring_of_one_keeps_the_order() -> None:
    assert order(9, 1, Seeds(1, 2, change=False)) == list(range(9))


@pytest.mark.parametrize("size", [2, 5, 20])
def test_no_element_comes_before_it_can_be_in_the_ring(size: int) -> None:
    found = order(200, size, Seeds(7, 8, change=False))
    assert all(element < place + size for place, element in enumerate(found))
    assert max(element - place for place, element in enumerate(found)) == size - 1
    assert found != list(range(200))


def test_seeds_are_fixed_or_change() -> None:
    fixed = Seeds(5, 6, change=False)
    assert fixed.following() == fixed.following() == (5, 6)
    changing, again = Seeds(5, 6, change=True), Seeds(5, 6, change=True)
    first, second = changing.following(), changing.following()
    assert first != second
    assert [again.following(), again.following()] == [first, second]
    assert order(50, 50, Seeds(5, 6, change=False)) == order(50, 50, fixed)


def test_without_seeds_each_dataset_has_its_own() -> None:
    assert Seeds(0, 0, change=False).following() != Seeds(0, 0, change=False).following()
    assert Seeds(0, 1, change=False).following() == (0, 1)

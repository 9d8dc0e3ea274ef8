"""Sparse tensors stored under numbers: each can be taken once."""

import pytest

from sparkflow_runtime.errors import InvalidArgumentError
from sparkflow_runtime.resources.sparse_map import SparseTensorsMap


def test_each_tensor_is_given_once_and_in_the_order_asked_for() -> None:
    kept = SparseTensorsMap()
    tensors = [(number, number, number) for number in range(4)]
    numbers = [kept.add(each) for each in tensors]
    assert len(set(numbers)) == 4
    assert kept.take([numbers[2], numbers[0]]) == [tensors[2], tensors[0]]
    with pytest.raises(InvalidArgumentError, match=f"SparseTensor: {numbers[2]} in map"):
        kept.take([numbers[1], numbers[2]])
    # The available part of a request that failed is still there.
    assert kept.take([numbers[1], numbers[3]]) == [tensors[1], tensors[3]]


def test_numbers_are_not_used_again() -> None:
    kept = SparseTensorsMap()
    first = kept.add((0, 0, 0))
    kept.take([first])
    assert kept.add((1, 1, 1)) != first
    assert SparseTensorsMap().take([]) == []

"""Collectives among ranks of one process: results, and what each rank learns of failures."""

import ml_dtypes
import numpy as np
import pytest

from sparkflow_runtime.errors import (
    InternalError,
    InvalidArgumentError,
    UnavailableError,
)
from sparkflow_runtime.resources.collectives import collective_exchange as collective
from sparkflow_runtime.resources.collectives.collective_exchange import SMALL_BYTES
from support.meetings import MeetingPlace, run_ranks

DTYPES = [np.float16, ml_dtypes.bfloat16, np.float32, np.float64, np.int32, np.int64]
SIZES = [1, 2, 3, 5, 8, 10]
LARGE = SMALL_BYTES + 1


def values_of(rank, dtype, count):
    rng = np.random.default_rng(rank)
    return (rng.standard_normal(count) * 4).astype(dtype)


def reduce_on_ranks(size, dtype, count, op="Add", divide=False, weights=None):
    def call(exchange):
        buffer = values_of(exchange.group.rank, dtype, count)
        weight = None if weights is None else weights[exchange.group.rank]
        collective.all_reduce(exchange, buffer, op, divide, weight)
        return buffer

    place = MeetingPlace()
    results = run_ranks(size, call, place)
    for result in results:
        if isinstance(result, Exception):
            raise result
    assert place.left == 0
    return results


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("count", [0, 1, 1001, LARGE])
def test_all_ranks_get_the_sum_bit_for_bit(size, count, monkeypatch):
    monkeypatch.setattr(collective, "SEGMENT_BYTES", 8192)
    monkeypatch.setattr(collective, "TWO_LANES_BYTES", 1)
    results = reduce_on_ranks(size, np.float32, count)
    expected = sum(values_of(rank, np.float32, count).astype(float) for rank in range(size))
    np.testing.assert_allclose(results[0], expected, rtol=1e-5, atol=1e-5)
    again = reduce_on_ranks(size, np.float32, count)
    for other in (*results, *again):
        assert other.tobytes() == results[0].tobytes()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("size", [2, 3, 9])
@pytest.mark.parametrize("op", ["Add", "Min", "Max"])
def test_every_dtype_and_merge(dtype, size, op):
    for count in (5, LARGE):
        results = reduce_on_ranks(size, dtype, count, op, divide=op == "Add")
        parts = np.stack([values_of(rank, dtype, count).astype(float) for rank in range(size)])
        expected = {"Add": np.mean, "Min": np.min, "Max": np.max}[op](parts, 0)
        if np.dtype(dtype).kind == "i":
            expected = np.trunc(expected)
        tolerance = {2: 1e-2, 4: 1e-5, 8: 1e-12}[np.dtype(dtype).itemsize]
        for result in results:
            np.testing.assert_allclose(
                result.astype(float), expected, rtol=tolerance, atol=tolerance
            )


def test_products():
    results = reduce_on_ranks(3, np.float64, 4, "Mul")
    expected = np.prod([values_of(rank, np.float64, 4) for rank in range(3)], axis=0)
    np.testing.assert_allclose(results[2], expected)


@pytest.mark.parametrize("size", [1, 2, 3, 9])
@pytest.mark.parametrize("count", [3, LARGE])
def test_means_are_weighted_and_ranks_without_rows_do_not_count(size, count):
    weights = [0.0 if rank == 1 else 3.0 + rank for rank in range(size)]

    def call(exchange):
        rank = exchange.group.rank
        buffer = values_of(rank, np.float32, count)
        if not weights[rank]:
            buffer[:] = np.nan
        collective.all_reduce(exchange, buffer, "Add", False, weights[rank])
        return buffer

    expected = sum(
        values_of(rank, np.float32, count) * (weights[rank] / sum(weights))
        for rank in range(size)
        if weights[rank]
    )
    for result in run_ranks(size, call):
        np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("size", [1, 2])
@pytest.mark.parametrize("count", [3, LARGE])
def test_without_any_rows_the_mean_is_zero(size, count):
    for result in reduce_on_ranks(size, np.float32, count, weights=[0.0] * size):
        np.testing.assert_array_equal(result, 0)


@pytest.mark.parametrize("weight", [-1.0, np.nan, np.inf])
def test_impossible_weights_are_refused_on_every_rank(weight):
    def call(exchange):
        rank = exchange.group.rank
        collective.all_reduce(exchange, np.ones(2), "Add", False, weight if rank else 1.0)

    for result in run_ranks(2, call):
        assert isinstance(result, InvalidArgumentError)
        assert "rank 1 (/job:w/replica:0/task:1/device:CPU:0) has weight" in result.message


@pytest.mark.parametrize("size", [1, 2, 5])
@pytest.mark.parametrize("count", [0, 7, LARGE])
def test_broadcast_gives_everybody_the_bits_of_the_root(size, count):
    for root in {0, size - 1}:

        def call(exchange, root=root):
            buffer = values_of(exchange.group.rank, np.float32, count)
            collective.broadcast(exchange, buffer, exchange.group.rank == root, longest=1000)
            return buffer

        for result in run_ranks(size, call):
            np.testing.assert_array_equal(result, values_of(root, np.float32, count))


@pytest.mark.parametrize(("senders", "told"), [((), "none"), ((0, 2), "0, 2")])
def test_exactly_one_rank_sends_in_a_broadcast(senders, told):
    def call(exchange):
        collective.broadcast(exchange, np.ones(3), exchange.group.rank in senders)

    for result in run_ranks(3, call):
        assert isinstance(result, InvalidArgumentError)
        assert f"exactly one rank sends in a broadcast, here {told}" in result.message


def test_gathering_keeps_the_order_of_ranks_and_any_number_of_rows():
    def call(exchange):
        rank = exchange.group.rank
        return collective.all_gather(exchange, "rows", (np.full(rank, rank),), float(rank))

    for weights, given in run_ranks(4, call):
        assert weights == [0, 1, 2, 3]
        np.testing.assert_array_equal(
            np.concatenate([each for (each,) in given]), [1, 2, 2, 3, 3, 3]
        )


@pytest.mark.parametrize("count", [4, LARGE])
def test_ranks_that_do_something_else_are_told_apart(count):
    def call(exchange):
        rank = exchange.group.rank
        collective.all_reduce(exchange, np.ones(count + (rank == 2)), "Add", False)

    results = run_ranks(3, call)
    for result in results:
        assert isinstance(result, InvalidArgumentError)
        assert f"all-reduce Add float64 [{count + 1}]" in result.message
        assert f"all-reduce Add float64 [{count}]" in result.message
        assert "rank 2 (/job:w/replica:0/task:2/device:CPU:0)" in result.message
        assert "instance 7 of group 1" in result.message


@pytest.mark.parametrize("size", [2, 3, 10])
def test_a_rank_that_dies_is_named_to_all_others(size):
    def call(exchange):
        if exchange.group.rank == 1:
            raise UnavailableError(message="rank 1 was killed")
        collective.all_reduce(exchange, np.ones(LARGE), "Add", False)

    results = run_ranks(size, call)
    for rank, result in enumerate(results):
        assert isinstance(result, UnavailableError)
        if rank != 1:
            assert "has lost rank 1 (/job:w/replica:0/task:1/device:CPU:0)" in result.message


def test_messages_that_are_none_are_refused():
    def call(exchange):
        if exchange.group.rank:
            exchange.send([0], "hello", ())
            return
        collective.all_gather(exchange, "rows", ())

    first, _ = run_ranks(2, call)
    assert isinstance(first, InternalError)
    assert "malformed greeting of rank 1" in first.message

"""Plans of collectives, run without threads: any order of progress gives the same sums."""

import random

import numpy as np
import pytest

from sparkflow_runtime.resources.collectives import collective_plan as plan
from sparkflow_runtime.resources.collectives.collective_plan import Kind


def simulate(lanes_of, buffers, rng):
    """Advances lanes in random order; fails if none can continue. Returns the elements sent."""
    sent = [0] * len(buffers)
    messages = {}
    waiting = [(rank, list(lane)) for rank, lanes in enumerate(lanes_of) for lane in lanes]
    while waiting:
        rng.shuffle(waiting)
        for rank, lane in waiting:
            move = lane[0]
            needed = [(peer, rank, move.tag) for peer in move.peers]
            own = buffers[rank][move.start : move.stop]
            if move.kind is Kind.SEND:
                for peer in move.peers:
                    assert (rank, peer, move.tag) not in messages
                    messages[rank, peer, move.tag] = list(own)
                    sent[rank] += len(own)
            elif all(key in messages for key in needed):
                parts = [messages.pop(key) for key in needed]
                if move.kind is Kind.REDUCE:
                    parts.insert(move.own_at, own)
                    parts = [[f"({'+'.join(column)})" for column in zip(*parts, strict=True)]]
                buffers[rank][move.start : move.stop] = parts[0]
            else:
                continue
            lane.pop(0)
            break
        else:
            pytest.fail("no lane can go on")
        waiting = [(rank, lane) for rank, lane in waiting if lane]
    assert not messages
    return sent


@pytest.mark.parametrize("size", [1, 2, 3, 5, 8, 9, 12])
@pytest.mark.parametrize("count", [0, 1, 7, 60])
@pytest.mark.parametrize("num_lanes", [1, 2, 3])
def test_every_rank_gets_the_same_sum_of_all(size, count, num_lanes):
    rng = random.Random(size * count)
    buffers = [[f"{rank}" for _ in range(count)] for rank in range(size)]
    lanes = [plan.all_reduce(rank, size, count, 2, num_lanes) for rank in range(size)]
    sent = simulate(lanes, buffers, rng)
    assert all(buffer == buffers[0] for buffer in buffers)
    for element in buffers[0]:
        ranks = element.replace("(", "").replace(")", "").split("+")
        assert sorted(ranks, key=int) == [str(rank) for rank in range(size)]
    largest_block = -(-count // size)
    assert max(sent) <= 2 * (size - 1) * largest_block


def test_few_ranks_sum_in_the_order_of_ranks():
    buffers = [[str(rank)] * 9 for rank in range(3)]
    lanes = [plan.all_reduce(rank, 3, 9, 2, 2) for rank in range(3)]
    simulate(lanes, buffers, random.Random(0))
    assert buffers == [["(0+1+2)"] * 9] * 3


def test_a_ring_only_talks_to_its_neighbours():
    size = plan.MAX_DIRECT + 1
    assert plan.is_ring(size)
    assert not plan.is_ring(size - 1)
    for rank in range(size):
        (lane,) = plan.all_reduce(rank, size, 100, 100, 1)
        for move in lane:
            step = 1 if move.kind is Kind.SEND else -1
            assert move.peers == ((rank + step) % size,)


def test_each_element_is_complete_once():
    for size in (2, 5, 10):
        complete = np.zeros(33, int)
        for rank in range(size):
            for lane in plan.all_reduce(rank, size, 33, 4, 2):
                for move in lane:
                    complete[move.start : move.stop] += move.is_last
        np.testing.assert_array_equal(complete, 1)


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 8, 13])
@pytest.mark.parametrize("count", [0, 5])
def test_broadcast_reaches_everybody_in_few_rounds(size, count):
    for root in range(size):
        buffers = [[str(rank)] * count for rank in range(size)]
        lanes = [[plan.broadcast(rank, size, root, count, 2)] for rank in range(size)]
        lanes = [[lane for lane in each if lane] for each in lanes]
        simulate(lanes, buffers, random.Random(root))
        assert buffers == [[str(root)] * count] * size
        sends = [m for each in lanes for lane in each for m in lane if m.kind is Kind.SEND]
        assert all(len(move.peers) <= (size - 1).bit_length() for move in sends)

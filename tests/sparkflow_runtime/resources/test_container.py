"""Named resources of a task."""

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from sparkflow_runtime.device.host_memory import is_aligned
from sparkflow_runtime.device.shared_memory import SharedArena
from sparkflow_runtime.errors import InvalidArgumentError, NotFoundError
from sparkflow_runtime.resources.container import Resources

DEADLINE_S = 60


class Closing:
    def __init__(self):
        self.closed = 0

    def close(self):
        self.closed += 1


def test_what_was_made_first_is_found_again():
    resources = Resources()
    first = resources.get_or_create("", "a", list, lambda: [1])
    assert resources.get_or_create("", "a", list, lambda: [2]) is first
    assert resources.get("", "a", list) is first
    assert resources.get("localhost", "a", list) is first


def test_containers_are_apart():
    resources = Resources()
    resources.put("", "a", [1])
    resources.put("other", "a", [2])
    assert resources.get("", "a", list) == [1]
    assert resources.get("other", "a", list) == [2]


def test_what_is_missing_or_of_another_kind_is_named():
    resources = Resources()
    with pytest.raises(NotFoundError, match="There is no list named 'a' on this task"):
        resources.get("", "a", list)
    resources.put("", "a", {})
    with pytest.raises(InvalidArgumentError, match="'a' is a dict, not a list"):
        resources.get("", "a", list)
    with pytest.raises(InvalidArgumentError, match="'a' is a dict, not a list"):
        resources.get_or_create("", "a", list, list)


def test_threads_that_ask_at_once_get_one():
    resources = Resources()
    start = threading.Barrier(8)

    def ask():
        start.wait(DEADLINE_S)
        return resources.get_or_create("", "a", object, object)

    with ThreadPoolExecutor(8) as pool:
        found = [f.result(DEADLINE_S) for f in [pool.submit(ask) for _ in range(8)]]
    assert len(set(map(id, found))) == 1


def test_clearing_drops_and_closes_what_is_named():
    resources = Resources()
    kept, dropped = Closing(), Closing()
    resources.put("kept", "a", kept)
    resources.put("dropped", "a", dropped)
    resources.put("dropped", "b", "has no close")
    resources.clear(("dropped",))
    assert (kept.closed, dropped.closed) == (0, 1)
    assert resources.get("kept", "a", Closing) is kept
    with pytest.raises(NotFoundError):
        resources.get("dropped", "a", Closing)
    resources.clear()
    assert (kept.closed, dropped.closed) == (1, 1)


class TestAllocate:
    def test_without_an_arena_arrays_are_ordinary_ones_but_aligned(self):
        array = Resources().allocate((100, 100), np.float32)
        assert (array.shape, array.dtype) == ((100, 100), np.float32)
        assert is_aligned(array)

    @pytest.mark.skipif(not SharedArena.available(), reason="needs memfd_create: Linux")
    def test_arrays_lie_in_the_arena(self):
        arena = SharedArena()
        resources = Resources(arena)
        large = resources.allocate((1024,), np.float32)
        small = resources.allocate((), np.int64)
        strings = resources.allocate((1024,), object)
        assert arena.locate(large) is not None
        assert (large.shape, large.dtype) == ((1024,), np.float32)
        assert arena.locate(small) is not None
        assert (small.shape, small.dtype) == ((), np.int64)
        assert arena.locate(strings) is None
        assert strings.dtype == object
        arena.close()

    @pytest.mark.skipif(not SharedArena.available(), reason="needs memfd_create: Linux")
    def test_moves_are_those_of_the_arena(self):
        Resources().note_moved(None)
        arena = SharedArena()
        moves = arena.moves()
        Resources(arena).note_moved(None)
        assert moves.tolist() == [1]
        arena.close()

"""What a channel is told about places, and how long it is valid."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from sparkflow_runtime.device.shared_memory import SharedArena
from sparkflow_runtime.transport.channel.memory import LEAST_SHARED_BYTES
from sparkflow_runtime.transport.channel.reactor import available
from sparkflow_runtime.transport.channel.readings import MAX_ATTEMPTS, Readings, Told
from support.channels import Channel

pytestmark = pytest.mark.skipif(not available(), reason="channels need Linux")


class TestReadings:
    def told(self, readings: Readings, moves: Any, *arrays: Any, key: str = "k") -> None:
        """Requests bundles as partition `p`, and returns what it is told."""
        wish = readings.wish("p")
        assert wish is not None
        readings.note(wish, key, moves, arrays)

    def test_places_count_from_the_second_time_on(self) -> None:
        # Only then it is known that nothing moved between the count and the answer.
        readings, moves, value = Readings(), np.zeros(1, np.int64), np.ones(3)
        assert readings.find("p", ["k"]) is None
        self.told(readings, moves, value)
        assert readings.find("p", ["k"]) is None
        self.told(readings, moves, value)
        found = readings.find("p", ["k"])
        assert found is not None
        np.testing.assert_array_equal(found["k"][0], value)

    def test_they_are_wrong_once_something_has_moved(self) -> None:
        readings, moves, value = Readings(), np.zeros(1, np.int64), np.ones(3)
        self.told(readings, moves, value)
        self.told(readings, moves, value)
        moves[0] += 1
        assert readings.find("p", ["k"]) is None
        self.told(readings, moves, value)
        assert readings.find("p", ["k"]) is not None

    def test_what_moves_while_it_is_asked_for_is_not_known(self) -> None:
        readings, moves, value = Readings(), np.zeros(1, np.int64), np.ones(3)
        self.told(readings, moves, value)
        wish = readings.wish("p")
        assert wish is not None
        moves[0] += 1
        readings.note(wish, "k", moves, [value])
        assert readings.find("p", ["k"]) is None

    def test_all_keys_must_be_known(self) -> None:
        readings, moves, value = Readings(), np.zeros(1, np.int64), np.ones(3)
        self.told(readings, moves, value)
        self.told(readings, moves, value)
        assert readings.find("p", ["k", "other"]) is None
        assert readings.find("another", ["k"]) is None
        assert readings.find("another", []) == {}

    def test_small_arrays_are_copies_and_large_ones_are_not(self) -> None:
        readings, moves = Readings(), np.zeros(1, np.int64)
        small = np.zeros(LEAST_SHARED_BYTES - 1, np.uint8)
        large = np.zeros(LEAST_SHARED_BYTES, np.uint8)
        for _ in range(2):
            self.told(readings, moves, small, large, np.zeros((), np.int64))
        found = readings.find("p", ["k"])
        assert found is not None
        small[:], large[:] = 1, 1
        assert [int(each.max()) for each in found["k"]] == [0, 1, 0]
        assert found["k"][2].shape == ()

    def test_who_asks_in_vain_stops_asking(self) -> None:
        readings = Readings()
        assert [readings.wish("p") is None for _ in range(MAX_ATTEMPTS + 1)] == [
            *[False] * MAX_ATTEMPTS,
            True,
        ]
        assert readings.wish("q") is not None

    def test_the_partitions_of_a_session_are_forgotten_with_it(self) -> None:
        readings, moves = Readings(), np.zeros(1, np.int64)
        for _ in range(2):
            for name in ("s/1", "t/1"):
                wish = readings.wish(name)
                assert wish is not None
                readings.note(wish, "k", moves, [np.ones(1)])
        readings.forget("s/")
        assert readings.find("s/1", ["k"]) is None
        assert readings.find("t/1", ["k"]) is not None
        readings.clear()
        assert readings.find("t/1", ["k"]) is None


@pytest.fixture
def shared() -> Any:
    if not SharedArena.available():
        pytest.skip("no shared memory here")
    made = Channel("shm")
    yield made
    made.close()


def ask_for(channel: Channel, values: Sequence[Any], lent: Sequence[int]) -> Any:
    """Returns what arrives of a bundle that is requested with places."""
    told = Told("s/1", ["a"])
    channel.task.sinks.clear()
    [stream] = channel.asker.ask(1, ["a"], False, told=told)
    channel.task.sink("a").send(0, values, lent, lambda: None)
    found = stream.take(0, channel.waker(), more=False)
    return found


def test_a_bundle_tells_where_its_tensors_are(shared: Channel) -> None:
    arena = shared.arenas[0]
    assert arena is not None
    values = [arena.allocate(shape, np.float32) for shape in [(), (3,), (2048, 2)]]
    for _ in range(2):
        for value in values:
            value[...] = 1
        for got, sent in zip(ask_for(shared, values, [0, 1, 2]), values, strict=True):
            np.testing.assert_array_equal(got, sent)
    for value in values:
        value[...] = 5
    found = shared.asker.readings.find("s/1", ["a"])
    assert found is not None
    for got, now in zip(found["a"], values, strict=True):
        assert got.dtype == np.float32
        np.testing.assert_array_equal(got, now)
    arena.note_moved(None)
    assert shared.asker.readings.find("s/1", ["a"]) is None


@pytest.mark.parametrize("way", ["not lent", "elsewhere", "unasked"])
def test_otherwise_it_tells_nothing(shared: Channel, way: str) -> None:
    arena = shared.arenas[0]
    assert arena is not None
    values = [arena.allocate((2048,), np.float32), arena.allocate((3,), np.float32)]
    for value in values:
        value[...] = 2
    if way == "elsewhere":
        values[1] = values[1].copy()
    for _ in range(3):
        if way == "unasked":
            shared.asker.ask(1, ["a"], False)
            shared.task.sink("a").send(0, values, [0, 1], lambda: None)
        else:
            ask_for(shared, values, [0] if way == "not lent" else [0, 1])
    assert shared.asker.readings.find("s/1", ["a"]) is None


def test_they_are_gone_with_the_channel(shared: Channel) -> None:
    arena = shared.arenas[0]
    assert arena is not None
    value = arena.allocate((3,), np.float32)
    for _ in range(2):
        ask_for(shared, [value], [0])
    assert shared.asker.readings.find("s/1", ["a"]) is not None
    shared.asker.close()
    assert shared.asker.readings.find("s/1", ["a"]) is None


def test_a_request_that_is_held_back_goes_with_the_call(channel: Channel) -> None:
    channel.call(b"", np.ones(30_000, np.float32))  # which shares the memory for it
    sent: list[int] = []
    send = channel.asker.wire._send
    channel.asker.wire._send = (  # type: ignore[method-assign]
        lambda *given: sent.append(len(channel.asker.wire._held)) or send(*given)  # type: ignore[func-returns-value]
    )
    [stream] = channel.asker.ask(1, ["a"], False, is_held=True)
    assert sent == []
    large = np.ones(30_000, np.float32)
    call = channel.asker.call(1, b"", [large])
    assert sent == [1]  # the frame, in addition to the call's own
    np.testing.assert_array_equal(channel.asker.result(call, channel.waker())[0], 2 * large)
    channel.task.sink("a").send(0, [np.ones(2)], [], lambda: None)
    found = stream.take(0, channel.waker(), more=False)
    assert found is not None
    assert found[0].tolist() == [1, 1]

"""Ranks of a collective in one process, without sessions: their meetings and their failures."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Final, TypeVar

import numpy as np

from sparkflow_runtime.errors import DeadlineExceededError, OpError, from_status, to_status
from sparkflow_runtime.resources.collectives.collective_exchange import Exchange, Group

T = TypeVar("T")

DEADLINE_S: Final = 60.0


class MeetingPlace:
    """What ranks leave for each other. Thread-safe.

    `_changed` guards all fields.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._values: dict[tuple[str, str, int], tuple[Any, ...]] = {}
        self._ended: dict[str, tuple[int, str]] = {}

    def put(self, source: str, key: str, turn: int, values: tuple[Any, ...]) -> None:
        """Keeps the values."""
        place = (source, key, turn)
        with self._changed:
            assert place not in self._values, f"{key} was sent twice"
            self._values[place] = values
            self._changed.notify_all()

    def take(self, source: str, key: str, turn: int, taker: str) -> tuple[Any, ...]:
        """Waits for the values.

        Raises:
            OpError: The error with which the source or the taker has ended.
            DeadlineExceededError: Nothing arrived.
        """
        place = (source, key, turn)
        with self._changed:
            self._changed.wait_for(
                lambda: place in self._values or not self._ended.keys().isdisjoint((source, taker)),
                DEADLINE_S,
            )
            if place in self._values:
                return self._values.pop(place)
            for device in (source, taker):
                if device in self._ended:
                    raise from_status(*self._ended[device])
        raise DeadlineExceededError(message=f"Nothing came under {key}")

    def end(self, device: str, error: OpError, keeps: Callable[[str, int], bool]) -> None:
        """Fails all that wait for this device; of its messages, those that it `keeps` remain."""
        with self._changed:
            self._ended.setdefault(device, to_status(error))
            self._values = {
                (source, key, turn): value
                for (source, key, turn), value in self._values.items()
                if source != device or keeps(key, turn)
            }
            self._changed.notify_all()

    @property
    def left(self) -> int:
        """The number of messages that were not taken."""
        with self._changed:
            return len(self._values)


class FakeMeeting:
    """The `Meeting` of one rank.

    Args:
        place: Where the ranks meet.
        device: The device of this rank.
        threads: The threads for submitted calls.
    """

    def __init__(self, place: MeetingPlace, device: str, threads: ThreadPoolExecutor) -> None:
        self._place = place
        self._device = device
        self._threads = threads

    def send(
        self, key: str, turn: int, destination: str, values: tuple[Any, ...], lent: bool = False
    ) -> None:
        """See `Meeting`; lent values are not copied."""
        self._place.put(self._device, key, turn, values if lent else _copied(values))

    def receive(self, key: str, turn: int, source: str) -> tuple[Any, ...]:
        """See `Meeting`; fails also if this rank itself has ended."""
        return self._place.take(source, key, turn, self._device)

    def submit(self, call: Callable[[], Any]) -> Future[Any]:
        """See `Meeting`."""
        return self._threads.submit(call)

    def release(self, instance: int, turn: int) -> None:
        """See `Meeting`; this one keeps nothing."""

    def end(self, error: OpError, is_complete: Callable[[str, int], bool]) -> None:
        """See `Meeting`."""
        self._place.end(self._device, error, is_complete)

    def leave(self, error: OpError) -> None:
        """See `Meeting`; what was sent stays available to the others."""
        self._place.end(self._device, error, lambda key, turn: True)


def _copied(values: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple([np.array(value) for value in values])


def device_names(size: int) -> tuple[str, ...]:
    """The devices of this many ranks."""
    return tuple(f"/job:w/replica:0/task:{rank}/device:CPU:0" for rank in range(size))


def run_ranks(
    size: int, call: Callable[[Exchange], T], place: MeetingPlace | None = None, turn: int = 0
) -> Sequence[T | OpError]:
    """Runs the call on all ranks concurrently; returns each one's result, or the error it raised.

    A rank that fails ends its meeting.
    """
    where = MeetingPlace() if place is None else place
    names = device_names(size)
    with ThreadPoolExecutor(4 * size + 1) as threads:

        def run(rank: int) -> T | OpError:
            meeting = FakeMeeting(where, names[rank], threads)
            exchange = Exchange(meeting, Group(1, rank, names), 7, turn)
            try:
                return call(exchange)
            except OpError as error:
                meeting.end(error, lambda key, turn: False)
                return error

        return list(threads.map(run, range(size)))

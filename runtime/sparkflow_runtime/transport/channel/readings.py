"""Where the values of another task's variables lie: a step may read them without asking.

A bundle of variables that may be lent (`passes.partitioning.lend`) says little more than where they
are. Who asks for it with `frames.TELL` is told that of all of them, also of small ones, whose
values come along, and where the other task counts its *moves*: whenever the value of a variable
gets another place. While that count is the one from before the places were asked for, they are
right; then the next step of the same partition reads there itself.

*What such a step sees.* Who updates a variable does so in its place, or counts a move before the
update is done. So whatever was done before the count was looked at is seen, as if the bundle had
been asked for then. What is done meanwhile may be seen in part, as it may be with a lent bundle.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from sparkflow_runtime.transport.channel.memory import LEAST_SHARED_BYTES

MAX_ATTEMPTS: Final = 8
"""So often a partition asks for places in vain; then it does so no more."""

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class Told:
    """What a partition wants to read by itself.

    Attributes:
        name: The partition, the same in each of its steps.
        keys: Of the bundles.
    """

    name: str
    keys: Sequence[str]


@dataclass(frozen=True, slots=True)
class Wish:
    """What one request wants to be told.

    Attributes:
        name: The partition that asks, the same in each of its steps.
        count: The other task's moves before it asked; None where it is not known yet.
    """

    name: str
    count: int | None


@dataclass(frozen=True, slots=True)
class _Known:
    """Where the arrays of a bundle are, and at which count."""

    count: int
    arrays: Sequence[Array]


class Readings:
    """What one channel was told of places. Safe to use from several threads.

    `_lock` guards changes of all fields.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._moves: Array | None = None
        self._known: dict[tuple[str, str], _Known] = {}
        self._attempts: dict[str, int] = {}

    def wish(self, name: str) -> Wish | None:
        """What a partition is to ask for before its request leaves; None: nothing any more."""
        with self._lock:
            attempts = self._attempts.get(name, 0)
            if attempts >= MAX_ATTEMPTS:
                return None
            self._attempts[name] = attempts + 1
            return Wish(name, None if self._moves is None else int(self._moves[0]))

    def note(self, wish: Wish, key: str, moves: Array, arrays: Sequence[Array]) -> None:
        """Takes note of what was told.

        Args:
            wish: What was asked for.
            key: Of the bundle.
            moves: The other task's count of moves, [1] int64.
            arrays: The bundle's tensors, where they are.
        """
        with self._lock:
            self._moves = moves
            if wish.count is not None:
                self._known[wish.name, key] = _Known(wish.count, arrays)
                self._attempts[wish.name] = 0

    def find(self, name: str, keys: Sequence[str]) -> Mapping[str, tuple[Any, ...]] | None:
        """The bundles of these keys as they are now, small arrays as copies.

        None where one is not known, or not any more.
        """
        moves = self._moves
        if moves is None:
            return {} if not keys else None
        found: dict[str, tuple[Any, ...]] = {}
        count = int(moves[0])
        for key in keys:
            known = self._known.get((name, key))
            if known is None or known.count != count:
                return None
            found[key] = tuple(
                [
                    array if array.nbytes >= LEAST_SHARED_BYTES else array.copy()
                    for array in known.arrays
                ]
            )
        return found

    def forget(self, prefix: str) -> None:
        """Forgets the partitions whose names begin like that."""
        with self._lock:
            for place in [each for each in self._known if each[0].startswith(prefix)]:
                del self._known[place]
            for name in [each for each in self._attempts if each.startswith(prefix)]:
                del self._attempts[name]

    def clear(self) -> None:
        """Forgets all, and with it the other task's memory."""
        with self._lock:
            self._moves = None
            self._known.clear()
            self._attempts.clear()

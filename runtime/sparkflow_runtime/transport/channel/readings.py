"""The locations of another task's variables, from which a step reads without a request.

A bundle of variables that may be lent (`passes.partitioning.lend`) consists mostly of their
locations. A peer that asks with `frames.TELL` gets the location of every variable, also of small
ones, whose values are sent as well, and of the other task's count of *moves*, which increases
whenever a variable's value changes its location. As long as the count has not changed since before
the request, the locations are valid, and the next step of the same partition reads there directly.

*What such a step sees.* An update either writes in place, or counts a move before it is complete.
So all updates completed before the count was read are seen, as if the bundle had been requested
then. Concurrent updates may be seen in part, as with a lent bundle.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from sparkflow_runtime.transport.channel.memory import LEAST_SHARED_BYTES

MAX_ATTEMPTS: Final = 8
"""After this many fruitless requests for locations, a partition stops asking."""

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class Told:
    """The bundles that a partition wants to read directly.

    Attributes:
        name: The partition, the same in each of its steps.
        keys: The bundles' keys.
    """

    name: str
    keys: Sequence[str]


@dataclass(frozen=True, slots=True)
class Wish:
    """A request's wish for locations.

    Attributes:
        name: The partition that asks, the same in each of its steps.
        count: The other task's moves before the request; None if not known yet.
    """

    name: str
    count: int | None


@dataclass(frozen=True, slots=True)
class _Known:
    """The locations of a bundle's arrays, and the count at which they are valid."""

    count: int
    arrays: Sequence[Array]


class Readings:
    """The locations that one channel knows. Safe to use from several threads.

    `_lock` guards changes of all fields.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._moves: Array | None = None
        self._known: dict[tuple[str, str], _Known] = {}
        self._attempts: dict[str, int] = {}

    def wish(self, name: str) -> Wish | None:
        """Returns the wish to send with a partition's request; None if it no longer asks."""
        with self._lock:
            attempts = self._attempts.get(name, 0)
            if attempts >= MAX_ATTEMPTS:
                return None
            self._attempts[name] = attempts + 1
            return Wish(name, None if self._moves is None else int(self._moves[0]))

    def note(self, wish: Wish, key: str, moves: Array, arrays: Sequence[Array]) -> None:
        """Records the locations that were received.

        Args:
            wish: The request's wish.
            key: The bundle's key.
            moves: The other task's count of moves, [1] int64.
            arrays: The bundle's tensors in place.
        """
        with self._lock:
            self._moves = moves
            if wish.count is not None:
                self._known[wish.name, key] = _Known(wish.count, arrays)
                self._attempts[wish.name] = 0

    def find(self, name: str, keys: Sequence[str]) -> Mapping[str, tuple[Any, ...]] | None:
        """Returns the current bundles of these keys, small arrays as copies.

        None if one of them is not known, or no longer valid.
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
        """Forgets the partitions whose names have this prefix."""
        with self._lock:
            for place in [each for each in self._known if each[0].startswith(prefix)]:
                del self._known[place]
            for name in [each for each in self._attempts if each.startswith(prefix)]:
                del self._attempts[name]

    def clear(self) -> None:
        """Forgets everything, which releases the other task's memory."""
        with self._lock:
            self._moves = None
            self._known.clear()
            self._attempts.clear()

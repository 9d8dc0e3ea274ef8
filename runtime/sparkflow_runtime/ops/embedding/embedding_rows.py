"""The mapping of ids to rows of an embedding table: admission, growth, eviction.

The arrays themselves are ordinary variables (the values, and the slots of optimizers), see
`embedding_table`. Row `FRESH_ROW` of each holds the initial value of rows and is never trained;
gradients of ids without a row go to `SPARE_ROW`, which is never read.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Final

import numpy as np

from sparkflow_runtime.errors import InvalidArgumentError
from sparkflow_runtime.ops.native import key_index
from sparkflow_runtime.ops.op import Array

FRESH_ROW: Final = 0
SPARE_ROW: Final = 1
FIRST_ROW: Final = 2
"""The first row that belongs to an id."""
_SLACK: Final = 16
"""One in this many rows is free after a full table has evicted."""
_WAITING_PER_ROW: Final = 4
"""Number of ids not yet admitted that a table counts, per row of its capacity."""
_CHECKS_PER_LIFE: Final = 4
"""How often a table searches for expired rows within their time to live."""
_DEAD: Final = -1


@dataclass(frozen=True, slots=True)
class Policy:
    """Which ids get a row, and which lose it.

    Attributes:
        admit_after: Number of lookups after which an id gets a row.
        capacity: Maximum number of rows; 0 for no limit.
        evict_oldest: Whether a full table evicts the least recently used rows; otherwise the least
            frequently used.
        steps_to_live: Number of lookups of the table after which an unused row is evicted; 0 for
    never.
    """

    admit_after: int = 1
    capacity: int = 0
    evict_oldest: bool = False
    steps_to_live: int = 0


@dataclass(frozen=True, slots=True)
class Found:
    """The result of a lookup.

    Attributes:
        rows: [n] the row of each id, `FRESH_ROW` for ids without one.
        new_rows: [m] rows that were just assigned and must be filled.
        new_keys: [m] the ids they belong to.
    """

    rows: Array
    new_rows: Array
    new_keys: Array


@dataclass(frozen=True, slots=True)
class Contents:
    """The state of a table's ids, those with a row first.

    Attributes:
        keys: [n] int64.
        rows: [m] the rows of the first m ids.
        counts: [n] the number of lookups of each.
        ages: [n] the number of lookups of the table since each one's last.
    """

    keys: Array
    rows: Array
    counts: Array
    ages: Array


class EmbeddingRows:
    """The rows of one table. `lock` guards all of it: callers of methods must hold it.

    A row that an id lost is reassigned after the next eviction at the earliest, so that gradients
    of steps that looked it up before still apply to the old row.

    Attributes:
        name: The table's name.
        policy: The policy as given.
        clock: Number of lookups so far.
        evicted: Number of evicted rows.
        size: Number of ids with a row.
    """

    def __init__(self, name: str, policy: Policy) -> None:
        self.name = name
        self.policy = policy
        self.lock = threading.Lock()
        self.evicted = 0
        self.clear()

    def clear(self) -> None:
        """Forgets all ids."""
        self.clock = 0
        self.size = 0
        self._index = key_index.make()
        self._used = 0  # entries, including those of dead ids
        self._keys = np.empty(0, np.int64)
        self._counts = np.empty(0, np.int64)
        self._seen = np.empty(0, np.int64)
        self._row = np.empty(0, np.int64)
        self._free_entries = np.empty(0, np.int64)
        self._free_rows = np.empty(0, np.int64)
        self._resting_rows = np.empty(0, np.int64)
        self._next_row = FIRST_ROW

    @property
    def num_rows(self) -> int:
        """Number of rows that the arrays must have."""
        return self._next_row

    @property
    def waiting(self) -> int:
        """Number of counted ids without a row."""
        return self._used - self._free_entries.size - self.size

    def find(self, ids: Array) -> Array:
        """Returns the rows of ids, `FRESH_ROW` for ids without one; changes nothing."""
        entries = self._index.find(ids)
        rows = np.full(ids.size, FRESH_ROW, np.int64)
        known = entries >= 0
        rows[known] = self._row[entries[known]]
        return rows

    def look_up(self, ids: Array, counts: Array) -> Found:
        """Returns the rows of ids and counts the lookups; unseen ids may get a row.

        Args:
            ids: [n] int64.
            counts: [n] integers: the number of lookups of each.
        """
        self.clock += 1
        entries = self._entries(ids)
        np.add.at(self._counts, entries, counts.astype(np.int64))  # slow if the dtypes differ
        self._seen[entries] = self.clock
        new_rows, new_keys = self._admit(entries)
        policy = self.policy
        if policy.steps_to_live and not self.clock % max(
            1, policy.steps_to_live // _CHECKS_PER_LIFE
        ):
            self.drop_old()
        if policy.capacity:
            self._make_room()
        return Found(self._row[entries], new_rows, new_keys)

    def drop_old(self) -> int:
        """Evicts rows that have expired; returns their number."""
        if not self.policy.steps_to_live:
            return 0
        age = self.clock - self._seen[: self._used]
        return self._drop(np.flatnonzero(self._alive() & (age > self.policy.steps_to_live)))

    def drop_rows(self, rows: Array) -> int:
        """Evicts these rows and forgets their ids; returns their number."""
        doomed = np.zeros(self._next_row, np.bool_)
        doomed[rows] = True
        doomed[:FIRST_ROW] = False
        return self._drop(np.flatnonzero(self._alive() & doomed[self._row[: self._used]]))

    def contents(self) -> Contents:
        """All ids, in the order of their entries, those with a row first."""
        alive = np.flatnonzero(self._alive())
        order = alive[np.argsort(self._row[alive] < FIRST_ROW, kind="stable")]
        return Contents(
            self._keys[order],
            self._row[order][: self.size],
            self._counts[order],
            self.clock - self._seen[order],
        )

    def restore(self, contents: Contents) -> Array:
        """Replaces the state by these ids.

        Args:
            contents: The new state; only the number of its rows is used.

        Returns:
            The row of each id that had one.
        """
        self.clear()
        count, keys = contents.rows.size, contents.keys
        self.clock = int(contents.ages.max(initial=0))
        entries = self._entries(keys)
        self._counts[entries] = contents.counts
        self._seen[entries] = self.clock - contents.ages
        rows = FIRST_ROW + np.arange(count)
        self._row[entries[:count]] = rows
        self.size, self._next_row = count, FIRST_ROW + count
        return rows

    def set_clock(self, clock: int) -> None:
        """Sets the number of lookups; the ages of ids stay the same.

        Raises:
            InvalidArgumentError: The age of an id exceeds it.
        """
        later = clock - self.clock
        seen = self._seen[: self._used]
        if clock < 0 or (seen[self._alive()] + later < 0).any():
            raise InvalidArgumentError(
                message=f"Embedding table {self.name!r} cannot have had {clock} lookups: an id was "
                "looked up longer ago"
            )
        seen += later
        self.clock = clock

    # ------------------------------------------------------------------ inside

    def _alive(self) -> Array:
        return self._counts[: self._used] != _DEAD

    def _entries(self, ids: Array) -> Array:
        """Returns the entry of each id, creating those of unseen ids."""
        lacking = max(0, ids.size - self._free_entries.size)
        free = np.concatenate(
            [self._free_entries[: ids.size], np.arange(self._used, self._used + lacking)]
        )
        entries, places = self._index.add(ids, free)
        taken = places.size
        self._used += max(0, taken - self._free_entries.size)
        self._free_entries = self._free_entries[taken:]
        if self._used > self._keys.size:
            size = max(1024, 2 * self._used)
            for name in ("_keys", "_counts", "_seen", "_row"):
                longer = np.full(size, _DEAD, np.int64)
                held = getattr(self, name)
                longer[: held.size] = held
                setattr(self, name, longer)
        new = free[:taken]
        self._keys[new] = ids[places]
        self._counts[new] = 0
        self._row[new] = FRESH_ROW
        return entries

    def _admit(self, entries: Array) -> tuple[Array, Array]:
        """Assigns rows to those of these entries that qualify."""
        due = entries[
            (self._row[entries] == FRESH_ROW) & (self._counts[entries] >= self.policy.admit_after)
        ]
        if due.size:
            due = due[np.sort(np.unique(due, return_index=True)[1])]  # each once, in order
        recycled = self._free_rows[: due.size]
        self._free_rows = self._free_rows[due.size :]
        lacking = due.size - recycled.size
        rows = np.concatenate([recycled, np.arange(self._next_row, self._next_row + lacking)])
        self._next_row += lacking
        self._row[due] = rows
        self.size += due.size
        return rows, self._keys[due]

    def _make_room(self) -> None:
        """Evicts if there are too many rows; never those that were just looked up."""
        capacity = self.policy.capacity
        if self.size > capacity:
            wanted = self.size - capacity + capacity // _SLACK
            self._drop(self._least(self._row[: self._used] >= FIRST_ROW, wanted))
        if self.waiting > _WAITING_PER_ROW * capacity:
            self._drop(self._least(self._row[: self._used] == FRESH_ROW, self.waiting // 2))

    def _least(self, among: Array, wanted: int) -> Array:
        """Returns up to a number of entries to evict, in eviction order."""
        seen, counts = self._seen[: self._used], self._counts[: self._used]
        able = np.flatnonzero(among & self._alive() & (seen < self.clock))
        if wanted >= able.size:
            return able
        order = (seen, counts) if self.policy.evict_oldest else (counts, seen)
        first, second = (each[able] for each in order)
        limit = np.partition(first, wanted)[wanted]
        sure, tied = able[first < limit], np.flatnonzero(first == limit)
        # Ties are broken by id, so that eviction is deterministic.
        places = np.lexsort((self._keys[able[tied]], second[tied]))
        return np.concatenate([sure, able[tied[places[: wanted - sure.size]]]])

    def _drop(self, entries: Array) -> int:
        if not entries.size:
            return 0
        rows = self._row[entries]
        rows = rows[rows >= FIRST_ROW]
        self._free_rows = np.concatenate([self._free_rows, self._resting_rows])
        self._resting_rows = rows
        self._counts[entries] = _DEAD
        self._row[entries] = _DEAD
        self._free_entries = np.concatenate([self._free_entries, entries])
        alive = np.flatnonzero(self._alive())
        self._index = key_index.make(self._keys[alive], alive)
        self.size -= rows.size
        self.evicted += rows.size
        return int(rows.size)


def shards_of(ids: Array, count: int) -> Array:
    """Returns the shard, out of `count`, of each id: [n] int64 -> [n] int32.

    The finishing step of splitmix64 (Steele, Lea, Flood 2014) spreads ids that have a pattern.
    """
    mixed = ids.astype(np.uint64)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        mixed ^= mixed >> np.uint64(shift)
        mixed *= np.uint64(factor)
    mixed ^= mixed >> np.uint64(31)
    return (mixed % np.uint64(count)).astype(np.int32)

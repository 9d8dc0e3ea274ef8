"""Which row of its arrays a table of embeddings keeps for which id: admission, growth, eviction.

The arrays themselves are ordinary variables (the values, and the slots of optimizers beside them),
see `embedding_table`. Row `FRESH_ROW` of each holds what a row starts from and is never trained;
gradients of ids that have no row go to `SPARE_ROW`, which nobody reads.
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
"""One in so many rows is free after a table that was full evicted."""
_WAITING_PER_ROW: Final = 4
"""How many ids per row of its capacity a table counts that are not admitted."""
_CHECKS_PER_LIFE: Final = 4
"""How often in the time an unused row lives a table looks for those that are older."""
_DEAD: Final = -1


@dataclass(frozen=True, slots=True)
class Policy:
    """Who gets a row, and who loses it.

    Attributes:
        admit_after: How often an id is looked up before it gets one.
        capacity: How many rows there are at most; 0 for no limit.
        evict_oldest: Whether the rows unused for longest go when they are too many; otherwise those
            looked up least.
        steps_to_live: After how many lookups by others a row goes; 0 for never.
    """

    admit_after: int = 1
    capacity: int = 0
    evict_oldest: bool = False
    steps_to_live: int = 0


@dataclass(frozen=True, slots=True)
class Found:
    """What a lookup found.

    Attributes:
        rows: [n] the row of each id, `FRESH_ROW` for those that have none.
        new_rows: [m] rows that were given out just now: they must be filled.
        new_keys: [m] the ids they belong to.
    """

    rows: Array
    new_rows: Array
    new_keys: Array


@dataclass(frozen=True, slots=True)
class Contents:
    """All that a table knows of its ids, those with a row first.

    Attributes:
        keys: [n] int64.
        rows: [m] the rows of the first m ids.
        counts: [n] how often each was looked up.
        ages: [n] how many lookups of the table ago that was.
    """

    keys: Array
    rows: Array
    counts: Array
    ages: Array


class EmbeddingRows:
    """The rows of one table. `lock` guards all of it: whoever calls a method holds it.

    A row that an id lost is given to another one after the next eviction at the earliest, so that
    the gradient of a step that looked it up before finds it as it was.

    Attributes:
        name: Of the table.
        policy: As given.
        clock: How many lookups there were.
        evicted: How many rows were evicted.
        size: How many ids have a row.
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
        self._used = 0  # entries, of dead ids too
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
        """How many rows the arrays must have."""
        return self._next_row

    @property
    def waiting(self) -> int:
        """How many ids are counted that have no row."""
        return self._used - self._free_entries.size - self.size

    def find(self, ids: Array) -> Array:
        """The rows of ids, `FRESH_ROW` for those that have none; changes nothing."""
        entries = self._index.find(ids)
        rows = np.full(ids.size, FRESH_ROW, np.int64)
        known = entries >= 0
        rows[known] = self._row[entries[known]]
        return rows

    def look_up(self, ids: Array, counts: Array) -> Found:
        """The rows of ids, which count as looked up; unseen ones may get a row.

        Args:
            ids: [n] int64.
            counts: [n] integers: how often each is looked up.
        """
        self.clock += 1
        entries = self._entries(ids)
        np.add.at(self._counts, entries, counts.astype(np.int64))  # slow where the dtypes differ
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
        """Takes away what was not looked up for as long as rows live; says how many rows."""
        if not self.policy.steps_to_live:
            return 0
        age = self.clock - self._seen[: self._used]
        return self._drop(np.flatnonzero(self._alive() & (age > self.policy.steps_to_live)))

    def drop_rows(self, rows: Array) -> int:
        """Takes these rows from their ids, and forgets the ids; says how many."""
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
        """Holds these ids and no others.

        Args:
            contents: Its rows are not looked at but for their number.

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
        """Has had so many lookups; ids were looked up as long ago as before.

        Raises:
            InvalidArgumentError: An id was looked up longer ago than that.
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
        """The entry of each id; made for unseen ones."""
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
        """Gives rows to those of these entries that are due."""
        due = entries[
            (self._row[entries] == FRESH_ROW) & (self._counts[entries] >= self.policy.admit_after)
        ]
        if due.size:
            due = due[np.sort(np.unique(due, return_index=True)[1])]  # each once, in their order
        recycled = self._free_rows[: due.size]
        self._free_rows = self._free_rows[due.size :]
        lacking = due.size - recycled.size
        rows = np.concatenate([recycled, np.arange(self._next_row, self._next_row + lacking)])
        self._next_row += lacking
        self._row[due] = rows
        self.size += due.size
        return rows, self._keys[due]

    def _make_room(self) -> None:
        """Evicts when there are more rows than may be; never what was just looked up."""
        capacity = self.policy.capacity
        if self.size > capacity:
            wanted = self.size - capacity + capacity // _SLACK
            self._drop(self._least(self._row[: self._used] >= FIRST_ROW, wanted))
        if self.waiting > _WAITING_PER_ROW * capacity:
            self._drop(self._least(self._row[: self._used] == FRESH_ROW, self.waiting // 2))

    def _least(self, among: Array, wanted: int) -> Array:
        """So many entries, the first to go first; fewer where fewer may go."""
        seen, counts = self._seen[: self._used], self._counts[: self._used]
        able = np.flatnonzero(among & self._alive() & (seen < self.clock))
        if wanted >= able.size:
            return able
        order = (seen, counts) if self.policy.evict_oldest else (counts, seen)
        first, second = (each[able] for each in order)
        limit = np.partition(first, wanted)[wanted]
        sure, tied = able[first < limit], np.flatnonzero(first == limit)
        # What is equal in all is told apart by its id, so that equal programs evict the same.
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
    """Which of `count` shards keeps each id: [n] int64 -> [n] int32.

    The finishing step of splitmix64 (Steele, Lea, Flood 2014) spreads ids that have a pattern.
    """
    mixed = ids.astype(np.uint64)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        mixed ^= mixed >> np.uint64(shift)
        mixed *= np.uint64(factor)
    mixed ^= mixed >> np.uint64(31)
    return (mixed % np.uint64(count)).astype(np.int32)

"""The entry of each 64-bit key, by machine code if there is a code generator."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol

import numpy as np

from sparkflow_runtime.codegen.machine import native
from sparkflow_runtime.codegen.machine.entry import NOT_COUNTED
from sparkflow_runtime.codegen.rows import key_search as key_index
from sparkflow_runtime.codegen.rows.sparse_rows import HEADER_SIZE, Header
from sparkflow_runtime.once import once
from sparkflow_runtime.ops.op import Array

_LEAST_BITS: Final = 10
_NOTHING: Final = np.empty(0, np.int64)


class KeyIndex(Protocol):
    """Keys and their entries. Not thread-safe: its owner synchronises."""

    def find(self, keys: Array) -> Array:
        """Returns the entry of each key, -1 for none: [n] int64 -> [n] int64."""

    def add(self, keys: Array, free: Array) -> tuple[Array, Array]:
        """Returns the entry of each key; new ones get one of `free`, in order of appearance.

        Args:
            keys: [n] int64.
            free: [m] int64, enough for all new keys: n always suffice.

        Returns:
            [n] entries, and the index of each new key among the keys.
        """


def make(keys: Array = _NOTHING, entries: Array = _NOTHING) -> KeyIndex:
    """Creates an index of these distinct keys with these entries."""
    index: KeyIndex = NativeKeyIndex() if native.available() else DictKeyIndex()
    index.add(keys, entries)
    return index


class NativeKeyIndex:
    """In machine code: a table that is never more than half full."""

    def __init__(self) -> None:
        self._bits = _LEAST_BITS
        self._table = _empty(self._bits)
        self._count = 0

    def find(self, keys: Array) -> Array:
        """See `KeyIndex`."""
        return self._run(keys, _NOTHING)[0]

    def add(self, keys: Array, free: Array) -> tuple[Array, Array]:
        """See `KeyIndex`."""
        needed = 2 * (self._count + min(keys.size, free.size))
        if needed > 1 << self._bits:
            self._grow(needed.bit_length())
        numbers, fresh = self._run(keys, free)
        self._count += fresh.size
        return numbers, fresh

    def _run(self, keys: Array, free: Array) -> tuple[Array, Array]:
        keys, free = np.ascontiguousarray(keys, np.int64), np.ascontiguousarray(free, np.int64)
        header = np.zeros(HEADER_SIZE, np.int64)
        header[Header.COUNT], header[Header.SHIFT] = keys.size, 64 - self._bits
        header[Header.BOUND] = free.size
        numbers = np.empty(keys.size, np.int64)
        fresh = np.empty(min(keys.size, free.size), np.int64)
        _find_or_add()(header, keys, self._table, free, numbers, fresh)
        return numbers, fresh[: header[Header.DISTINCT]]

    def _grow(self, bits: int) -> None:
        pairs = self._table.reshape(-1, 2)
        held = pairs[pairs[:, 1] >= 0]
        self._bits, self._table = bits, _empty(bits)
        self._run(held[:, 0], held[:, 1])


class DictKeyIndex:
    """With a dictionary, if machine code is not available."""

    def __init__(self) -> None:
        self._entries: dict[int, int] = {}

    def find(self, keys: Array) -> Array:
        """See `KeyIndex`."""
        get = self._entries.get
        return np.array([get(key, -1) for key in keys.tolist()], np.int64)

    def add(self, keys: Array, free: Array) -> tuple[Array, Array]:
        """See `KeyIndex`."""
        entries, unused, fresh = self._entries, iter(free.tolist()), []
        for place, key in enumerate(keys.tolist()):
            if key not in entries:
                entry = next(unused, None)
                if entry is None:
                    break
                entries[key] = entry
                fresh.append(place)
        return self.find(keys), np.array(fresh, np.int64)


def _empty(bits: int) -> Array:
    return np.full(2 << bits, -1, np.int64)


@once
def _find_or_add() -> Callable[..., bool]:
    body = native.body(key_index.find_or_add())
    return body.bind((), [NOT_COUNTED] * 6, 1, releases_gil=True)

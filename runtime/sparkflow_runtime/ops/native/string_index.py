"""Distinct strings, and the numbers of strings, found by their 64-bit hashes in machine code."""

from __future__ import annotations

from typing import Final

import numpy as np

from sparkflow_runtime.codegen.machine import native
from sparkflow_runtime.codegen.strings.hashing import Hash, hashed
from sparkflow_runtime.codegen.strings.parts import equal
from sparkflow_runtime.ops.native import key_index, row_kernels
from sparkflow_runtime.ops.op import Array

_FEW: Final = 64
"""So many strings are found sooner by a dictionary of Python's..."""
_SMALL: Final = 10_000
"""... if there are no more than so many to find; it takes 100 bytes each."""


def distinct(values: Array) -> tuple[Array, Array] | None:
    """Returns where the distinct elements of a vector are first, and the number of each.

    Args:
        values: [n] integers, or objects that are bytes.

    Returns:
        Two integer vectors, in order of appearance and [n]; None if neither machine code nor
        hashing finds them.
    """
    if not values.dtype.hasobject:
        return row_kernels.distinct(values)
    strings = np.ascontiguousarray(values)
    if native.available():
        found = row_kernels.distinct(_keys(strings))
        if found is not None and equal(strings, strings[found[0]][found[1]]).all():
            return found
    return _distinct_by_python(strings)


def _distinct_by_python(strings: Array) -> tuple[Array, Array]:
    numbers: dict[bytes, int] = {}
    first: list[int] = []
    of_each = []
    for place, value in enumerate(strings.tolist()):
        number = numbers.setdefault(value, len(first))
        if number == len(first):
            first.append(place)
        of_each.append(number)
    return np.array(first, np.int64), np.array(of_each, np.int64)


class StringIndex:
    """The numbers of distinct strings.

    Args:
        strings: [n] objects, bytes, contiguous, all different.

    Raises:
        ValueError: Two of them have the same hash.
    """

    def __init__(self, strings: Array) -> None:
        keys = _keys(strings)
        if np.unique(keys).size < keys.size:
            raise ValueError("Two strings have the same hash")
        self._strings = strings
        self._numbers = key_index.make(keys, np.arange(keys.size))
        self._by_python: dict[bytes, int] | None = None

    def find(self, strings: Array) -> Array:
        """Returns the number of each string, -1 for others.

        Args:
            strings: [m] objects, bytes, contiguous.

        Returns:
            [m] int64.
        """
        if strings.size <= _FEW and self._strings.size <= _SMALL:
            return self._find_few(strings.tolist())
        numbers = self._numbers.find(_keys(strings))
        same = equal(strings, self._strings[numbers])  # those with -1 do not count
        numbers[~same] = -1
        return numbers

    def _find_few(self, strings: list[bytes]) -> Array:
        known = self._by_python
        if known is None:
            known = {string: number for number, string in enumerate(self._strings.tolist())}
            self._by_python = known
        return np.array([known.get(string, -1) for string in strings], np.int64)


def _keys(strings: Array) -> Array:
    return hashed(Hash.FARM, strings).view(np.int64)

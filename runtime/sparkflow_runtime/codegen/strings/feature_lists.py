"""The lists of features of `tf.train.SequenceExample` messages, in machine code.

A first kernel finds the lists of all messages, a second one the features of a list. As in
`features`, only messages as protobuf itself writes them are read here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from sparkflow_runtime.codegen.strings.example_wire import (
    FIRST,
    NONE,
    SECOND,
    VARINT,
    KeyFinder,
    Keys,
    WireReader,
    read_key,
)
from sparkflow_runtime.codegen.strings.objects import Array, Elements, Leave, byte_at, for_each

MISSING: Final = -1
"""The count of a list that a message does not have."""


def find(
    messages: Array,
    keys: Keys,
    by_python: Callable[[int], None],
    contexts: Array,
    found: Array,
) -> None:
    """Finds the contexts and the lists of messages.

    Args:
        messages: [n] objects, bytes, contiguous.
        keys: The keys of lists.
        by_python: Does it for a message that is written in another way, given its number.
        contexts: [2, n] int64 to write to, zero: where the field of the context begins and ends.
        found: [3, keys, n] int64 to write to, `MISSING`: the number of features of each list, and
            where they begin and end.
    """
    arrays = (messages, *keys.arrays, *contexts, *found)
    for_each(find_text, (), arrays, by_python, (keys.count, len(messages)))


def features_of(
    messages: Array,
    lists: Sequence[Array],
    places: Array,
    by_python: Callable[[int], None],
    found: Array,
) -> None:
    """Finds the features of one list of all messages.

    Args:
        messages: [n] objects, bytes, contiguous.
        lists: Three of [n] int64: the number of features, and where they begin and end.
        places: [n] int64: the number of each list's first feature among all.
        by_python: Does it for one message, given its number.
        found: [3, features] int64 to write to: kinds, numbers of values, and starts, as in
            `features.find`.
    """
    for_each(features_text, (), (messages, *lists, places, *found), by_python)


def find_text() -> str:
    """Returns the kernel of `find`."""
    return _Finder().text()


class _Finder:
    def __init__(self) -> None:
        self._elements = Elements(9, 2)
        self._code = self._elements.code
        self._messages, keys, ends, hints, *found = self._elements.arrays
        self._context_starts, self._context_ends, *self._lists = found
        self._width, self._messages_count = self._elements.parameters
        self._reader = WireReader(self._elements)
        self._finder = KeyFinder(self._elements, keys, ends, hints, self._width)

    def text(self) -> str:
        code, reader = self._code, self._reader
        has_context, has_lists = code.variable("i1"), code.variable("i1")
        with self._elements.each() as (number, leave_unless):
            base, length = self._elements.read(self._messages, number, leave_unless)
            code.set(reader.at, 0)
            code.set(self._finder.entry, 0)
            for seen in (has_context, has_lists):
                code.set(seen, "false", "i1")
            with code.turns() as go_on_if:
                go_on_if(reader.is_before(length))
                here = code.get(reader.at)
                tag = byte_at(code, base, here)
                is_context, is_list = (code.compare("eq", tag, each) for each in (FIRST, SECOND))
                leave_unless(code.either(is_context, is_list))
                end = reader.open_any(base, length, leave_unless)
                with code.when(is_context):
                    self._note_once(has_context, leave_unless)
                    code.store("i64", here, code.at("i64", self._context_starts, number))
                    code.store("i64", end, code.at("i64", self._context_ends, number))
                    code.set(reader.at, end)
                with code.when(is_list):
                    self._note_once(has_lists, leave_unless)
                    self._read_lists(base, end, number, leave_unless)
        return self._elements.module() + VARINT

    def _note_once(self, seen: str, leave_unless: Leave) -> None:
        leave_unless(self._code.negated(self._code.get(seen, "i1")))
        self._code.set(seen, "true", "i1")

    def _read_lists(self, base: str, end: str, number: str, leave_unless: Leave) -> None:
        code, reader = self._code, self._reader
        count = code.variable("i64")
        with code.turns() as go_on_if:
            go_on_if(reader.is_before(end))
            entry_end = reader.open(base, end, FIRST, leave_unless)
            read_key(self._elements, reader, self._finder, base, entry_end, leave_unless)
            start = code.get(reader.at)
            code.set(count, 0)
            with code.turns() as go_on_in_list_if:
                go_on_in_list_if(reader.is_before(entry_end))
                code.set(reader.at, reader.open(base, entry_end, FIRST, leave_unless))
                code.set(count, code.add(code.get(count), 1))
            key = code.get(self._finder.key)
            with code.when(code.compare("slt", key, self._width)):
                place = code.add(code.multiply(key, self._messages_count), number)
                counts, starts, ends = (code.at("i64", each, place) for each in self._lists)
                leave_unless(code.compare("eq", code.load("i64", counts), MISSING))
                for value, target in ((code.get(count), counts), (start, starts)):
                    code.store("i64", value, target)
                code.store("i64", entry_end, ends)


def features_text() -> str:
    """Returns the kernel of `features_of`."""
    elements = Elements(8)
    code = elements.code
    messages, counts, starts, ends, places, kinds, value_counts, value_starts = elements.arrays
    reader = WireReader(elements)
    kind = code.variable("i64")
    with elements.each() as (number, leave_unless):
        base, _ = elements.read(messages, number, leave_unless)
        count, start, end, place = (
            code.load("i64", code.at("i64", each, number))
            for each in (counts, starts, ends, places)
        )
        code.set(reader.at, start)
        with code.loop(0, count) as index:
            feature_end = reader.open(base, end, FIRST, leave_unless)
            code.set(kind, NONE)
            code.set(reader.count, 0)
            code.set(reader.start, 0)
            with code.when(reader.is_before(feature_end)):
                code.set(kind, reader.feature(base, feature_end, leave_unless))
            target = code.add(place, index)
            for value, array in (
                (kind, kinds),
                (reader.count, value_counts),
                (reader.start, value_starts),
            ):
                code.store("i64", code.get(value), code.at("i64", array, target))
            code.set(reader.at, feature_end)
    return elements.module() + VARINT

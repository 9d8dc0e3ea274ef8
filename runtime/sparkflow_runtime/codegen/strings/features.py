"""Features of `tf.train.Example` messages as arrays, in machine code.

A first kernel finds the features of all messages and counts their values, a second one decodes
them. Only messages as protobuf itself writes them are read here: what has packed numbers and no
key twice; see protobuf's encoding guide.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Final

import numpy as np

from sparkflow_runtime.codegen.machine.llvm_text import Value
from sparkflow_runtime.codegen.strings.example_wire import (
    BYTES,
    FIRST,
    FLOAT,
    INT64,
    NONE,
    VARINT,
    KeyFinder,
    Keys,
    WireReader,
    read_key,
)
from sparkflow_runtime.codegen.strings.objects import Array, Elements, Leave, for_each, packed

DONE: Final = 4
"""Added to the kind of a feature that has been decoded."""
VALUE_DTYPES: Final = {BYTES: np.object_, FLOAT: np.float32, INT64: np.int64}
"""Of the values, by kind."""


class Features:
    """The features to find.

    Args:
        keys: Their keys, in UTF-8, all different.
        kinds: The kind that is expected of each.
        shapes: The shape that is expected of each, None for any number of values.

    Attributes:
        keys: Their keys.
        done: [keys, 1] int64, what `find` notes of features that it has decoded.
    """

    def __init__(
        self,
        keys: Sequence[bytes],
        kinds: Sequence[int],
        shapes: Sequence[tuple[int, ...] | None],
    ) -> None:
        self.keys = Keys(keys)
        self.kinds = np.array(kinds, np.int64)
        self.sizes = np.array(
            [-1 if each is None else math.prod(each) for each in shapes], np.int64
        )
        self.done = (self.kinds | DONE).reshape(-1, 1)
        self._layout = [
            (shape, np.dtype(VALUE_DTYPES[kind])) for shape, kind in zip(shapes, kinds, strict=True)
        ]

    def outputs(self, messages: int) -> list[Array | None]:
        """Returns an array [messages, *shape] for each feature, None for those of any size.

        Not initialized.
        """
        return [
            None if shape is None else np.empty((messages, *shape), dtype)
            for shape, dtype in self._layout
        ]


def find(
    messages: Array,
    features: Features,
    outputs: Sequence[Array | None],
    by_python: Callable[[int], None],
    found: Array,
) -> None:
    """Finds the features of messages, and decodes those that are as expected.

    Args:
        messages: [n] objects, bytes, contiguous.
        features: What to find.
        outputs: What to decode them to, see `Features.outputs`.
        by_python: Finds the features of a message that is written in another way, given its number.
        found: [3, features, n] int64 to write to, zero: the kind of each feature, plus `DONE` if it
            has been decoded; the number of its values; and where its packed numbers, or its list of
            bytes, begin.
    """
    arrays = (
        *(messages, *features.keys.arrays),
        *(features.kinds, features.sizes, packed(outputs), *found),
    )
    for_each(find_text, (), arrays, by_python, (features.keys.count, len(messages)))


def take(
    messages: Array,
    kind: int,
    counts: Array,
    starts: Array,
    found: Array,
    places: Array,
    by_python: Callable[[int], None],
) -> None:
    """Writes the values of one feature of all messages.

    Args:
        messages: [n] objects, bytes, contiguous.
        kind: The kind of the feature.
        counts: [n] int64, contiguous: the number of values.
        starts: [n] int64, contiguous: see `find`.
        found: Values to write to: objects, float32 or int64.
        places: [n] int64, contiguous: where those of each message begin.
        by_python: Does it for one message, given its number.
    """
    arrays = (messages, counts, starts, places, found)
    for_each(take_text, (kind,), arrays, by_python)


def find_text() -> str:
    """Returns the kernel of `find`."""
    return _Finder().text()


class _Finder:
    def __init__(self) -> None:
        self._elements = Elements(10, 2)
        self._code = self._elements.code
        self._messages, keys, ends, hints, *given = self._elements.arrays
        self._wanted, self._sizes, self._outs, *found = given
        self._kinds, self._counts, self._starts = found
        self._width, self._messages_count = self._elements.parameters
        self._reader = WireReader(self._elements)
        self._finder = KeyFinder(self._elements, keys, ends, hints, self._width)

    def text(self) -> str:
        code, reader = self._code, self._reader
        with self._elements.each() as (number, leave_unless):
            base, length = self._elements.read(self._messages, number, leave_unless)
            code.set(reader.at, 0)
            code.set(self._finder.entry, 0)
            with code.when(code.compare("sgt", length, 0)):
                end = reader.open(base, length, FIRST, leave_unless)
                leave_unless(code.compare("eq", end, length))
            with code.turns() as go_on_if:
                go_on_if(reader.is_before(length))
                end = reader.open(base, length, FIRST, leave_unless)
                self._read_entry(base, end, number, leave_unless)
        return self._elements.module() + VARINT

    def _read_entry(self, base: str, end: str, number: str, leave_unless: Leave) -> None:
        code, reader = self._code, self._reader
        read_key(self._elements, reader, self._finder, base, end, leave_unless)
        key = code.get(self._finder.key)
        with code.when(code.compare("slt", key, self._width)):
            place = code.add(code.multiply(key, self._messages_count), number)
            noted = code.load("i64", code.at("i64", self._kinds, place))
            leave_unless(code.compare("eq", noted, NONE))
            with code.when(reader.is_before(end)):
                kind = reader.feature(base, end, leave_unless)
                count = code.get(reader.count)
                self._note(base, end, key, number, place, kind, count, leave_unless)
        code.set(reader.at, end)

    def _note(
        self,
        base: str,
        end: str,
        key: str,
        message: str,
        place: Value,
        kind: str,
        count: str,
        leave_unless: Leave,
    ) -> None:
        """Notes what has been found, and decodes it if it is as expected."""
        code = self._code
        code.store("i64", code.get(self._reader.start), code.at("i64", self._starts, place))
        code.store("i64", count, code.at("i64", self._counts, place))
        wanted, size = (
            code.load("i64", code.at("i64", each, key)) for each in (self._wanted, self._sizes)
        )
        is_wanted = code.both(code.compare("eq", kind, wanted), code.compare("eq", count, size))
        with code.when(is_wanted):
            out = self._elements.data_at(self._outs, key)
            target = code.let(f"mul i64 {message}, {size}")
            for each in (BYTES, FLOAT, INT64):
                with code.when(code.compare("eq", kind, each)):
                    start = code.get(self._reader.start)
                    _decode(
                        self._elements, each, base, end, start, count, out, target, leave_unless
                    )
        noted = code.select(is_wanted, code.let(f"or i64 {kind}, {DONE}"), kind)
        code.store("i64", noted, code.at("i64", self._kinds, place))


def take_text(kind: int) -> str:
    """Returns the kernel of `take`.

    Args:
        kind: The kind of the feature.
    """
    elements = Elements(5)
    code = elements.code
    messages, counts, starts, places, found = elements.arrays
    with elements.each() as (number, leave_unless):
        base, length = elements.read(messages, number, leave_unless)
        count, start, place = (
            code.load("i64", code.at("i64", each, number)) for each in (counts, starts, places)
        )
        _decode(elements, kind, base, length, start, count, found, place, leave_unless)
    return elements.module() + (VARINT if kind != FLOAT else "")


def _decode(
    elements: Elements,
    kind: int,
    base: str,
    end: str,
    start: str,
    count: str,
    found: str,
    place: str,
    leave_unless: Leave,
) -> None:
    """Emits writing the values of a feature of one message from a place on."""
    code = elements.code
    if kind == FLOAT:
        size = code.multiply(count, 4)
        code.copy(code.at("float", found, place), code.at("i8", base, start), size)
        return
    at = code.variable("i64", start)
    with code.loop(0, count) as index:
        if kind == BYTES:
            code.set(at, code.add(code.get(at), 1))  # behind the tag
        value = code.let(f"call i64 @varint(ptr {base}, i64 {end}, ptr {at})")
        here = code.get(at)
        leave_unless(code.compare("sge", here, 0))
        target = code.add(place, index)
        if kind == INT64:
            code.store("i64", value, code.at("i64", found, target))
        else:
            elements.create(code.at("i8", base, here), value, found, target, leave_unless)
            code.set(at, code.add(here, value))

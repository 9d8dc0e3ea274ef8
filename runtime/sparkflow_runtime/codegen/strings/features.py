"""Features of `tf.train.Example` messages as arrays, in machine code.

A first kernel finds the features of all messages and counts their values, a second one decodes
them. Only messages as protobuf itself writes them are read here: what has packed numbers and no
key twice; see protobuf's encoding guide.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import numpy as np

from sparkflow_runtime.codegen.machine.llvm_text import Value
from sparkflow_runtime.codegen.strings.objects import Array, Elements, Leave, for_each
from sparkflow_runtime.codegen.strings.parts import are_same

NONE, BYTES, FLOAT, INT64 = range(4)
"""Kinds of features: of none, and by the numbers of their fields."""
DONE: Final = 4
"""Added to the kind of a feature that has been decoded."""
VALUE_DTYPES: Final = {BYTES: np.object_, FLOAT: np.float32, INT64: np.int64}
"""Of the values, by kind."""
_FIRST, _SECOND = 0x0A, 0x12
"""The tags of fields 1 and 2 of length-delimited types."""
_MORE: Final = 0x80
_HINTS: Final = 256

_VARINT: Final = """
define internal i64 @varint(ptr %base, i64 %end, ptr %place) {
start:
  %from = load i64, ptr %place
  br label %head
head:
  %i = phi i64 [0, %start], [%next_i, %more]
  %value = phi i64 [0, %start], [%joined, %more]
  %at = add i64 %from, %i
  %inside = icmp slt i64 %at, %end
  %short = icmp slt i64 %i, 10
  %possible = and i1 %inside, %short
  br i1 %possible, label %take, label %bad
take:
  %p = getelementptr i8, ptr %base, i64 %at
  %byte = load i8, ptr %p
  %wide = zext i8 %byte to i64
  %low = and i64 %wide, 127
  %bits = mul i64 %i, 7
  %moved = shl i64 %low, %bits
  %joined = or i64 %value, %moved
  %next_i = add i64 %i, 1
  %last = icmp sge i8 %byte, 0
  br i1 %last, label %good, label %more
more:
  br label %head
good:
  %next = add i64 %at, 1
  store i64 %next, ptr %place
  ret i64 %joined
bad:
  store i64 -1, ptr %place
  ret i64 0
}
"""
"""Reads a varint at a place, which becomes that behind it, -1 if there is none before `end`."""


class Features:
    """The features to find.

    Args:
        keys: Their keys, in UTF-8, all different.
        kinds: The kind that is expected of each.
        sizes: The number of values that is expected of each, -1 for any.
    """

    def __init__(self, keys: Sequence[bytes], kinds: Sequence[int], sizes: Sequence[int]) -> None:
        self.count = len(keys)
        self.joined = np.frombuffer(b"".join(keys) or b"\0", np.uint8)
        self.ends = np.cumsum([0, *map(len, keys)])
        self.kinds = np.array(kinds, np.int64)
        self.sizes = np.array(sizes, np.int64)
        self._of_kind = [
            (kind, [n for n in range(self.count) if kinds[n] == kind and sizes[n] >= 0])
            for kind in (BYTES, FLOAT, INT64)
        ]

    def outputs(self, messages: int) -> tuple[dict[int, Array], Array]:
        """Returns by its number an array [messages, size] for each feature of a known size.

        Not initialized. The second result has their addresses, zero for other features. Those of
        one kind have their memory together: an address is a microsecond of Python.
        """
        found: dict[int, Array] = {}
        addresses = np.zeros(self.count, np.int64)
        for kind, numbers in self._of_kind:
            if numbers:
                sizes = [int(self.sizes[number]) for number in numbers]
                block: Array = np.empty(messages * sum(sizes), VALUE_DTYPES[kind])
                address, start = block.ctypes.data, 0
                for number, size in zip(numbers, sizes, strict=True):
                    end = start + messages * size
                    found[number] = block[start:end].reshape(messages, size)
                    addresses[number] = address + start * block.itemsize
                    start = end
        return found, addresses


def find(
    messages: Array,
    features: Features,
    addresses: Array,
    by_python: Callable[[int], None],
    found: Array,
) -> None:
    """Finds the features of messages, and decodes those that are as expected.

    Args:
        messages: [n] objects, bytes, contiguous.
        features: What to find.
        addresses: Where to decode them to, see `Features.outputs`.
        by_python: Finds the features of a message that is written in another way, given its number.
        found: [3, features, n] int64 to write to, zero: the kind of each feature, plus `DONE` if it
            has been decoded; the number of its values; and where its packed numbers, or its list of
            bytes, begin.
    """
    arrays = (
        *(messages, features.joined, features.ends, features.kinds, features.sizes, addresses),
        *(np.zeros(_HINTS, np.int64), *found),
    )
    for_each(find_text, (), arrays, by_python, (features.count, len(messages)))


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
        self._messages, self._keys, self._ends, *given = self._elements.arrays
        self._wanted, self._sizes, self._outs, self._hints, *found = given
        self._kinds, self._counts, self._starts = found
        self._width, self._messages_count = self._elements.parameters
        self._at, self._entry, self._key, self._start = (
            self._code.variable("i64") for _ in range(4)
        )

    def text(self) -> str:
        code = self._code
        with self._elements.each() as (number, leave_unless):
            base, length = self._elements.read(self._messages, number, leave_unless)
            code.set(self._at, 0)
            code.set(self._entry, 0)
            with code.when(code.compare("sgt", length, 0)):
                end = self._open(base, length, _FIRST, leave_unless)
                leave_unless(code.compare("eq", end, length))
            with code.turns() as go_on_if:
                go_on_if(code.compare("slt", code.get(self._at), length))
                end = self._open(base, length, _FIRST, leave_unless)
                self._read_entry(base, end, number, leave_unless)
                entry = code.add(code.get(self._entry), 1)
                code.set(self._entry, code.let(f"and i64 {entry}, {_HINTS - 1}"))
        return self._elements.module() + _VARINT

    def _open(self, base: str, limit: str, tag: int, leave_unless: Leave) -> str:
        """Reads the head of a field with this tag; returns where the field ends."""
        code = self._code
        here = code.get(self._at)
        leave_unless(code.compare("slt", here, limit))
        leave_unless(code.compare("eq", self._byte(base, here), tag))
        return self._open_any(base, limit, leave_unless)

    def _open_any(self, base: str, limit: str, leave_unless: Leave) -> str:
        code = self._code
        code.set(self._at, code.add(code.get(self._at), 1))
        size = code.let(f"call i64 @varint(ptr {base}, i64 {limit}, ptr {self._at})")
        start = code.get(self._at)
        leave_unless(code.compare("sge", start, 0))
        leave_unless(code.compare("ule", size, code.subtract(limit, start)))
        return code.let(f"add i64 {start}, {size}")

    def _byte(self, base: str, at: Value) -> str:
        byte = self._code.load("i8", self._code.at("i8", base, at), 1)
        return self._code.let(f"zext i8 {byte} to i64")

    def _read_entry(self, base: str, end: str, number: str, leave_unless: Leave) -> None:
        code = self._code
        key_end = self._open(base, end, _FIRST, leave_unless)
        start = code.get(self._at)
        self._find_key(code.at("i8", base, start), code.let(f"sub i64 {key_end}, {start}"))
        code.set(self._at, key_end)
        value_end = self._open(base, end, _SECOND, leave_unless)
        leave_unless(code.compare("eq", value_end, end))
        key = code.get(self._key)
        is_wanted = code.compare("slt", key, self._width)
        with code.when(is_wanted):
            place = code.add(code.multiply(key, self._messages_count), number)
            noted = code.load("i64", code.at("i64", self._kinds, place))
            leave_unless(code.compare("eq", noted, NONE))
            with code.when(code.compare("slt", code.get(self._at), end)):
                self._read_feature(base, end, key, number, place, leave_unless)
        code.set(self._at, end)

    def _find_key(self, text: str, size: str) -> None:
        """Sets `_key` to the number of a key; to that of keys for any other.

        The features of messages often come in one order: the key that was at this place in the
        last message is looked at first.
        """
        code = self._code
        hint = code.at("i64", self._hints, code.get(self._entry))
        guess = code.load("i64", hint)
        code.set(self._key, self._width)
        with code.when(code.compare("slt", guess, self._width)):
            self._compare_key(text, size, guess)
        with code.when(code.compare("eq", code.get(self._key), self._width)):
            index = code.variable("i64", 0)
            with code.turns() as go_on_if:
                now = code.get(index)
                go_on_if(code.compare("slt", now, self._width))
                self._compare_key(text, size, now)
                code.set(index, code.add(now, 1))
                go_on_if(code.compare("eq", code.get(self._key), self._width))
            code.store("i64", code.get(self._key), hint)

    def _compare_key(self, text: str, size: str, number: str) -> None:
        code = self._code
        start = code.load("i64", code.at("i64", self._ends, number))
        end = code.load("i64", code.at("i64", self._ends, code.add(number, 1)))
        with code.when(code.compare("eq", code.subtract(end, start), size)):
            same = are_same(code, text, code.at("i8", self._keys, start), size)
            with code.when(same):
                code.set(self._key, number)

    def _read_feature(
        self, base: str, end: str, key: str, message: str, place: Value, leave_unless: Leave
    ) -> None:
        code = self._code
        tag = self._byte(base, code.get(self._at))
        kind = code.let(f"lshr i64 {tag}, 3")
        leave_unless(code.compare("eq", code.let(f"and i64 {tag}, 7"), 2))
        leave_unless(code.compare("ule", code.subtract(kind, 1), INT64 - 1))
        list_end = self._open_any(base, end, leave_unless)
        leave_unless(code.compare("eq", list_end, end))
        count = code.variable("i64")
        code.set(count, 0)
        code.set(self._start, code.get(self._at))
        with code.when(code.compare("slt", code.get(self._at), end)):
            is_bytes = code.compare("eq", kind, BYTES)
            with code.when(is_bytes):
                self._count_bytes(base, end, count, leave_unless)
            with code.unless(is_bytes):
                packed_end = self._open(base, end, _FIRST, leave_unless)
                leave_unless(code.compare("eq", packed_end, end))
                start = code.get(self._at)
                code.set(self._start, start)
                size = code.let(f"sub i64 {end}, {start}")
                is_float = code.compare("eq", kind, FLOAT)
                with code.when(is_float):
                    rest = code.let(f"and i64 {size}, 3")
                    leave_unless(code.compare("eq", rest, 0))
                    code.set(count, code.let(f"lshr i64 {size}, 2"))
                with code.unless(is_float):
                    self._count_varints(base, start, end, count, leave_unless)
        self._note(base, end, key, message, place, kind, code.get(count), leave_unless)

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
        code.store("i64", code.get(self._start), code.at("i64", self._starts, place))
        code.store("i64", count, code.at("i64", self._counts, place))
        wanted, size, address = (
            code.load("i64", code.at("i64", each, key))
            for each in (self._wanted, self._sizes, self._outs)
        )
        is_wanted = code.both(code.compare("eq", kind, wanted), code.compare("eq", count, size))
        is_wanted = code.both(is_wanted, code.compare("ne", address, 0))
        with code.when(is_wanted):
            out = code.let(f"inttoptr i64 {address} to ptr")
            target = code.let(f"mul i64 {message}, {size}")
            for each in (BYTES, FLOAT, INT64):
                with code.when(code.compare("eq", kind, each)):
                    start = code.get(self._start)
                    _decode(
                        self._elements, each, base, end, start, count, out, target, leave_unless
                    )
        noted = code.select(is_wanted, code.let(f"or i64 {kind}, {DONE}"), kind)
        code.store("i64", noted, code.at("i64", self._kinds, place))

    def _count_bytes(self, base: str, end: str, count: str, leave_unless: Leave) -> None:
        code = self._code
        with code.turns() as go_on_if:
            go_on_if(code.compare("slt", code.get(self._at), end))
            code.set(self._at, self._open(base, end, _FIRST, leave_unless))
            code.set(count, code.add(code.get(count), 1))

    def _count_varints(
        self, base: str, start: str, end: str, count: str, leave_unless: Leave
    ) -> None:
        code = self._code
        with code.loop(start, end) as at:
            byte = code.load("i8", code.at("i8", base, at), 1)
            is_last = code.let(f"icmp sge i8 {byte}, 0")
            code.set(count, code.add(code.get(count), code.let(f"zext i1 {is_last} to i64")))
        with code.when(code.compare("sgt", end, start)):
            last = self._byte(base, code.subtract(end, 1))
            leave_unless(code.compare("slt", last, _MORE))


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
    return elements.module() + (_VARINT if kind != FLOAT else "")


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

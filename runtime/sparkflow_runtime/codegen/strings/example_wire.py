"""Reading protobuf's messages of features in machine code: the parts of `tf.train.Example`.

Source: protobuf's encoding guide, and TensorFlow's example.proto and feature.proto.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from sparkflow_runtime.codegen.strings.objects import Elements, Leave, byte_at
from sparkflow_runtime.codegen.strings.parts import are_same

NONE, BYTES, FLOAT, INT64 = range(4)
"""Kinds of features: of none, and by the numbers of their fields."""
FIRST, SECOND = 0x0A, 0x12
"""The tags of fields 1 and 2 of length-delimited types."""
_HINTS: Final = 256
"""Entries of a message whose keys are remembered."""
_MORE: Final = 0x80

VARINT: Final = """
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


class WireReader:
    """Emits reading messages from a place on.

    Args:
        elements: The kernel being emitted.

    Attributes:
        at: The variable of the place: an offset in the message.
        start: The variable of where a feature's packed numbers, or its list of bytes, begin.
        count: The variable of the number of a feature's values.
    """

    def __init__(self, elements: Elements) -> None:
        self._code = elements.code
        self.at, self.start, self.count = (self._code.variable("i64") for _ in range(3))

    def is_before(self, end: str) -> str:
        """Whether the place is before an offset."""
        return self._code.compare("slt", self._code.get(self.at), end)

    def open(self, base: str, limit: str, tag: int, leave_unless: Leave) -> str:
        """Reads the head of a field with this tag; returns where the field ends."""
        code = self._code
        leave_unless(self.is_before(limit))
        leave_unless(code.compare("eq", byte_at(self._code, base, code.get(self.at)), tag))
        return self.open_any(base, limit, leave_unless)

    def open_any(self, base: str, limit: str, leave_unless: Leave) -> str:
        """Reads the head of a length-delimited field; returns where the field ends."""
        code = self._code
        code.set(self.at, code.add(code.get(self.at), 1))
        size = code.let(f"call i64 @varint(ptr {base}, i64 {limit}, ptr {self.at})")
        start = code.get(self.at)
        leave_unless(code.compare("sge", start, 0))
        leave_unless(code.compare("ule", size, code.subtract(limit, start)))
        return code.let(f"add i64 {start}, {size}")

    def feature(self, base: str, end: str, leave_unless: Leave) -> str:
        """Reads a feature that is not empty; returns its kind, and sets `start` and `count`."""
        code = self._code
        tag = byte_at(self._code, base, code.get(self.at))
        kind = code.let(f"lshr i64 {tag}, 3")
        leave_unless(code.compare("eq", code.let(f"and i64 {tag}, 7"), 2))
        leave_unless(code.compare("ule", code.subtract(kind, 1), INT64 - 1))
        list_end = self.open_any(base, end, leave_unless)
        leave_unless(code.compare("eq", list_end, end))
        code.set(self.count, 0)
        code.set(self.start, code.get(self.at))
        with code.when(code.compare("slt", code.get(self.at), end)):
            is_bytes = code.compare("eq", kind, BYTES)
            with code.when(is_bytes):
                self._count_bytes(base, end, leave_unless)
            with code.unless(is_bytes):
                packed_end = self.open(base, end, FIRST, leave_unless)
                leave_unless(code.compare("eq", packed_end, end))
                start = code.get(self.at)
                code.set(self.start, start)
                size = code.let(f"sub i64 {end}, {start}")
                is_float = code.compare("eq", kind, FLOAT)
                with code.when(is_float):
                    rest = code.let(f"and i64 {size}, 3")
                    leave_unless(code.compare("eq", rest, 0))
                    code.set(self.count, code.let(f"lshr i64 {size}, 2"))
                with code.unless(is_float):
                    self._count_varints(base, start, end, leave_unless)
        return kind

    def _count_bytes(self, base: str, end: str, leave_unless: Leave) -> None:
        code = self._code
        with code.turns() as go_on_if:
            go_on_if(code.compare("slt", code.get(self.at), end))
            code.set(self.at, self.open(base, end, FIRST, leave_unless))
            code.set(self.count, code.add(code.get(self.count), 1))

    def _count_varints(self, base: str, start: str, end: str, leave_unless: Leave) -> None:
        code = self._code
        with code.loop(start, end) as at:
            byte = code.load("i8", code.at("i8", base, at), 1)
            is_last = code.let(f"icmp sge i8 {byte}, 0")
            code.set(
                self.count, code.add(code.get(self.count), code.let(f"zext i1 {is_last} to i64"))
            )
        with code.when(code.compare("sgt", end, start)):
            last = byte_at(self._code, base, code.subtract(end, 1))
            leave_unless(code.compare("slt", last, _MORE))


class Keys:
    """Keys to find.

    Args:
        keys: In UTF-8, all different.

    Attributes:
        count: Their number.
        arrays: What a `KeyFinder` needs: their bytes, one after another; where each begins, and the
            end; and where keys were found last, which it updates while it holds the GIL.
    """

    def __init__(self, keys: Sequence[bytes]) -> None:
        self.count = len(keys)
        self.arrays = (
            np.frombuffer(b"".join(keys) or b"\0", np.uint8),
            np.cumsum([0, *map(len, keys)]),
            np.zeros(_HINTS, np.int64),
        )


class KeyFinder:
    """Emits finding keys.

    Args:
        elements: The kernel being emitted.
        keys, ends, hints: Addresses of `Keys.arrays`.
        count: Their number.

    Attributes:
        key: The variable of the key found.
        entry: The variable of the number of the entry in its message, modulo that of hints.
    """

    def __init__(self, elements: Elements, keys: str, ends: str, hints: str, count: str) -> None:
        self._code = elements.code
        self._keys, self._ends, self._hints, self._count = keys, ends, hints, count
        self.key, self.entry = (self._code.variable("i64") for _ in range(2))

    def next_entry(self) -> None:
        """Counts an entry."""
        entry = self._code.add(self._code.get(self.entry), 1)
        self._code.set(self.entry, self._code.let(f"and i64 {entry}, {_HINTS - 1}"))

    def find(self, text: str, size: str) -> None:
        """Sets `key` to the number of a key, and to that of all keys for any other.

        The features of messages often come in one order: the key that was at this place in the
        last message is looked at first.
        """
        code = self._code
        hint = code.at("i64", self._hints, code.get(self.entry))
        guess = code.load("i64", hint)
        code.set(self.key, self._count)
        with code.when(code.compare("slt", guess, self._count)):
            self._compare_key(text, size, guess)
        with code.when(code.compare("eq", code.get(self.key), self._count)):
            index = code.variable("i64", 0)
            with code.turns() as go_on_if:
                now = code.get(index)
                go_on_if(code.compare("slt", now, self._count))
                self._compare_key(text, size, now)
                code.set(index, code.add(now, 1))
                go_on_if(code.compare("eq", code.get(self.key), self._count))
            code.store("i64", code.get(self.key), hint)

    def _compare_key(self, text: str, size: str, number: str) -> None:
        code = self._code
        start = code.load("i64", code.at("i64", self._ends, number))
        end = code.load("i64", code.at("i64", self._ends, code.add(number, 1)))
        with code.when(code.compare("eq", code.subtract(end, start), size)):
            same = are_same(code, text, code.at("i8", self._keys, start), size)
            with code.when(same):
                code.set(self.key, number)


def read_key(
    elements: Elements,
    reader: WireReader,
    finder: KeyFinder,
    base: str,
    end: str,
    leave_unless: Leave,
) -> None:
    """Emits reading a map's entry up to the content of its value, which ends with the entry."""
    code = elements.code
    key_end = reader.open(base, end, FIRST, leave_unless)
    start = code.get(reader.at)
    finder.find(code.at("i8", base, start), code.let(f"sub i64 {key_end}, {start}"))
    finder.next_entry()
    code.set(reader.at, key_end)
    value_end = reader.open(base, end, SECOND, leave_unless)
    leave_unless(code.compare("eq", value_end, end))

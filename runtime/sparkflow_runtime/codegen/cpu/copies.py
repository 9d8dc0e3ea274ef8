"""Copies of pieces of arrays into one, in machine code: what joining, cutting and turning does."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from sparkflow_runtime.codegen.machine import entry, native
from sparkflow_runtime.codegen.machine.llvm_text import Code, Value
from sparkflow_runtime.once import once

ZEROS: Final = -1
"""The number of a source that is nothing but zeros."""
_PIECES: Final = 1
_WORDS: Final = (1, 2, 4, 8)
"""Pieces of so many bytes are copied without a call."""
_AT_ONCE: Final = 4


@dataclass(frozen=True, slots=True)
class Pieces:
    """Pieces of equal length at equal distances; all in bytes.

    Attributes:
        source: The number of the array they come from, or `ZEROS`.
        source_offset: Where the first one begins there.
        target_offset: Where it goes.
        length: Of each.
        count: How many there are.
        source_step: From one to the next.
        target_step: From one to the next.
    """

    source: int
    source_offset: int
    target_offset: int
    length: int
    count: int = 1
    source_step: int = 0
    target_step: int = 0


def bind_copies(
    pieces: Sequence[Pieces], sources: int, counts: Sequence[int] | None = None
) -> Callable[..., bool]:
    """A function of the sources and the target, which overlaps with none of them.

    Args:
        pieces: What is copied, one after the other; nothing is checked.
        sources: How many arrays it comes from.
        counts: The elements of the sources and of the target, which then are looked at; None for
            arrays of any strides.
    """
    numbers = [len(pieces)]
    for each in pieces:
        numbers += [each.source, each.source_offset, each.target_offset]
        numbers += [each.length, each.count, each.source_step, each.target_step]
    return _body().bind([*numbers, sources], counts or [entry.NOT_COUNTED] * (sources + 1), 0)


@once
def _body() -> native.Body:
    return native.body(_text())


def _text() -> str:
    """The module; the number of sources stands behind the pieces."""
    code = Code()
    total = code.load("i64", code.at("i64", "%sizes", 0))
    sources_at = code.at("i64", "%sizes", code.add(code.multiply(total, 7), _PIECES))
    target = code.load("ptr", code.at("ptr", "%arrays", code.load("i64", sources_at)))
    with code.loop(0, total) as number:
        here = code.at("i64", "%sizes", code.add(code.multiply(number, 7), _PIECES))
        source, source_offset, target_offset, length, count, source_step, target_step = (
            code.load("i64", code.at("i64", here, i)) for i in range(7)
        )
        to = code.at("i8", target, target_offset)
        is_zeros = code.compare("slt", source, 0)
        with code.when(is_zeros), code.loop(0, count) as i:
            code.clear(code.at("i8", to, code.multiply(i, target_step)), length)
        with code.unless(is_zeros):
            array = code.load("ptr", code.at("ptr", "%arrays", source))
            begin = code.at("i8", array, source_offset)
            is_word = "false"
            for size in _WORDS:
                fits = code.compare("eq", length, size)
                is_word = code.either(is_word, fits)
                with code.when(fits):
                    _copy_words(code, size, begin, to, count, source_step, target_step)
            with code.unless(is_word), code.loop(0, count) as i:
                code.copy(
                    code.at("i8", to, code.multiply(i, target_step)),
                    code.at("i8", begin, code.multiply(i, source_step)),
                    length,
                )
    return code.module()


def _copy_words(
    code: Code, size: int, begin: str, to: str, count: Value, source_step: str, target_step: str
) -> None:
    """Copies words of so many bytes, several at once: one by one, each waits for the last one."""
    kind = f"i{8 * size}"

    def copy(first: Value, number: int) -> None:
        places = [code.add(first, i) for i in range(number)]
        found = [
            code.load(kind, code.at("i8", begin, code.multiply(place, source_step)), 1)
            for place in places
        ]
        for place, value in zip(places, found, strict=True):
            code.store(kind, value, code.at("i8", to, code.multiply(place, target_step)), 1)

    whole = code.let(f"and i64 {count}, {-_AT_ONCE}")
    with code.loop(0, whole, _AT_ONCE) as i:
        copy(i, _AT_ONCE)
    with code.loop(whole, count) as i:
        copy(i, 1)

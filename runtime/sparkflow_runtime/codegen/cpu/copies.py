"""Machine code that copies pieces of arrays into one: concatenation, slicing, transposition."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from sparkflow_runtime.codegen.machine import entry, native
from sparkflow_runtime.codegen.machine.llvm_text import Code, Value
from sparkflow_runtime.once import once

ZEROS: Final = -1
"""The source number of pieces that are all zeros."""
_PIECES: Final = 1
_WORDS: Final = (1, 2, 4, 8)
"""Pieces of up to this many bytes are copied inline."""
_AT_ONCE: Final = 4


@dataclass(frozen=True, slots=True)
class Pieces:
    """Pieces of equal length at a constant stride; all numbers are bytes.

    Attributes:
        source: Number of the source array, or `ZEROS`.
        source_offset: Offset of the first piece in the source.
        target_offset: Its offset in the target.
        length: Length of each piece.
        count: Number of pieces.
        source_step: Stride between pieces in the source.
        target_step: Stride between pieces in the target.
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
    """Returns a function of the sources and the target, which must not overlap.

    Args:
        pieces: The pieces to copy, in order; nothing is checked.
        sources: Number of source arrays.
        counts: Element counts of the sources and the target, which each call then checks; None for
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
    """Returns the module; the number of sources follows the pieces."""
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
    """Copies words of one size, several at once: alone, each would wait for the last."""
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

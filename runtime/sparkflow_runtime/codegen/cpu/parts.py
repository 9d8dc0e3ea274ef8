"""Slices with dynamic start indices, copied out of an array or into one of zeros."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from sparkflow_runtime.codegen.machine import entry, native
from sparkflow_runtime.codegen.machine.llvm_text import Code, Value
from sparkflow_runtime.dtypes import DType, float32, float64, int32, int64
from sparkflow_runtime.once import latest

_KINDS: Final = {int32: "i32", int64: "i64"}
_NUMBERS: Final = {**_KINDS, float32: "float", float64: "double"}
INDICES: Final = tuple(_KINDS)
ADDED: Final = tuple(_NUMBERS)
MOST_DIMENSIONS: Final = 6


@dataclass(frozen=True, slots=True)
class Along:
    """A slice along one dimension.

    Attributes:
        size: Size of the array.
        taken: Size of the slice.
        entry: Position of the start index among the numbers; None if the slice starts at 0.
        wraps: Whether negative start indices count from the end.
    """

    size: int
    taken: int
    entry: int | None
    wraps: bool = False


def bind_part(
    dims: Sequence[Along],
    item_bytes: int,
    index: DType,
    puts: bool = False,
    adds: DType | None = None,
) -> Callable[..., bool]:
    """Returns a function of an array, the start indices, the slice and an int32.

    It copies the slice out of the array and sets the int32 to 0; if the slice would be out of
    bounds, it sets the int32 to 1 and leaves the slice alone.

    Args:
        dims: One slice per dimension, at most `MOST_DIMENSIONS`.
        item_bytes: Size of an element.
        index: Dtype of the start indices: int32 or int64.
        puts: Whether the function instead accepts the slice, the start indices and the array, and
            copies the slice into the array: everything else becomes 0.
        adds: Element type, one of `ADDED`, to add the slice to that array instead, leaving
            everything else unchanged.
    """
    looped = list(dims)
    while looped and looped[-1].entry is None and looped[-1].taken == looped[-1].size:
        item_bytes *= looped.pop().size
    sizes = [item_bytes]
    whole, part = item_bytes, item_bytes
    for each in reversed(looped):
        start = -1 if each.entry is None else each.entry
        sizes[1:1] = [each.size, each.taken, start, int(each.wraps), whole, part]
        whole, part = whole * each.size, part * each.taken
    body = _body(len(looped), index, puts or adds is not None, adds)
    return body.bind([*sizes, whole], [entry.NOT_COUNTED] * 4, 0)


@latest(32)
def _body(rank: int, index: DType, puts: bool, adds: DType | None) -> native.Body:
    code, kind = Code(), _KINDS[index]
    item, *numbers = code.sizes(2 + 6 * rank)
    first, starts, last, failure = code.arrays(4)
    array, part = (last, first) if puts else (first, last)
    dims = [numbers[n : n + 6] for n in range(0, 6 * rank, 6)]
    begin: Value = 0
    is_outside = "false"
    for size, taken, start, wraps, stride, _ in dims:
        given = code.load_index(kind, starts, code.larger(start, 0))
        given = code.select(code.compare("slt", start, 0), 0, given)
        from_end = code.both(code.compare("slt", given, 0), code.compare("ne", wraps, 0))
        given = code.select(from_end, code.add(given, size), given)
        beyond = code.compare("ugt", given, code.subtract(size, taken))
        is_outside = code.either(is_outside, beyond)
        begin = code.add(begin, code.multiply(given, stride))
    code.store("i32", code.let(f"zext i1 {is_outside} to i32"), failure, 4)
    with code.unless(is_outside):
        if puts and adds is None:
            code.clear(array, numbers[-1])

        def move(place: str, of_part: str, size: Value) -> None:
            if adds is not None:
                _add(code, adds, place, of_part, size)
            elif puts:
                code.copy(place, of_part, size)
            else:
                code.copy(of_part, place, size)

        _pieces(code, dims, item, (code.at("i8", array, begin), part), move)
    return native.body(code.module())


def _add(code: Code, number: DType, target: str, source: str, size: Value) -> None:
    """Adds a run of numbers to those at another address; its length is in bytes."""
    kind = _NUMBERS[number]
    add = "fadd" if number.is_floating else "add"
    with code.loop(0, code.let(f"udiv i64 {size}, {number.size}")) as i:
        place = code.at(kind, target, i)
        before = code.load(kind, place, number.size)
        more = code.load(kind, code.at(kind, source, i), number.size)
        code.store(kind, code.let(f"{add} {kind} {before}, {more}"), place, number.size)


def _pieces(
    code: Code,
    dims: Sequence[Sequence[str]],
    item: str,
    at: tuple[str, str],
    move: Callable[[str, str, Value], None],
) -> None:
    """Copies between these addresses of the array and the slice, along the remaining dimensions."""
    if len(dims) > 1:
        (_, taken, _, _, stride, step), *rest = dims
        with code.loop(0, taken) as turn:
            inner = [
                code.at("i8", place, code.multiply(turn, by))
                for place, by in zip(at, (stride, step), strict=True)
            ]
            _pieces(code, rest, item, (inner[0], inner[1]), move)
        return
    move(*at, code.multiply(dims[0][1], item) if dims else item)

"""Parts of arrays that begin where numbers say, copied out of an array or into one of zeros."""

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
    """What a part is along one dimension.

    Attributes:
        size: Of the array.
        taken: Of the part.
        entry: Which of the numbers says where the part begins; None where it begins with the array.
        wraps: Whether a negative number counts from the end.
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
    """A function of an array, of the numbers, of the part, and of an int32.

    It copies the part out of the array, and sets the last one to 0; to 1 where the part would not
    lie within the array, which leaves the part as it is.

    Args:
        dims: At most `MOST_DIMENSIONS`.
        item_bytes: Of an element.
        index: Of the numbers: int32 or int64.
        puts: Whether the function is of the part, the numbers and the array instead, into which the
            part is copied: everything else becomes 0.
        adds: Of the elements, one of `ADDED`, where the part is added to that array instead, of
            which everything else stays as it is.
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
    """Adds so many bytes of numbers to those at another place."""
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
    """Moves what lies at these places of the array and the part, along the dimensions left."""
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

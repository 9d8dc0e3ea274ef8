"""Short rows in memory, columns in registers: see `ir.short_rows`.

Several rows are loaded as contiguous whole vectors, and each column is assembled from these with
one shuffle per vector; stores do the reverse. The columns of long rows are gathered from memory,
which then takes fewer instructions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import ir

from sparkflow_runtime.codegen.cpu.loop_memory import I32, Array, Cut, Memory, number
from sparkflow_runtime.codegen.cpu.loop_vectors import counting, splat
from sparkflow_runtime.codegen.ir.short_rows import MOST_SHUFFLED


def load_columns(
    builder: Any, memory: Memory, array: Array, pointer: Any, width: int, cut: Cut | None
) -> list[Any]:
    """Loads the columns of `width` rows: `array.step` vectors of `width` lanes.

    Args:
        builder: Emits the code.
        memory: Emits the loads.
        array: The first column.
        pointer: Address of its first element.
        width: Number of rows.
        cut: Number of valid rows if this is the masked tail.
    """
    length = array.step
    if length > MOST_SHUFFLED:
        starts = (array.neighbour(builder, pointer, column) for column in range(length))
        return [memory.gather(builder, array.dtype, each, length, width, cut) for each in starts]
    rows = []
    for place in range(length):
        start = array.neighbour(builder, pointer, place * width)
        part = _part(builder, cut, length, place, width)
        rows.append(memory.load(builder, array.dtype, start, width, part))

    def source(column: int) -> Callable[[int], tuple[int, int]]:
        return lambda row: divmod(row * length + column, width)

    return [_gathered(builder, rows, source(column), width) for column in range(length)]


def store_columns(
    builder: Any,
    memory: Memory,
    array: Array,
    columns: Sequence[Any],
    pointer: Any,
    cut: Cut | None,
) -> None:
    """Stores one vector per column of the rows, see `load_columns`."""
    length, width = array.step, columns[0].type.count

    def source(place: int) -> Callable[[int], tuple[int, int]]:
        return lambda lane: divmod(place * width + lane, length)[::-1]

    for place in range(length):
        value = _gathered(builder, columns, source(place), width)
        start = array.neighbour(builder, pointer, place * width)
        part = _part(builder, cut, length, place, width)
        memory.store(builder, array.dtype, value, start, part)


def _gathered(
    builder: Any, vectors: Sequence[Any], source: Callable[[int], tuple[int, int]], width: int
) -> Any:
    """Shuffles lanes of other vectors into one; `source` returns the vector and lane to take."""
    sources = [source(lane) for lane in range(width)]
    first, *others = sorted({each for each, _ in sources})
    result, taken = vectors[first], [place for _, place in sources]
    kind = ir.VectorType(I32, width)
    for other in others:
        mask = [
            width + place if each == other else taken[lane]
            for lane, (each, place) in enumerate(sources)
        ]
        result = builder.shuffle_vector(result, vectors[other], ir.Constant(kind, mask))
        taken = list(range(width))
    return result


def _part(builder: Any, cut: Cut | None, length: int, place: int, width: int) -> Cut | None:
    """Returns the mask of a vector of rows that are cut short."""
    if cut is None:
        return None
    elements = builder.mul(cut.count, number(length))
    count = builder.sub(elements, number(place * width))
    for relation, limit in ((">", 0), ("<", width)):
        is_inside = builder.icmp_signed(relation, count, number(limit))
        count = builder.select(is_inside, count, number(limit))
    limits = splat(builder, builder.trunc(count, I32), width)
    return Cut(count, builder.icmp_signed("<", counting(I32, width), limits))

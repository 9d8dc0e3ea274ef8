"""Machine code for slices of sparse tensors, and for elements in rows that have none."""

from __future__ import annotations

import numpy as np

from sparkflow_runtime.codegen.machine.llvm_text import Code, Value
from sparkflow_runtime.codegen.sparse.sparse_code import (
    Array,
    bound,
    cell_kind,
    count_if,
    first_numbers,
    has_code,
    load_value,
    put_value,
    put_vector,
    vector,
)


def sliced(indices: Array, values: Array, start: Array, stop: Array) -> tuple[Array, Array] | None:
    """Returns the elements between two corners, with coordinates from the first one.

    Args:
        indices: [n, rank] int64.
        values: [n].
        start: The first corner, [rank] int64.
        stop: One past the last, [rank] int64.

    Returns:
        (indices, values); None if there is no machine code for it.
    """
    kind = cell_kind(values.dtype)
    if kind is None or not has_code(indices):
        return None
    count, rank = indices.shape
    found = np.empty_like(indices, order="C"), np.empty(count, values.dtype)
    number = np.empty(1, np.int64)
    run = bound(slice_text, (kind, rank), 6, count)
    given = np.concatenate([[count], start, stop])
    if not run(given, *map(np.ascontiguousarray, (indices, values)), *found, number):
        return None
    kept = int(number[0])
    if 2 * kept < count:
        return found[0][:kept].copy(), found[1][:kept].copy()
    return found[0][:kept], found[1][:kept]


def slice_text(kind: str, dimensions: int) -> str:
    """Returns the module.

    Arrays: n and both corners; coordinate vectors and values; the results, with room for all
    elements; and the number of results.
    """
    code = Code()
    sizes, indices, values, found_indices, found_values, number = code.arrays(6)
    count, *corners = first_numbers(code, sizes, 1 + 2 * dimensions)
    found = code.variable("i64", 0)
    with code.loop(0, count) as row:
        at = code.get(found)
        places: list[Value] = []
        is_inside = "true"
        here = vector(code, indices, row, dimensions)
        for place, low, high in zip(here, corners[:dimensions], corners[dimensions:], strict=True):
            is_near = code.both(code.compare("sge", place, low), code.compare("slt", place, high))
            is_inside = code.both(is_inside, is_near)
            places.append(code.let(f"sub i64 {place}, {low}"))
        put_vector(code, found_indices, at, places)
        put_value(code, kind, found_values, at, load_value(code, kind, values, row))
        count_if(code, found, is_inside)
    code.store("i64", code.get(found), number)
    return code.module()


def filled(
    indices: Array, values: Array, rows: int, default: Array
) -> tuple[Array, Array, Array, Array] | None:
    """Adds an element in the first column of each empty row; elements are ordered by their rows.

    Args:
        indices: [n, rank] int64.
        values: [n].
        rows: The number of rows, not negative.
        default: The value of new elements, a scalar of the dtype of the values.

    Returns:
        (indices, values, which rows were empty, the new places of the elements); None if a row is
        outside, or if there is no machine code for it.
    """
    kind = cell_kind(values.dtype)
    if kind is None or not has_code(indices) or default.dtype != values.dtype:
        return None
    count, rank = indices.shape
    if rows < 0:
        return None
    given = np.array([count, rows, rank, 0])
    indices = np.ascontiguousarray(indices)
    starts, empty, state = np.empty(rows, np.int64), np.empty(rows, np.bool_), np.empty(2, np.int64)
    run = bound(count_text, (), 5, count + rows)
    if not run(given, indices, starts, empty, state) or state[0]:
        return None
    total = given[3] = count + int(state[1])
    found = np.empty((total, rank), np.int64), np.empty(total, values.dtype)
    places = np.empty(count, np.int64)
    run = bound(fill_text, (kind, rank), 9, total)
    source = (indices, np.ascontiguousarray(values), default.reshape(1))
    return (*found, empty, places) if run(given, *source, starts, empty, *found, places) else None


def count_text() -> str:
    """Returns the module.

    Arrays: n, the number of rows, and the length of a coordinate vector; coordinate vectors; the
    first element of every row, if empty ones had one; whether they are empty; and a state: whether
    a row is outside, and the number of empty ones.
    """
    code = Code()
    sizes, indices, starts, empty, state = code.arrays(5)
    count, rows, dimensions = first_numbers(code, sizes, 3)
    code.clear(starts, code.multiply(rows, 8))
    outside = code.variable("i64", 0)
    with code.loop(0, count) as row:
        number = code.load_index("i64", indices, code.multiply(row, dimensions))
        is_inside = code.compare("ult", number, rows)
        with code.when(is_inside):
            place = code.at("i64", starts, number)
            code.store("i64", code.add(code.load("i64", place), 1), place)
        with code.unless(is_inside):
            code.set(outside, 1)
    total, missing = code.variable("i64", 0), code.variable("i64", 0)
    with code.loop(0, rows) as number:
        place = code.at("i64", starts, number)
        here = code.load("i64", place)
        is_empty = code.compare("eq", here, 0)
        code.store("i8", code.let(f"zext i1 {is_empty} to i8"), code.at("i8", empty, number), 1)
        first = code.get(total)
        code.store("i64", first, place)
        code.set(total, code.add(first, code.larger(here, 1)))
        count_if(code, missing, is_empty)
    code.store("i64", code.get(outside), state)
    code.store("i64", code.get(missing), code.at("i64", state, 1))
    return code.module()


def fill_text(kind: str, dimensions: int) -> str:
    """Returns the module.

    Arrays: n, the number of rows, the length of a coordinate vector, and the number of results;
    coordinate vectors, values, the default value; what `count_text` found, of which the first
    elements are changed; then the results and the new places.
    """
    code = Code()
    sizes, indices, values, default, starts, empty, *found = code.arrays(9)
    count, rows, _, total = first_numbers(code, sizes, 4)
    found_indices, found_values, places = found
    missing = load_value(code, kind, default, 0)
    with code.loop(0, rows) as number:
        is_empty = code.load("i8", code.at("i8", empty, number), 1)
        with code.when(code.let(f"icmp ne i8 {is_empty}, 0")):
            at = code.load_index("i64", starts, number)
            put_vector(code, found_indices, at, [number, *[0] * (dimensions - 1)])
            put_value(code, kind, found_values, at, missing)
    with code.loop(0, count) as row:
        here = vector(code, indices, row, dimensions)
        # They have been checked, but another thread could write to the array.
        number = code.select(code.compare("ult", here[0], rows), here[0], 0)
        start = code.at("i64", starts, number)
        at = code.load("i64", start)
        at = code.select(code.compare("slt", at, total), at, 0)
        code.store("i64", code.add(at, 1), start)
        put_vector(code, found_indices, at, here)
        put_value(code, kind, found_values, at, load_value(code, kind, values, row))
        code.store("i64", at, code.at("i64", places, row))
    return code.module()

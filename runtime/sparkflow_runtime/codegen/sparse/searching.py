"""Machine code that finds coordinate vectors among others."""

from __future__ import annotations

import numpy as np

from sparkflow_runtime.codegen.machine.llvm_text import Code
from sparkflow_runtime.codegen.sparse.sparse_code import (
    Array,
    bound,
    first_numbers,
    has_code,
    vector,
)


def found_among(indices: Array, others: Array, start: Array) -> Array | None:
    """Returns the number of each coordinate vector among others, -1 if it is not.

    Args:
        indices: [n, rank] int64.
        others: [m, rank] int64.
        start: [rank] int64, which is added to the others.

    Returns:
        [n] int64; None without machine code, or if either is not in strict order.
    """
    rank = indices.shape[-1]
    if (
        not has_code(indices)
        or not has_code(others)
        or (rank, rank)
        != (
            others.shape[1],
            start.size,
        )
    ):
        return None
    counts = [len(indices), len(others)]
    found, state = np.empty(counts[0], np.int64), np.empty(1, np.int64)
    run = bound(among_text, (rank,), 5, sum(counts))
    given = map(np.ascontiguousarray, (indices, others))
    done = run(np.array([*counts, *start.tolist()]), *given, found, state)
    return found if done and not state[0] else None


def among_text(dimensions: int) -> str:
    """Returns the module.

    Arrays: the numbers of vectors, and what is added to the others; the vectors, the others, the
    result, and whether some are not in order.
    """
    code = Code()
    sizes, indices, others, found, state = code.arrays(5)
    count, among, *start = first_numbers(code, sizes, 2 + dimensions)
    wrong = code.variable("i64", 0)
    for array, length in ((indices, count), (others, among)):
        with code.loop(1, length) as row:
            here = vector(code, array, row, dimensions)
            before = vector(code, array, code.subtract(row, 1), dimensions)
            falls = code.negated(_is_less(code, before, here))
            code.set(wrong, code.let(f"or i64 {code.get(wrong)}, {_as_number(code, falls)}"))
    code.store("i64", code.get(wrong), state)

    def moved(row: str) -> list[str]:
        there = vector(code, others, row, dimensions)
        return [code.let(f"add i64 {a}, {b}") for a, b in zip(there, start, strict=True)]

    place = code.variable("i64", 0)
    with code.loop(0, count) as row:
        here = vector(code, indices, row, dimensions)
        with code.turns() as go_on_if:
            at = code.get(place)
            go_on_if(code.compare("slt", at, among))
            go_on_if(_is_less(code, moved(at), here))
            code.set(place, code.add(at, 1))
        number = code.variable("i64", -1)
        at = code.get(place)
        with (
            code.when(code.compare("slt", at, among)),
            code.unless(_is_less(code, here, moved(at))),
        ):
            code.set(number, at)
        code.store("i64", code.get(number), code.at("i64", found, row))
    return code.module()


def _as_number(code: Code, condition: str) -> str:
    return code.let(f"zext i1 {condition} to i64")


def _is_less(code: Code, a: list[str], b: list[str]) -> str:
    """Whether a coordinate vector is before another one."""
    found = code.compare("slt", a[-1], b[-1])
    for left, right in zip(a[-2::-1], b[-2::-1], strict=True):
        tied = code.both(code.compare("eq", left, right), found)
        found = code.either(code.compare("slt", left, right), tied)
    return found

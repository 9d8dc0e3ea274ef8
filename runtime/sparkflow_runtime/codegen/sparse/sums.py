"""Machine code that adds two sparse tensors whose elements are in order."""

from __future__ import annotations

import numpy as np

from sparkflow_runtime.codegen.machine.llvm_text import Code, Value
from sparkflow_runtime.codegen.sparse.sparse_code import (
    Array,
    bound,
    count_if,
    first_numbers,
    load_value,
    number_kind,
    put_value,
    put_vector,
    vector,
)


def added(
    indices: tuple[Array, Array],
    values: tuple[Array, Array],
    positions: tuple[Array, Array],
    threshold: Array,
) -> tuple[Array, Array] | None:
    """Returns the elements of a sum in order.

    Args:
        indices: Of both tensors, [n, rank] int64.
        values: [n] of one dtype.
        positions: Row-major positions of the indices, [n] int64; each greater than the last one.
        threshold: A scalar: sums of two elements whose magnitude is not as large are left out.

    Returns:
        (indices, values); None if there is no machine code for the dtypes.
    """
    dtype = values[0].dtype
    kind = number_kind(dtype)
    if kind is None or threshold.dtype != dtype or values[1].dtype != dtype:
        return None
    counts, rank = [len(each) for each in values], indices[0].shape[1]
    total = sum(counts)
    found = np.empty((total, rank), np.int64), np.empty(total, dtype)
    number = np.empty(1, np.int64)
    parts = (*indices, *values, *positions, threshold.reshape(1))
    run = bound(text, (kind, rank), 11, total)
    if not run(np.array(counts), *map(np.ascontiguousarray, parts), *found, number):
        return None
    kept = int(number[0])
    return found[0][:kept], found[1][:kept]


def text(kind: str, dimensions: int) -> str:
    """Returns the module.

    Arrays: the numbers of elements of both tensors; their coordinate vectors, their values, their
    positions; the threshold; the results, with room for all elements; and the number of results.

    Args:
        kind: LLVM's type of the values.
        dimensions: The length of a coordinate vector.
    """
    return _Writer(kind, dimensions).text()


class _Writer:
    def __init__(self, kind: str, dimensions: int) -> None:
        code = self._code = Code()
        self._kind, self._dimensions = kind, dimensions
        self._is_float = kind in ("float", "double")
        sizes, *arrays = code.arrays(11)
        self._counts = first_numbers(code, sizes, 2)
        self._indices, self._values, self._positions = (arrays[n : n + 2] for n in (0, 2, 4))
        threshold, self._found_indices, self._found_values, self._number = arrays[6:]
        self._threshold = load_value(code, kind, threshold, 0)
        self._next = [code.variable("i64", 0) for _ in range(2)]
        self._found = code.variable("i64", 0)

    def text(self) -> str:
        code = self._code
        with code.turns() as go_on_if:
            rows = [code.get(each) for each in self._next]
            for row, count in zip(rows, self._counts, strict=True):
                go_on_if(code.compare("slt", row, count))
            self._take_next(rows)
        for side in range(2):
            with code.loop(code.get(self._next[side]), self._counts[side]) as row:
                value = load_value(code, self._kind, self._values[side], row)
                self._put(self._indices[side], row, self._sum(self._zero(), value))
                code.set(self._found, code.add(code.get(self._found), 1))
        code.store("i64", code.get(self._found), self._number)
        return code.module()

    def _take_next(self, rows: list[str]) -> None:
        """Takes the next element, from both if they have the same position; without branches."""
        code, kind = self._code, self._kind
        first, second = (
            code.load_index("i64", each, row)
            for each, row in zip(self._positions, rows, strict=True)
        )
        taken = [code.compare(relation, first, second) for relation in ("sle", "sge")]
        total = self._zero()
        for values, row, is_taken in zip(self._values, rows, taken, strict=True):
            value = load_value(code, kind, values, row)
            chosen = code.let(f"select i1 {is_taken}, {kind} {value}, {kind} {self._zero()}")
            total = self._sum(total, chosen)
        source = code.choose(taken[0], *self._indices)
        self._put(source, code.select(taken[0], *rows), total)
        is_one = code.negated(code.both(*taken))
        count_if(code, self._found, code.either(is_one, self._is_large(total)))
        for variable, is_taken in zip(self._next, taken, strict=True):
            count_if(code, variable, is_taken)

    def _put(self, indices: str, row: Value, value: str) -> None:
        code, at = self._code, self._code.get(self._found)
        put_vector(code, self._found_indices, at, vector(code, indices, row, self._dimensions))
        put_value(code, self._kind, self._found_values, at, value)

    def _zero(self) -> str:
        return "0.0" if self._is_float else "0"

    def _sum(self, a: str, b: str) -> str:
        return self._code.let(f"{'fadd' if self._is_float else 'add'} {self._kind} {a}, {b}")

    def _is_large(self, value: str) -> str:
        code, kind = self._code, self._kind
        if self._is_float:
            size = code.call(
                kind, f"llvm.fabs.{'f32' if kind == 'float' else 'f64'}", (kind, value)
            )
            return code.let(f"fcmp oge {kind} {size}, {self._threshold}")
        size = code.call(kind, f"llvm.abs.{kind}", (kind, value), ("i1", "false"))
        return code.let(f"icmp sge {kind} {size}, {self._threshold}")

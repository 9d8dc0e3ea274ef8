"""Machine code that lists the coordinates of elements that are not zero."""

from __future__ import annotations

from math import prod
from typing import Final

import numpy as np

from sparkflow_runtime.codegen.machine import native
from sparkflow_runtime.codegen.machine.llvm_text import Code
from sparkflow_runtime.codegen.sparse.sparse_code import (
    MOST_DIMENSIONS,
    Array,
    bound,
    first_numbers,
    put_vector,
)

_LANES: Final = 64


def nonzero(mask: Array) -> Array | None:
    """Returns the coordinate vector of each true element, in row-major order.

    Args:
        mask: Truth values of at least one dimension.

    Returns:
        [n, rank] int64; None if there is no machine code for it.
    """
    rank = mask.ndim
    if mask.dtype != np.bool_ or not 0 < rank <= MOST_DIMENSIONS or not native.available():
        return None
    mask = np.ascontiguousarray(mask)
    count = np.count_nonzero(mask)
    found = np.empty((count, rank), np.int64)
    if not count:
        return found
    sizes = np.array([count, prod(mask.shape[:-1]), *mask.shape])
    return found if bound(text, (rank,), 3, mask.size)(sizes, mask, found) else None


def text(dimensions: int) -> str:
    """Returns the module.

    Arrays: the number of results, of rows, and the shape; the truth values; the results.

    Args:
        dimensions: Their number.
    """
    code = Code()
    sizes, mask, found = code.arrays(3)
    count, rows, *shape = first_numbers(code, sizes, 2 + dimensions)
    size = shape[-1]
    outer = [code.variable("i64", 0) for _ in shape[:-1]]
    number = code.variable("i64", 0)

    def list_true(bits: str, kind: str, first: str) -> None:
        """Lists the elements from a column on whose bits are set."""
        left = code.variable(kind)
        code.set(left, bits, kind)
        with code.turns() as go_on_if:
            now = code.get(left, kind)
            go_on_if(code.let(f"icmp ne {kind} {now}, 0"))
            at = code.get(number)
            go_on_if(code.compare("slt", at, count))  # another thread could write to the mask
            lane = code.call("i64", "llvm.cttz.i64", ("i64", now), ("i1", "true"))
            column = code.add(first, lane)
            put_vector(code, found, at, [*map(code.get, outer), column])
            code.set(number, code.add(at, 1))
            lower = code.let(f"sub i64 {now}, 1")
            code.set(left, code.let(f"and i64 {now}, {lower}"))

    with code.loop(0, rows) as row:
        line = code.at("i8", mask, code.multiply(row, size))
        whole = code.let(f"and i64 {size}, {-_LANES}")
        with code.loop(0, whole, _LANES) as first:
            some = code.load(f"<{_LANES} x i8>", code.at("i8", line, first), 1)
            true = code.let(f"icmp ne <{_LANES} x i8> {some}, zeroinitializer")
            list_true(code.let(f"bitcast <{_LANES} x i1> {true} to i64"), "i64", first)
        with code.loop(whole, size) as column:
            one = code.load("i8", code.at("i8", line, column), 1)
            is_true = code.let(f"icmp ne i8 {one}, 0")
            list_true(code.let(f"zext i1 {is_true} to i64"), "i64", column)
        carries = code.variable("i1", "true")
        code.set(carries, "true", "i1")
        for variable, length in reversed([*zip(outer, shape[:-1], strict=True)]):
            with code.when(code.get(carries, "i1")):
                following = code.add(code.get(variable), 1)
                is_over = code.compare("eq", following, length)
                code.set(variable, code.select(is_over, 0, following))
                code.set(carries, is_over, "i1")
    return code.module()

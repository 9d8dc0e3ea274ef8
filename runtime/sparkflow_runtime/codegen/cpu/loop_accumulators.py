"""Accumulators for sums, products, maxima and minima: their identities and how two are combined.

A sum of float32 is kept in float64 except for the innermost additions: a block of `BLOCK` vectors
is added lane by lane, then the lanes are added pairwise.
"""

from __future__ import annotations

import math
from typing import Any, Final

from llvmlite import ir

from sparkflow_runtime import dtypes
from sparkflow_runtime.codegen.cpu import maths
from sparkflow_runtime.codegen.cpu.loop_memory import I32, Memory
from sparkflow_runtime.codegen.cpu.maths import SCALARS, constant
from sparkflow_runtime.codegen.ir.kernel import COMBINING
from sparkflow_runtime.codegen.ir.schedule import Reduction
from sparkflow_runtime.dtypes import DType

BLOCK: Final = 128
"""Number of vectors added before the sum moves to a more precise accumulator."""


def identity(function: str, dtype: DType) -> float | int | bool:
    """Returns the identity: the result of a reduction over no elements."""
    if function in ("reduce_sum", "reduce_prod"):
        return int(function == "reduce_prod")
    largest = function == "reduce_max"
    if dtype.is_floating:
        return -math.inf if largest else math.inf
    if dtype is dtypes.bool_:
        return not largest
    return int(dtype.min if largest else dtype.max)


def combine(builder: Any, function: str, dtype: DType, a: Any, b: Any) -> Any:
    """Combines two values."""
    if dtype is dtypes.bool_:
        return builder.or_(a, b) if function == "reduce_max" else builder.and_(a, b)
    return maths.emit(builder, COMBINING[function], dtype, a, b)


class Accumulator:
    """A scalar accumulator of a reduction.

    Args:
        memory: Allocates its stack slot.
        reduction: The reduction that is accumulated.
    """

    def __init__(self, memory: Memory, reduction: Reduction) -> None:
        self.function = reduction.instruction.function
        self.dtype = reduction.instruction.dtype
        is_exact = self.function != "reduce_sum" or self.dtype is not dtypes.float32
        self.total_dtype = self.dtype if is_exact else dtypes.float64
        self._place = memory.variable(SCALARS[self.total_dtype])

    @property
    def needs_blocks(self) -> bool:
        """Whether long sums should be split into blocks."""
        return self.function == "reduce_sum" and self.dtype.is_floating

    def clear(self, builder: Any) -> None:
        """Resets it to the identity."""
        start = identity(self.function, self.total_dtype)
        builder.store(constant(SCALARS[self.total_dtype], start), self._place)

    def neutral(self, width: int) -> Any:
        """Returns a vector of identities."""
        kind = ir.VectorType(SCALARS[self.dtype], width)
        return constant(kind, identity(self.function, self.dtype))

    def add(self, builder: Any, value: Any) -> None:
        """Accumulates a scalar."""
        if self.total_dtype is not self.dtype:
            value = builder.fpext(value, SCALARS[self.total_dtype])
        self.add_total(builder, value)

    def add_total(self, builder: Any, value: Any) -> None:
        """Accumulates another accumulator's total."""
        total = builder.load(self._place, typ=SCALARS[self.total_dtype])
        builder.store(combine(builder, self.function, self.total_dtype, total, value), self._place)

    def add_lanes(self, builder: Any, value: Any) -> None:
        """Accumulates the lanes of a vector pairwise."""
        width = value.type.count
        while width > 1:
            width //= 2
            places = ir.VectorType(I32, width)
            halves = [
                builder.shuffle_vector(value, value, ir.Constant(places, list(half)))
                for half in (range(width), range(width, 2 * width))
            ]
            value = combine(builder, self.function, self.dtype, *halves)
        self.add(builder, builder.extract_element(value, ir.Constant(I32, 0)))

    def total(self, builder: Any) -> Any:
        """Returns the accumulated value, in `total_dtype`."""
        return builder.load(self._place, typ=SCALARS[self.total_dtype])

    def rounded(self, builder: Any, total: Any) -> Any:
        """Converts a total to the result's dtype."""
        if self.total_dtype is self.dtype:
            return total
        return builder.fptrunc(total, SCALARS[self.dtype])

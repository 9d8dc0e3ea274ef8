"""The description of a fused kernel, from which both CPU and GPU code are generated.

A kernel runs over an iteration space of a few dimensions, whose sizes are unknown until it is
called. Every value varies along some dimensions and is constant along the others, which expresses
broadcasting. Code generators turn a `Kernel` into machine code (`loops`) or CUDA (`cuda`).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Final

from sparkflow_runtime import dtypes
from sparkflow_runtime.dtypes import DType

Axes = tuple[bool, ...]
"""One flag per dimension of the iteration space."""

ARITHMETIC: Final = frozenset(
    {
        *("add", "subtract", "multiply", "divide", "negative", "absolute", "sign"),
        *("maximum", "minimum"),  # propagates NaN, like numpy
        *("exp", "expm1", "log", "log1p", "sqrt", "tanh", "erf", "sigmoid"),
        *("floor", "ceil", "trunc", "rint"),
        *("equal", "not_equal", "less", "less_equal", "greater", "greater_equal"),
        *("logical_and", "logical_or", "logical_not", "isnan", "isfinite", "isinf"),
        "where",  # (condition, a, b)
        "cast",  # to the instruction's dtype, as numpy's astype
    }
)
"""Elementwise functions, with numpy's names and semantics; `sigmoid` and `cast` are ours."""
COMBINING: Final = {
    "reduce_sum": "add",
    "reduce_prod": "multiply",
    "reduce_max": "maximum",
    "reduce_min": "minimum",
}
"""Reductions over the dimensions in `Instruction.over`, and the function of two elements of each.

Max and min propagate NaN."""
REDUCTIONS: Final = frozenset(COMBINING)
OF_TRUTHS: Final = frozenset({"reduce_max", "reduce_min"})
"""The reductions that truth values have, too: whether any of them, or all, are true."""
SOURCES: Final = frozenset({"constant", "index"})
"""`constant` has a value; `index` is the position (int64) along the one dimension in `over`."""

DTYPES: Final = frozenset(
    {dtypes.float32, dtypes.float64, dtypes.int32, dtypes.int64, dtypes.bool_}
)
"""The dtypes of values."""
NARROW: Final = frozenset({dtypes.float16, dtypes.bfloat16})
"""Additional dtypes of arrays: values of these can only be cast to and from float32."""


@dataclass(frozen=True, slots=True)
class Operand:
    """An array that the kernel reads, contiguous over the dimensions along which it varies."""

    dtype: DType
    axes: Axes


@dataclass(frozen=True, slots=True)
class Column:
    """Where the elements of an operand or an output are in an array of the call.

    Attributes:
        array: Number of the array; inputs come first, then outputs.
        step: The stride between neighbours, in elements.
        offset: The index of the first element.
    """

    array: int
    step: int = 1
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Instruction:
    """The computation of one value from earlier ones.

    Attributes:
        function: One of `ARITHMETIC`, `REDUCTIONS` or `SOURCES`.
        arguments: Numbers of values: the inputs come first, then the instructions.
        dtype: The dtype of the result.
        over: The dimensions that are reduced, or along which `index` counts.
        value: The value of a `constant`.
    """

    function: str
    arguments: tuple[int, ...]
    dtype: DType
    over: Axes = ()
    value: float | int | bool = 0


@dataclass(frozen=True)
class Kernel:
    """A fused computation.

    The arrays of a call are the inputs, then the outputs. An output has the dimensions along which
    its value varies, contiguous in the order of the iteration space.

    There are two kinds of reductions. One over the *last* dimensions (leaving at least one, all of
    this kind over the same ones) may be used by later instructions, which run once per row or in
    another pass over its elements. Any other may only be an output.

    Attributes:
        rank: Number of dimensions of the iteration space, 0 to 4.
        inputs: The arrays that are read.
        instructions: The instructions, in order of use.
        outputs: Numbers of the values that are written.
    """

    rank: int
    inputs: tuple[Operand, ...]
    instructions: tuple[Instruction, ...]
    outputs: tuple[int, ...]

    @cached_property
    def value_axes(self) -> tuple[Axes, ...]:
        """Along which dimensions each value varies."""
        found = [operand.axes for operand in self.inputs]
        for each in self.instructions:
            if each.function == "index":
                found.append(each.over)
                continue
            axes = [any(found[a][i] for a in each.arguments) for i in range(self.rank)]
            if each.function in REDUCTIONS:
                axes = [varies and not over for varies, over in zip(axes, each.over, strict=True)]
            found.append(tuple(axes))
        return tuple(found)

    @cached_property
    def value_dtypes(self) -> tuple[DType, ...]:
        """The dtype of each value."""
        return (
            *(operand.dtype for operand in self.inputs),
            *(instruction.dtype for instruction in self.instructions),
        )

    @cached_property
    def in_place(self) -> bool:
        """Whether an output may share the array of an input, both varying along all dimensions.

        Every element is then read before it is written, which does not hold if rows take several
        passes.
        """
        first = len(self.inputs)
        reduced = {
            first + number
            for number, each in enumerate(self.instructions)
            if each.function in REDUCTIONS
        }
        return not any(reduced & set(each.arguments) for each in self.instructions)

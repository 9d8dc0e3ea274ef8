"""What a fused kernel computes, as a value: the one description of CPU and GPU code.

A kernel runs over an iteration space of a few dimensions, sizes unknown until it is called. Every
value varies along some of them and is the same along the others, which is how broadcasting is
said. Code generators turn a `Kernel` into machine code (`loops`) or CUDA (`cuda`).
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
        *("maximum", "minimum"),  # NaN if one of the two is, as numpy's
        *("exp", "expm1", "log", "log1p", "sqrt", "tanh", "erf", "sigmoid"),
        *("floor", "ceil", "trunc", "rint"),
        *("equal", "not_equal", "less", "less_equal", "greater", "greater_equal"),
        *("logical_and", "logical_or", "logical_not", "isnan", "isfinite", "isinf"),
        "where",  # (condition, a, b)
        "cast",  # to the instruction's dtype, as numpy's astype
    }
)
"""Functions of values of one position; numpy's names and meanings, `sigmoid` and `cast` ours."""
REDUCTIONS: Final = frozenset({"reduce_sum", "reduce_max", "reduce_min"})
"""Functions over the dimensions in `Instruction.over`; max and min give NaN if any element is."""
SOURCES: Final = frozenset({"constant", "index"})
"""`constant` has a value; `index` is the position (int64) along the one dimension in `over`."""

DTYPES: Final = frozenset(
    {dtypes.float32, dtypes.float64, dtypes.int32, dtypes.int64, dtypes.bool_}
)
"""What values may be."""
NARROW: Final = frozenset({dtypes.float16, dtypes.bfloat16})
"""What arrays may be beside: values of these are cast to float32 and from it, and nothing else."""


@dataclass(frozen=True, slots=True)
class Operand:
    """An array that the kernel reads, contiguous over the dimensions along which it varies."""

    dtype: DType
    axes: Axes


@dataclass(frozen=True, slots=True)
class Column:
    """Where the elements of an operand or an output are in an array of the call.

    Attributes:
        array: Which one; the inputs come first, then the outputs.
        step: The distance of neighbours, in elements.
        offset: How many elements are before the first.
    """

    array: int
    step: int = 1
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Instruction:
    """One value from earlier ones.

    Attributes:
        function: One of `ARITHMETIC`, `REDUCTIONS` or `SOURCES`.
        arguments: Numbers of values: the inputs come first, then the instructions.
        dtype: Of the result.
        over: The dimensions that a reduction sums up, or along which `index` counts.
        value: Of a `constant`.
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

    Reductions come in two sorts. One over the *last* dimensions (at least one dimension left, all
    such reductions over the same ones) may be used by later instructions: these run once per row,
    or once more over its elements. Any other may only be an output.

    Attributes:
        rank: Number of dimensions of the iteration space, 0 to 4.
        inputs: What is read.
        instructions: In order of use.
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
        """Whether an output may be the array of an input, both varying along all dimensions.

        Every element is then read before it is written. Not so where rows are passed over again.
        """
        first = len(self.inputs)
        reduced = {
            first + number
            for number, each in enumerate(self.instructions)
            if each.function in REDUCTIONS
        }
        return not any(reduced & set(each.arguments) for each in self.instructions)

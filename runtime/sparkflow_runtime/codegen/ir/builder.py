"""Builds kernels from values with operators, numbered in order of creation.

builder = KernelBuilder(rank=2)
x = builder.input(float32, (True, True))
bias = builder.input(float32, (False, True))
builder.output(builder.call("maximum", x + bias, 0))
kernel = builder.build()
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np

from sparkflow_runtime import dtypes
from sparkflow_runtime.codegen.ir.kernel import (
    ARITHMETIC,
    DTYPES,
    NARROW,
    OF_TRUTHS,
    REDUCTIONS,
    Axes,
    Instruction,
    Kernel,
    Operand,
)
from sparkflow_runtime.dtypes import DType
from sparkflow_runtime.errors import InvalidArgumentError

Number: TypeAlias = float | int | bool
MOST_DIMENSIONS: Final = 4

_COMPARISONS: Final = frozenset(
    {"equal", "not_equal", "less", "less_equal", "greater", "greater_equal"}
)
_LOGICAL: Final = frozenset({"logical_and", "logical_or", "logical_not"})
_TESTS: Final = frozenset({"isnan", "isfinite", "isinf"})
_BINARY: Final = (
    frozenset({"add", "subtract", "multiply", "divide", "maximum", "minimum"})
    | _COMPARISONS
    | {"logical_and", "logical_or"}
)
_OF_INTEGERS_TOO: Final = frozenset(
    {"add", "subtract", "multiply", "negative", "absolute", "sign", "maximum", "minimum"}
)
_FLOATING: Final = frozenset({dtypes.float32, dtypes.float64})


@dataclass(frozen=True, slots=True)
class Value:
    """A value of a kernel that is being built.

    Operators accept values of the same dtype and Python numbers; comparisons such as `==` and `<`
    are methods.

    Attributes:
        number: Its number in the builder; the kernel renumbers values.
        dtype: The element type.
        axes: The dimensions along which it varies.
        builder: The builder that created it.
    """

    number: int
    dtype: DType
    axes: Axes
    builder: KernelBuilder

    def __add__(self, other: Value | Number) -> Value:
        return self.builder.call("add", self, other)

    def __radd__(self, other: Number) -> Value:
        return self.builder.call("add", other, self)

    def __sub__(self, other: Value | Number) -> Value:
        return self.builder.call("subtract", self, other)

    def __rsub__(self, other: Number) -> Value:
        return self.builder.call("subtract", other, self)

    def __mul__(self, other: Value | Number) -> Value:
        return self.builder.call("multiply", self, other)

    def __rmul__(self, other: Number) -> Value:
        return self.builder.call("multiply", other, self)

    def __truediv__(self, other: Value | Number) -> Value:
        return self.builder.call("divide", self, other)

    def __rtruediv__(self, other: Number) -> Value:
        return self.builder.call("divide", other, self)

    def __neg__(self) -> Value:
        return self.builder.call("negative", self)

    def __and__(self, other: Value | Number) -> Value:
        return self.builder.call("logical_and", self, other)

    def __or__(self, other: Value | Number) -> Value:
        return self.builder.call("logical_or", self, other)

    def __invert__(self) -> Value:
        return self.builder.call("logical_not", self)

    def equal(self, other: Value | Number) -> Value:
        """Elementwise `self == other`."""
        return self.builder.call("equal", self, other)

    def not_equal(self, other: Value | Number) -> Value:
        """Elementwise `self != other`."""
        return self.builder.call("not_equal", self, other)

    def less(self, other: Value | Number) -> Value:
        """Elementwise `self < other`."""
        return self.builder.call("less", self, other)

    def less_equal(self, other: Value | Number) -> Value:
        """Elementwise `self <= other`."""
        return self.builder.call("less_equal", self, other)

    def greater(self, other: Value | Number) -> Value:
        """Elementwise `self > other`."""
        return self.builder.call("greater", self, other)

    def greater_equal(self, other: Value | Number) -> Value:
        """Elementwise `self >= other`."""
        return self.builder.call("greater_equal", self, other)


class KernelBuilder:
    """Collects inputs, instructions and outputs; a repeated request returns the same value.

    Args:
        rank: Number of dimensions of the iteration space.

    Raises:
        InvalidArgumentError: There are too many dimensions.
    """

    def __init__(self, rank: int) -> None:
        if not 0 <= rank <= MOST_DIMENSIONS:
            raise InvalidArgumentError(
                message=f"Kernels have 0 to {MOST_DIMENSIONS} dimensions, got {rank}"
            )
        self.rank = rank
        self._made: list[Operand | Instruction] = []
        self._known: dict[tuple[object, ...], Value] = {}
        self._outputs: list[int] = []

    def input(self, dtype: DType, axes: Sequence[bool]) -> Value:
        """Adds an array that the kernel reads, after the earlier ones.

        Args:
            dtype: The element type; values of `NARROW` must be cast.
            axes: The dimensions of the iteration space along which it varies.
        """
        _check_dtype(dtype, DTYPES | NARROW)
        operand = Operand(dtype, self._flags(axes))
        return self._add(operand, operand.dtype, operand.axes)

    def constant(self, value: Number, dtype: DType) -> Value:
        """Adds a constant, rounded to the dtype.

        Raises:
            InvalidArgumentError: The dtype cannot represent it.
        """
        _check_dtype(dtype)
        rounded = _rounded(value, dtype)
        return self._instruction(Instruction("constant", (), dtype, (), rounded), self._nowhere())

    def index(self, dimension: int) -> Value:
        """Returns the position along a dimension, int64."""
        if not 0 <= dimension < self.rank:
            raise InvalidArgumentError(
                message=f"A kernel of {self.rank} dimensions has no dimension {dimension}"
            )
        axes = tuple(each == dimension for each in range(self.rank))
        return self._instruction(Instruction("index", (), dtypes.int64, axes), axes)

    def cast(self, value: Value, dtype: DType) -> Value:
        """Casts a value; returns it unchanged if it already has the dtype.

        Raises:
            InvalidArgumentError: One of the two dtypes is in `NARROW`, and the other is not
        float32.
        """
        return value if value.dtype is dtype else self.call("cast", value, dtype=dtype)

    def call(self, function: str, *values: Value | Number, dtype: DType | None = None) -> Value:
        """Applies an elementwise function.

        Args:
            function: One of `kernel.ARITHMETIC`.
            *values: At least one `Value`; Python numbers get the dtype of the others.
            dtype: The dtype of the result: required for `cast`, otherwise inferred.

        Raises:
            InvalidArgumentError: There is no such function for this number of values and these
        dtypes.
        """
        expected = _arguments_number(function)
        if len(values) != expected:
            raise InvalidArgumentError(
                message=f"{function} takes {expected} values, got {len(values)}"
            )
        arguments = self._as_values(function, values)
        result = _result_dtype(function, [each.dtype for each in arguments], dtype)
        axes = tuple(any(each.axes[i] for each in arguments) for i in range(self.rank))
        numbers = tuple(each.number for each in arguments)
        return self._instruction(Instruction(function, numbers, result), axes)

    def reduce(self, function: str, value: Value, over: Sequence[bool]) -> Value:
        """Reduces a value over some dimensions.

        Args:
            function: One of `kernel.REDUCTIONS`.
            value: If it does not vary along a reduced dimension, it counts once per position.
            over: One flag per dimension of the iteration space.

        Raises:
            InvalidArgumentError: There is no such reduction for this dtype.
        """
        if function not in REDUCTIONS:
            raise InvalidArgumentError(
                message=f"Kernels have no reduction {function!r}, only {sorted(REDUCTIONS)}"
            )
        self._check_owner(function, value)
        if value.dtype is dtypes.bool_ and function not in OF_TRUTHS:
            raise InvalidArgumentError(message=f"{function} takes numbers, got bool: cast it")
        flags = self._flags(over)
        axes = tuple(varies and not gone for varies, gone in zip(value.axes, flags, strict=True))
        return self._instruction(Instruction(function, (value.number,), value.dtype, flags), axes)

    def output(self, value: Value) -> None:
        """Adds an output, after the earlier ones."""
        self._check_owner("output", value)
        self._outputs.append(value.number)

    def build(self) -> Kernel:
        """Returns the kernel; inputs come first, then instructions in order of creation."""
        inputs = [n for n, each in enumerate(self._made) if isinstance(each, Operand)]
        others = [n for n, each in enumerate(self._made) if isinstance(each, Instruction)]
        place = {number: n for n, number in enumerate([*inputs, *others])}
        instructions = [
            Instruction(
                each.function,
                tuple(place[argument] for argument in each.arguments),
                each.dtype,
                each.over,
                each.value,
            )
            for each in self._made
            if isinstance(each, Instruction)
        ]
        operands = [each for each in self._made if isinstance(each, Operand)]
        outputs = tuple(place[number] for number in self._outputs)
        return Kernel(self.rank, tuple(operands), tuple(instructions), outputs)

    def _nowhere(self) -> Axes:
        return (False,) * self.rank

    def _flags(self, axes: Sequence[bool]) -> Axes:
        if len(axes) != self.rank:
            raise InvalidArgumentError(
                message=f"A kernel of {self.rank} dimensions takes a flag for each, got {len(axes)}"
            )
        return tuple(map(bool, axes))

    def _check_owner(self, function: str, value: Value) -> None:
        if value.builder is not self:
            raise InvalidArgumentError(message=f"{function} of a value of another kernel's builder")

    def _as_values(self, function: str, values: Sequence[Value | Number]) -> list[Value]:
        for each in values:
            if isinstance(each, Value):
                self._check_owner(function, each)
        alike = values[1:] if function == "where" else values  # a condition comes first
        dtype = next((each.dtype for each in alike if isinstance(each, Value)), None)
        if dtype is None:
            raise InvalidArgumentError(
                message=f"{function} of numbers alone has no dtype: make one of them a constant"
            )
        return [each if isinstance(each, Value) else self.constant(each, dtype) for each in values]

    def _instruction(self, instruction: Instruction, axes: Axes) -> Value:
        # -0.0 equals 0.0, but is not the same constant
        key = (*(getattr(instruction, name) for name in _FIELDS), repr(instruction.value))
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = self._add(instruction, instruction.dtype, axes)
        return found

    def _add(self, made: Operand | Instruction, dtype: DType, axes: Axes) -> Value:
        self._made.append(made)
        return Value(len(self._made) - 1, dtype, axes, self)


_FIELDS: Final = ("function", "arguments", "dtype", "over")


def _check_dtype(dtype: DType, allowed: frozenset[DType] = DTYPES) -> None:
    if dtype not in allowed:
        names = sorted(each.name for each in allowed)
        raise InvalidArgumentError(message=f"Values of kernels are {names}, got {dtype.name}")


def _rounded(value: Number, dtype: DType) -> Number:
    if not dtype.is_floating and (not math.isfinite(value) or int(value) != value):
        raise InvalidArgumentError(message=f"{value} does not fit {dtype.name}")
    try:
        with np.errstate(over="ignore"):
            rounded: Number = np.array(value).astype(dtype.as_numpy_dtype).item()
    except OverflowError as error:
        raise InvalidArgumentError(message=f"{value} does not fit {dtype.name}") from error
    if not dtype.is_floating and rounded != value:
        raise InvalidArgumentError(message=f"{value} does not fit {dtype.name}")
    return rounded


def _arguments_number(function: str) -> int:
    if function not in ARITHMETIC:
        raise InvalidArgumentError(message=f"Fused kernels have no function {function!r}")
    if function == "where":
        return 3
    return 2 if function in _BINARY else 1


def _result_dtype(function: str, given: list[DType], wanted: DType | None) -> DType:
    if function == "cast":
        if wanted is None:
            raise InvalidArgumentError(message="cast needs a dtype to convert to")
        _check_dtype(wanted, DTYPES | NARROW)
        if NARROW & {given[0], wanted} and dtypes.float32 not in (given[0], wanted):
            raise InvalidArgumentError(
                message=f"{given[0].name} cannot be cast to {wanted.name}: cast it to float32 first"
            )
        return wanted
    result = _inferred_dtype(function, given)
    if result is None:
        names = ", ".join(each.name for each in given)
        raise InvalidArgumentError(
            message=f"Fused kernels have no {function} of {names}: cast the arguments"
        )
    if wanted is not None and wanted is not result:
        raise InvalidArgumentError(
            message=f"{function} of {given[-1].name} gives {result.name}, not {wanted.name}"
        )
    return result


def _inferred_dtype(function: str, given: list[DType]) -> DType | None:
    """Returns the dtype of a function's result; None if there is no such function of these."""
    if NARROW & set(given):
        return None
    if function == "where":
        condition, first, second = given
        return first if condition is dtypes.bool_ and first is second else None
    if len(set(given)) > 1:
        return None
    dtype = given[0]
    if function in _COMPARISONS:
        return dtypes.bool_
    if function in _LOGICAL:
        return dtype if dtype is dtypes.bool_ else None
    if dtype in _FLOATING:
        return dtypes.bool_ if function in _TESTS else dtype
    return dtype if dtype.is_integer and function in _OF_INTEGERS_TOO else None

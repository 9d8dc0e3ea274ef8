"""Rows shorter than a vector: kernels vectorised across rows, with one vector per column.

If the last dimension is shorter than a register, loops over it leave lanes idle, and reductions
over it need horizontal operations. Here every position in a row is a separate value: the last
dimension is gone, a reduction over it is a chain of operations, and the dimension before it fills
the lanes. Each column in memory is a `Column`.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from sparkflow_runtime import dtypes
from sparkflow_runtime.codegen.ir.kernel import (
    COMBINING,
    SOURCES,
    Column,
    Instruction,
    Kernel,
    Operand,
)
from sparkflow_runtime.codegen.ir.schedule import COSTS, Schedule, Target

MOST_SHUFFLED: Final = 4
"""Columns of longer rows are gathered from memory, not assembled by shuffles."""
_MOST_INSTRUCTIONS: Final = 256
"""Maximum number of instructions, counted once per position in a row: more compile slowly."""
_MOST_SHUFFLES: Final = 150
_GAIN: Final = 1.2
"""Minimum estimated speedup."""
_LEAST_BYTES: Final = 4
"""Minimum element size: processors have no masked loads and stores of smaller ones."""
_COMBINING_TRUTHS: Final = {"reduce_max": "logical_or", "reduce_min": "logical_and"}


@dataclass(frozen=True)
class Columns:
    """A kernel without its last dimension.

    Attributes:
        kernel: The computation. All columns of an array are consecutive.
        places: Where the operands of this kernel are, inputs first, then outputs.
    """

    kernel: Kernel
    places: tuple[Column, ...]


def columns_of(schedule: Schedule, sizes: Sequence[int], target: Target) -> Columns | None:
    """Returns the kernel by columns if that is faster.

    Args:
        schedule: The plan of a simplified kernel, see `schedule.simplify`.
        sizes: Sizes of its iteration space.
        target: The processor.
    """
    kernel = schedule.kernel
    if kernel.rank < 2 or sizes[-1] < 2:
        return None
    if not sizes[-1] < schedule.lanes(target.vector_bytes) <= sizes[-2]:
        return None
    varying = [
        kernel.value_dtypes[value]
        for value in (*range(len(kernel.inputs)), *kernel.outputs)
        if kernel.value_axes[value][-1]
    ]
    if not varying or min(dtype.size for dtype in varying) < _LEAST_BYTES:
        return None
    if not _is_worth_while(schedule, sizes[-1], target):
        return None
    columns = _Writer(kernel, sizes[-1]).written()
    found = Schedule(columns.kernel)
    if found.passes > 1 or any(each.in_memory for each in found.reductions):
        return None
    return columns


def _is_worth_while(schedule: Schedule, length: int, target: Target) -> bool:
    """Whether one register's worth of rows takes less time by columns.

    Approximate, in cycles; measured on a Sapphire Rapids, November 2026.
    """
    kernel, lanes = schedule.kernel, schedule.lanes(target.vector_bytes)
    if len(kernel.instructions) * length > _MOST_INSTRUCTIONS:
        return False
    inside = outside = gathered = 0.0
    for value in schedule.live:
        instruction = schedule.instruction(value)
        if instruction is None or instruction.function in SOURCES:
            continue
        if instruction.over and instruction.over[-1]:
            gathered += 1.0
            inside += 1.0
        elif kernel.value_axes[value][-1]:
            inside += COSTS.get(instruction.function, 1.0)
        else:
            outside += COSTS.get(instruction.function, 1.0)
    read = sum(operand.axes[-1] and any(operand.axes[:-1]) for operand in kernel.inputs)
    written = sum(kernel.value_axes[value][-1] for value in kernel.outputs)
    shuffles = (read * (length <= MOST_SHUFFLED) + written) * length * (length - 1)
    gathers = read * (length > MOST_SHUFFLED) * length * lanes
    by_rows = lanes * (3.0 + 1.5 * (inside + outside + 8.0 * gathered))
    shuffle = 1.5 if target.vector_bytes == 64 else 3.0  # of AVX-512, one instruction each
    by_columns = 1.7 * (length * inside + outside) + shuffle * shuffles + 0.5 * gathers
    return shuffles <= _MOST_SHUFFLES and by_columns * _GAIN < by_rows


class _Writer:
    def __init__(self, kernel: Kernel, length: int) -> None:
        self._kernel = kernel
        self._length = length
        self._instructions: list[Instruction] = []
        self._values: list[list[int]] = []
        """The instructions of the kernel: one value each, or one per position in a row."""
        self._inputs: list[Operand] = []

    def written(self) -> Columns:
        places: list[Column] = []
        for array, operand in enumerate(self._kernel.inputs):
            short = replace(operand, axes=operand.axes[:-1])
            columns = self._columns(array, operand.axes[-1])
            self._values.append([len(places) + each for each in range(len(columns))])
            self._inputs += [short] * len(columns)
            places += columns
        for instruction in self._kernel.instructions:
            self._values.append(self._written(instruction))
        outputs: list[int] = []
        for array, value in enumerate(self._kernel.outputs, len(self._kernel.inputs)):
            outputs += self._values[value]
            places += self._columns(array, len(self._values[value]) > 1)
        kernel = Kernel(
            self._kernel.rank - 1,
            tuple(self._inputs),
            tuple(self._instructions),
            tuple(outputs),
        )
        return Columns(kernel, tuple(places))

    def _columns(self, array: int, varies: bool) -> list[Column]:
        if not varies:
            return [Column(array)]
        return [Column(array, self._length, offset) for offset in range(self._length)]

    def _written(self, instruction: Instruction) -> list[int]:
        over = instruction.over
        if instruction.function == "index" and over[-1]:
            numbers = range(self._length)
            return [self._add("constant", (), instruction.dtype, value=each) for each in numbers]
        if not (over and over[-1]):
            arguments = [self._values[argument] for argument in instruction.arguments]
            count = max((len(each) for each in arguments), default=1)
            return [
                self._append(
                    replace(
                        instruction,
                        arguments=tuple(each[place % len(each)] for each in arguments),
                        over=over[:-1],
                    )
                )
                for place in range(count)
            ]
        (argument,) = instruction.arguments
        values = self._values[argument]
        values = values if len(values) > 1 else values * self._length
        truths = _COMBINING_TRUTHS if instruction.dtype is dtypes.bool_ else COMBINING
        function = truths[instruction.function]
        result = functools.reduce(
            lambda a, b: self._add(function, (a, b), instruction.dtype), values
        )
        if any(over[:-1]):
            rest = replace(instruction, arguments=(result,), over=over[:-1])
            result = self._append(rest)
        return [result]

    def _add(
        self, function: str, arguments: tuple[int, ...], dtype: dtypes.DType, value: int = 0
    ) -> int:
        return self._append(Instruction(function, arguments, dtype, value=value))

    def _append(self, instruction: Instruction) -> int:
        self._instructions.append(instruction)
        return len(self._inputs) + len(self._instructions) - 1

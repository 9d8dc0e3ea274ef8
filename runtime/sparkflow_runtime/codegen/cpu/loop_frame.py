"""The arguments of the function `body`, as its generated code sees them.

Numbers for the body (`sizes`): the size of each dimension, the number of parts, the offset of a
counter, then for each area (`Schedule.areas`) its offset and the stride between parts, followed by
the counter and the areas themselves. Offsets are in bytes from the first number. A single-part body
reads neither the number of parts nor the counter.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from llvmlite import ir

from sparkflow_runtime.codegen.cpu.loop_memory import I8, I64, POINTER, Array, Memory, number
from sparkflow_runtime.codegen.ir.kernel import Axes, Column
from sparkflow_runtime.codegen.ir.schedule import Form, Schedule
from sparkflow_runtime.dtypes import DType


class Frame:
    """The function being emitted.

    Args:
        schedule: The plan of its loops.
        has_masks: See `Memory`.
        form: The sizes it is specialised for, and where the arrays are.

    Attributes:
        builder: llvmlite's builder, at the current insertion point.
        memory: Emits loads and stores.
        sizes: Sizes of the dimensions.
        low, high: Bounds of the outermost loop.
        indices: Indices of the enclosing loops.
        inputs, outputs: The arrays of the call.
        kept: The arrays that keep values for a later pass.
        areas: Memory per part, by value: the address for part 0, and the stride between parts.
        parts, counter: The number of parts, and the address of the count of finished ones.
    """

    def __init__(self, schedule: Schedule, has_masks: bool, form: Form) -> None:
        kernel, is_divided = schedule.kernel, form.is_divided
        count = len(kernel.inputs) + len(kernel.outputs)
        columns = form.columns or tuple(map(Column, range(count)))
        self.module = ir.Module(context=ir.Context())
        signature = ir.FunctionType(ir.VoidType(), [POINTER, POINTER, I64, I64, I64])
        self._function = ir.Function(self.module, signature, name="body")
        numbers, self._arrays, self.low, self.high, self._part = self._function.args
        entry = self.block("entry")
        self.builder = ir.IRBuilder(entry)
        self.memory = Memory(entry, has_masks)
        self.indices: list[Any] = [None] * kernel.rank
        self.sizes = [self._read(numbers, dimension) for dimension in range(kernel.rank)]
        self.inputs = [
            self._array(column, each.dtype, each.axes)
            for column, each in zip(columns, kernel.inputs, strict=False)
        ]
        self.outputs = [
            self._array(column, kernel.value_dtypes[value], kernel.value_axes[value])
            for column, value in zip(columns[len(kernel.inputs) :], kernel.outputs, strict=True)
        ]
        if is_divided:
            self.parts = self._read(numbers, kernel.rank)
            self.counter = self.at(numbers, self._read(numbers, kernel.rank + 1))
        self.areas: dict[int, tuple[Any, Any]] = {}
        for place, value in enumerate(schedule.areas(is_divided)):
            offset, distance = (
                self._read(numbers, kernel.rank + 2 + 2 * place + i) for i in (0, 1)
            )
            self.areas[value] = self.at(numbers, offset), distance
        self.kept = {value: self.outputs[home] for value, home in schedule.homes.items()}
        for value in schedule.buffered:
            axes = schedule.row_axes(value)
            self.kept[value] = self.array(self.own_area(value), kernel.value_dtypes[value], axes)
        start = self.block("start")
        self.builder.branch(start)
        self.builder.position_at_end(start)

    def text(self) -> str:
        """Returns the module."""
        return "\n".join(str(each) for each in self.module.globals.values())

    def block(self, name: str) -> Any:
        """Appends a basic block."""
        return self._function.append_basic_block(name)

    def array(self, base: Any, dtype: DType, axes: Axes) -> Array:
        """Returns memory as an array over the iteration space."""
        return Array(base, dtype, axes, self.sizes)

    def bounds(self, dimension: int) -> tuple[Any, Any]:
        """Returns the bounds of the loop over a dimension."""
        return (self.low, self.high) if dimension == 0 else (number(0), self.sizes[dimension])

    def own_area(self, value: int) -> Any:
        """Returns the address of this part's memory for a value."""
        base, distance = self.areas[value]
        return self.at(base, self.builder.mul(self._part, distance))

    def at(self, base: Any, offset: Any) -> Any:
        """Returns an address plus an offset in bytes."""
        return self.builder.gep(base, [offset], source_etype=I8)

    @contextmanager
    def loop(self, low: Any, high: Any, name: str) -> Iterator[Any]:
        """Emits a loop around what is emitted inside; yields the index."""
        builder, before = self.builder, self.builder.block
        inside, after = self.block(name), self.block(f"after_{name}")
        builder.cbranch(builder.icmp_signed("<", low, high), inside, after)
        builder.position_at_end(inside)
        index = builder.phi(I64)
        index.add_incoming(low, before)
        yield index
        following = builder.add(index, number(1))
        index.add_incoming(following, builder.block)
        builder.cbranch(builder.icmp_signed("<", following, high), inside, after)
        builder.position_at_end(after)

    def _read(self, numbers: Any, place: int) -> Any:
        pointer = self.builder.gep(numbers, [number(place)], source_etype=I64)
        return self.builder.load(pointer, align=8, typ=I64)

    def _array(self, column: Column, dtype: DType, axes: Axes) -> Array:
        pointer = self.builder.gep(self._arrays, [number(column.array)], source_etype=POINTER)
        base = self.builder.load(pointer, align=8, typ=POINTER)
        if column.offset:
            base = self.at(base, number(column.offset * dtype.size))
        return Array(base, dtype, axes, self.sizes, column.step)

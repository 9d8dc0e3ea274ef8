"""How loops read and write arrays: addresses per loop level, vectors, and vectors cut short.

Booleans are bytes in memory and single bits in registers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from llvmlite import ir

from sparkflow_runtime import dtypes
from sparkflow_runtime.codegen.cpu.maths import SCALARS, constant
from sparkflow_runtime.codegen.ir.kernel import Axes
from sparkflow_runtime.dtypes import DType

I8: Final = ir.IntType(8)
I32: Final = ir.IntType(32)
I64: Final = ir.IntType(64)
POINTER: Final = ir.PointerType()

MEMORY_TYPES: Final = {**SCALARS, dtypes.bool_: I8}
_LEAST_MASKED: Final = 4
"""Size in bytes of the smallest elements for which processors have masked loads and stores."""


def number(value: int) -> Any:
    """Returns an int64 constant."""
    return ir.Constant(I64, value)


def vector(scalar: Any, width: int) -> Any:
    """Returns a vector type of `width` lanes; the scalar type for a width of 0."""
    return ir.VectorType(scalar, width) if width else scalar


@dataclass(frozen=True, slots=True)
class Cut:
    """The masked tail of a row: fewer elements than a vector has lanes.

    Attributes:
        count: Number of valid elements, int64.
        mask: One bit per lane: whether the element is valid.
    """

    count: Any
    mask: Any


class Array:
    """An array of a call, or a piece of memory that is used like one.

    Attributes:
        dtype: The element type.
        axes: The dimensions along which it varies.
        step: The stride between neighbours, in elements.
    """

    def __init__(
        self, base: Any, dtype: DType, axes: Axes, sizes: Sequence[Any], step: int = 1
    ) -> None:
        self.dtype = dtype
        self.axes = axes
        self.step = step
        self._sizes = sizes
        self._pointers = [base]

    def enter(self, builder: Any, dimension: int, index: Any) -> None:
        """Moves to a position of the loop over a dimension, inside the loops that enclose it."""
        del self._pointers[dimension + 1 :]
        pointer = self._pointers[dimension]
        if self.axes[dimension]:
            offset = builder.mul(index, self.stride(builder, dimension))
            pointer = self._gep(builder, pointer, offset)
        self._pointers.append(pointer)

    def stride(self, builder: Any, dimension: int) -> Any:
        """Returns the stride of a dimension in elements, int64."""
        return self._stepped(builder, self._product(builder, dimension + 1))

    def count(self, builder: Any, dimension: int) -> Any:
        """Returns the number of elements inside the loops over the preceding dimensions."""
        return self._product(builder, dimension)

    def _product(self, builder: Any, start: int) -> Any:
        result = number(1)
        for size, varies in zip(self._sizes[start:], self.axes[start:], strict=True):
            if varies:
                result = builder.mul(result, size)
        return result

    def pointer(self, builder: Any, level: int, index: Any = None) -> Any:
        """Returns the address of an element.

        Args:
            builder: Emits the address.
            level: Number of enclosing loops.
            index: Position along the dimension of this level.
        """
        pointer = self._pointers[level]
        if index is None:
            return pointer
        return self._gep(builder, pointer, self._stepped(builder, index))

    def neighbour(self, builder: Any, pointer: Any, count: int) -> Any:
        """Returns an address plus an offset in elements."""
        return self._gep(builder, pointer, number(count)) if count else pointer

    def _stepped(self, builder: Any, index: Any) -> Any:
        return index if self.step == 1 else builder.mul(index, number(self.step))

    def _gep(self, builder: Any, pointer: Any, index: Any) -> Any:
        return builder.gep(pointer, [index], source_etype=MEMORY_TYPES[self.dtype])


class Memory:
    """Emits loads and stores.

    Args:
        entry: The entry block, which runs once and ends with a branch.
        has_masks: Whether the processor has masked loads and stores of 4- and 8-byte elements.
    """

    def __init__(self, entry: Any, has_masks: bool) -> None:
        self._entry = entry
        self._has_masks = has_masks
        self._module = entry.function.module
        self._buffers: dict[str, Any] = {}

    def load(
        self, builder: Any, dtype: DType, pointer: Any, width: int = 0, cut: Any = None
    ) -> Any:
        """Loads a scalar (width 0) or a vector; masked-off lanes are 0."""
        kind = vector(MEMORY_TYPES[dtype], width)
        if cut is None:
            found = builder.load(pointer, align=dtype.size, typ=kind)
        elif self._masks(dtype):
            name = f"llvm.masked.load.{_suffix(dtype, width)}.p0"
            bits = ir.VectorType(ir.IntType(1), width)
            function = self._intrinsic(name, ir.FunctionType(kind, [POINTER, I32, bits, kind]))
            align = ir.Constant(I32, dtype.size)
            found = builder.call(function, [pointer, align, cut.mask, constant(kind, 0)])
        else:
            buffer = self._buffer(kind)
            builder.store(constant(kind, 0), buffer, align=dtype.size)
            self._copy(builder, buffer, pointer, dtype, cut.count)
            found = builder.load(buffer, align=dtype.size, typ=kind)
        if dtype is dtypes.bool_:
            return builder.icmp_unsigned("!=", found, constant(kind, 0))
        return found

    def gather(
        self, builder: Any, dtype: DType, pointer: Any, step: int, width: int, cut: Any
    ) -> Any:
        """Loads a vector of every `step`th element; masked-off lanes are 0."""
        scalar = MEMORY_TYPES[dtype]
        kind, bits = ir.VectorType(scalar, width), ir.VectorType(ir.IntType(1), width)
        pointers = ir.VectorType(POINTER, width)
        places = ir.Constant(ir.VectorType(I32, width), [lane * step for lane in range(width)])
        each = builder.gep(pointer, [places], source_etype=scalar)
        each.type = pointers  # llvmlite takes it for a scalar
        name = f"llvm.masked.gather.{_suffix(dtype, width)}.v{width}p0"
        function = self._intrinsic(name, ir.FunctionType(kind, [pointers, I32, bits, kind]))
        mask = ir.Constant(bits, [1] * width) if cut is None else cut.mask
        align = ir.Constant(I32, dtype.size)
        return builder.call(function, [each, align, mask, constant(kind, 0)])

    def store(self, builder: Any, dtype: DType, value: Any, pointer: Any, cut: Any = None) -> None:
        """Stores a scalar or a vector, or its valid lanes."""
        width = value.type.count if isinstance(value.type, ir.VectorType) else 0
        kind = vector(MEMORY_TYPES[dtype], width)
        if dtype is dtypes.bool_:
            value = builder.zext(value, kind)
        if cut is None:
            builder.store(value, pointer, align=dtype.size)
        elif self._masks(dtype):
            name = f"llvm.masked.store.{_suffix(dtype, width)}.p0"
            bits = ir.VectorType(ir.IntType(1), width)
            signature = ir.FunctionType(ir.VoidType(), [kind, POINTER, I32, bits])
            align = ir.Constant(I32, dtype.size)
            builder.call(self._intrinsic(name, signature), [value, pointer, align, cut.mask])
        else:
            buffer = self._buffer(kind)
            builder.store(value, buffer, align=dtype.size)
            self._copy(builder, pointer, buffer, dtype, cut.count)

    def clear(self, builder: Any, pointer: Any, array: Array, count: Any) -> None:
        """Sets elements of an array to 0."""
        signature = ir.FunctionType(ir.VoidType(), [POINTER, I8, I64, ir.IntType(1)])
        function = self._intrinsic("llvm.memset.p0.i64", signature)
        size = builder.mul(count, number(array.dtype.size))
        no = ir.Constant(ir.IntType(1), 0)
        builder.call(function, [pointer, ir.Constant(I8, 0), size, no])

    def variable(self, kind: Any) -> Any:
        """Allocates a stack slot, which LLVM promotes to a register if it can."""
        with_entry = ir.IRBuilder(self._entry)
        with_entry.position_at_start(self._entry)
        return with_entry.alloca(kind)

    def _masks(self, dtype: DType) -> bool:
        return self._has_masks and dtype.size >= _LEAST_MASKED

    def _buffer(self, kind: Any) -> Any:
        found = self._buffers.get(str(kind))
        if found is None:
            found = self._buffers[str(kind)] = self.variable(kind)
        return found

    def _copy(self, builder: Any, to: Any, source: Any, dtype: DType, count: Any) -> None:
        signature = ir.FunctionType(ir.VoidType(), [POINTER, POINTER, I64, ir.IntType(1)])
        function = self._intrinsic("llvm.memcpy.p0.p0.i64", signature)
        size = builder.mul(count, number(dtype.size))
        builder.call(function, [to, source, size, ir.Constant(ir.IntType(1), 0)])

    def _intrinsic(self, name: str, signature: Any) -> Any:
        found = self._module.globals.get(name)
        return ir.Function(self._module, signature, name=name) if found is None else found


def _suffix(dtype: DType, width: int) -> str:
    return f"v{width}{'f' if dtype.is_floating else 'i'}{8 * dtype.size}"

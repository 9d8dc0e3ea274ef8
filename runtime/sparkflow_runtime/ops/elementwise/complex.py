"""Complex numbers: their parts, absolute values and angles. `Conj` is in `unary`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from sparkflow_runtime.dtypes import COMPLEX, complex64, float32, float64
from sparkflow_runtime.errors import InvalidArgumentError
from sparkflow_runtime.ops.builder import OperationView, Tensor
from sparkflow_runtime.ops.composition import Composed
from sparkflow_runtime.ops.elementwise.broadcast_gradient import sum_to_operands
from sparkflow_runtime.ops.inference import broadcast
from sparkflow_runtime.ops.op import Array, Inference, Op
from sparkflow_runtime.ops.registry import register
from sparkflow_runtime.ops.signature import type_attr
from sparkflow_runtime.shapes import Shape

_PARTS = frozenset({float32, float64})


class _PartOp(Op):
    """A real number from each complex one; `Tout` must be the type of the parts of `T`."""

    inputs = "input: T"
    outputs = "output: Tout"
    attrs = {"T": type_attr(COMPLEX, complex64), "Tout": type_attr(_PARTS, float32)}

    def infer(self, node: Inference) -> Sequence[Shape]:
        """The input's shape."""
        source, target = node.attrs["T"], node.attrs["Tout"]
        if source.real_dtype is not target:
            raise InvalidArgumentError(
                message=f"{self.op_type} of {source.name} gives {source.real_dtype.name}, "
                f"not {target.name}"
            )
        return [node.shapes[0]]

    def compute(self, xp: Any, value: Array) -> Array:
        """A new array."""
        return self.part(xp, value)

    @staticmethod
    def part(xp: Any, x: Array) -> Array:
        """The real numbers."""
        raise NotImplementedError


def _complex(g: Any, real: Tensor, imag: Tensor) -> Tensor:
    wide = real.dtype.base is float64
    return g.Complex(real, imag, Tout="complex128" if wide else "complex64")


@register
class Real(_PartOp):
    """The real part."""

    @staticmethod
    def part(xp: Any, x: Array) -> Array:
        """The real parts."""
        return x.real.copy()

    def gradient(self, g: Any, op: OperationView, dy: Tensor) -> Sequence[Tensor]:
        """As the real part."""
        return [_complex(g, dy, g.ZerosLike(dy))]


@register
class Imag(_PartOp):
    """The imaginary part."""

    @staticmethod
    def part(xp: Any, x: Array) -> Array:
        """The imaginary parts."""
        return x.imag.copy()

    def gradient(self, g: Any, op: OperationView, dy: Tensor) -> Sequence[Tensor]:
        """As the imaginary part."""
        return [_complex(g, g.ZerosLike(dy), dy)]


@register
class Angle(Composed):
    """The angle, in (-π, π]."""

    inputs = _PartOp.inputs
    outputs = _PartOp.outputs
    attrs = _PartOp.attrs
    elementwise = _PartOp.elementwise
    infer = _PartOp.infer

    def define(self, g: Any, x: Tensor) -> Tensor:
        """`atan2` of the parts."""
        parts = {"Tout": x.dtype.real_dtype}
        return g.Atan2(g.Imag(x, **parts), g.Real(x, **parts))


@register
class ComplexAbs(_PartOp):
    """The absolute value."""

    inputs = "x: T"
    outputs = "y: Tout"

    @staticmethod
    def part(xp: Any, x: Array) -> Array:
        """The absolute values."""
        return xp.absolute(x)

    def gradient(self, g: Any, op: OperationView, dy: Tensor) -> Sequence[Tensor]:
        """In the direction of the number; 0 at 0."""
        zeros = g.ZerosLike(dy)
        size = _complex(g, op.outputs[0], zeros)
        return [g.DivNoNan(g.Mul(_complex(g, dy, zeros), op.inputs[0]), size)]


@register
class Complex(Op):
    """Complex numbers from real and imaginary parts, which are broadcast."""

    inputs = "real: T, imag: T"
    outputs = "out: Tout"
    attrs = {"T": type_attr(_PARTS, float32), "Tout": type_attr(COMPLEX, complex64)}
    infer = broadcast

    def compute(self, xp: Any, real: Array, imag: Array, *, Tout: Any) -> Array:
        """A new array; infinite parts do not mix."""
        result = xp.empty(np.broadcast_shapes(real.shape, imag.shape), Tout.as_numpy_dtype)
        result.real = real
        result.imag = imag
        return result

    def gradient(self, g: Any, op: OperationView, dz: Tensor) -> Sequence[Tensor | None]:
        """The parts of the gradient."""
        real, imag = op.inputs
        parts = {"Tout": real.dtype.base}
        return sum_to_operands(g, real, imag, g.Real(dz, **parts), g.Imag(dz, **parts))

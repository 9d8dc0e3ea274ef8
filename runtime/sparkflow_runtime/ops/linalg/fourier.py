"""Discrete Fourier transforms of the last one, two or three axes, by SciPy.

Cosine transforms and similar ones are built on them in the front end.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np

from sparkflow_runtime import shapes
from sparkflow_runtime.device.special import fourier_transforms
from sparkflow_runtime.dtypes import COMPLEX, complex64, float32, float64
from sparkflow_runtime.errors import InvalidArgumentError
from sparkflow_runtime.ops.builder import OperationView, Tensor
from sparkflow_runtime.ops.kernel import KernelContext
from sparkflow_runtime.ops.op import Array, Inference, NodeView, Op
from sparkflow_runtime.ops.registry import register
from sparkflow_runtime.ops.signature import type_attr
from sparkflow_runtime.ops.static import constant_vector, vector
from sparkflow_runtime.shapes import Shape

_REAL = type_attr(frozenset({float32, float64}), float32)
_COMPLEX = type_attr(COMPLEX, complex64)


def _at_least(op_type: str, shape: Shape, rank: int) -> None:
    if shape is not None and len(shape) < rank:
        raise InvalidArgumentError(
            message=f"{op_type} takes an input of at least rank {rank}, got shape "
            f"{shapes.text(shape)}"
        )


class _ComplexTransform(Op):
    """Complex to complex over the last `rank` axes."""

    inputs = "input: Tcomplex"
    outputs = "output: Tcomplex"
    attrs = {"Tcomplex": _COMPLEX}
    rank: ClassVar[int]
    inverse: ClassVar[bool]

    def infer(self, node: Inference) -> Sequence[Shape]:
        """The input's shape."""
        _at_least(self.op_type, node.shapes[0], self.rank)
        return [node.shapes[0]]

    def compute(self, xp: Any, value: Array) -> Array:
        """A new array."""
        _at_least(self.op_type, value.shape, self.rank)
        if not value.size:
            return value.copy()
        module = fourier_transforms(xp)
        transform = module.ifftn if self.inverse else module.fftn
        return transform(value, axes=_last(self.rank))

    def gradient(self, g: Any, op: OperationView, dy: Tensor) -> Sequence[Tensor]:
        """The inverse transform, times or divided by the number of elements."""
        x = op.inputs[0]
        sizes = g.StridedSlice(g.Shape(x), *_tail(self.rank), end_mask=1)
        kind = x.dtype.base
        count = g.Cast(g.Prod(sizes, np.array(0, np.int32)), DstT=kind)
        name = "FFT" + ("" if self.rank == 1 else f"{self.rank}D")
        if self.inverse:
            return [g.RealDiv(getattr(g, name)(dy), count)]
        return [g.Mul(getattr(g, f"I{name}")(dy), count)]


def _last(rank: int) -> tuple[int, ...]:
    return tuple(range(-rank, 0))


def _tail(rank: int) -> tuple[Any, Any, Any]:
    return np.array([-rank], np.int32), np.array([0], np.int32), np.array([1], np.int32)


class _RealTransform(Op):
    """Between real numbers and the non-redundant half of a spectrum; cropped or padded first."""

    rank: ClassVar[int]

    def _lengths(self, node: Inference) -> tuple[int | None, ...]:
        _at_least(self.op_type, node.shapes[0], self.rank)
        given = constant_vector(node, 1, "fft_length")
        if given is None:
            return (None,) * self.rank
        self._check(given)
        return given

    def _check(self, lengths: Sequence[int]) -> None:
        if len(lengths) != self.rank:
            raise InvalidArgumentError(
                message=f"fft_length must have {self.rank} elements, got {len(lengths)}"
            )

    def bind(self, node: NodeView, context: KernelContext) -> Callable[..., Any]:
        """The transform, its result of the output's dtype."""
        output = self.signature.outputs[0].type_attr
        assert output is not None
        kind = node.attrs[output].as_numpy_dtype
        xp = context.xp

        def run(value: Array, fft_length: Array) -> Array:
            lengths = vector(fft_length, "fft_length")
            self._check(lengths)
            _at_least(self.op_type, value.shape, self.rank)
            return self.transform(xp, value, lengths).astype(kind, copy=False)

        return run

    def transform(self, xp: Any, value: Array, lengths: tuple[int, ...]) -> Array:
        """The transform after cropping or padding to these lengths."""
        raise NotImplementedError(self.op_type)


class _ToSpectrum(_RealTransform):
    """Real to complex."""

    inputs = "input: Treal, fft_length: int32"
    outputs = "output: Tcomplex"
    attrs = {"Treal": _REAL, "Tcomplex": _COMPLEX}

    def infer(self, node: Inference) -> Sequence[Shape]:
        """The lengths in place of the last sizes, with half of the last plus one."""
        lengths = self._lengths(node)
        shape = node.shapes[0]
        if shape is None:
            return [None]
        last = lengths[-1]
        half = None if last is None else (last // 2 + 1 if last else 0)
        return [(*shape[: len(shape) - self.rank], *lengths[:-1], half)]

    def transform(self, xp: Any, value: Array, lengths: tuple[int, ...]) -> Array:
        """The first half of the spectrum."""
        if not value.size or not all(lengths):
            half = lengths[-1] // 2 + 1 if lengths[-1] else 0
            outer = value.shape[: value.ndim - self.rank]
            return xp.zeros((*outer, *lengths[:-1], half), np.complex64)
        module = fourier_transforms(xp)
        return module.rfftn(value, s=lengths, axes=_last(self.rank))

    def gradient(self, g: Any, op: OperationView, dy: Tensor) -> Sequence[Tensor | None]:
        """The real part of the inverse transform of the gradient of half a spectrum."""
        x, lengths = op.inputs
        kind = op.outputs[0].dtype.base
        name = "FFT" + ("" if self.rank == 1 else f"{self.rank}D")
        last = g.StridedSlice(lengths, *_tail(1), end_mask=1, shrink_axis_mask=0)
        # The other half of the spectrum does not contribute: zeros.
        missing = g.Sub(last, g.StridedSlice(g.Shape(dy), *_tail(1), end_mask=1))
        rank = g.Rank(dy)
        paddings = g.Pad(
            g.Reshape(
                g.ConcatV2([np.array([0], np.int32), missing], np.array(0, np.int32)),
                np.array([1, 2], np.int32),
            ),
            g.Pack(
                [
                    g.Pack([g.Sub(rank, np.array(1, np.int32)), np.array(0, np.int32)]),
                    np.array([0, 0], np.int32),
                ]
            ),
        )
        whole = g.Pad(dy, paddings)
        count = g.Cast(g.Prod(lengths, np.array(0, np.int32)), DstT=kind)
        inverse = g.Mul(getattr(g, f"I{name}")(whole), count)
        # The gradient of fft is the transform itself with the sign of its exponent changed.
        real = g.Real(inverse, Tout=x.dtype.base)
        return [_fitted(g, real, g.Shape(x), self.rank), None]


def _fitted(g: Any, tensor: Tensor, shape: Tensor, rank: int) -> Tensor:
    """The tensor cropped or padded with zeros at the end of its last axes."""
    sizes = g.Minimum(g.Shape(tensor), shape)
    cropped = g.Slice(tensor, g.ZerosLike(sizes), sizes)
    return g.Pad(cropped, g.Pack([g.ZerosLike(sizes), g.Sub(shape, sizes)], axis=1))


class _FromSpectrum(_RealTransform):
    """Complex to real."""

    inputs = "input: Tcomplex, fft_length: int32"
    outputs = "output: Treal"
    attrs = {"Treal": _REAL, "Tcomplex": _COMPLEX}

    def infer(self, node: Inference) -> Sequence[Shape]:
        """The lengths in place of the last sizes."""
        lengths = self._lengths(node)
        shape = node.shapes[0]
        return [None if shape is None else (*shape[: len(shape) - self.rank], *lengths)]

    def transform(self, xp: Any, value: Array, lengths: tuple[int, ...]) -> Array:
        """Real numbers."""
        if not value.size or not all(lengths):
            return xp.zeros((*value.shape[: value.ndim - self.rank], *lengths), np.float32)
        module = fourier_transforms(xp)
        return module.irfftn(value, s=lengths, axes=_last(self.rank))

    def gradient(self, g: Any, op: OperationView, dy: Tensor) -> Sequence[Tensor | None]:
        """The transform of the gradient; an element that represents two counts twice."""
        x, lengths = op.inputs
        kind = x.dtype.base
        name = "RFFT" + ("" if self.rank == 1 else f"{self.rank}D")
        spectrum = getattr(g, name)(dy, lengths, Tcomplex=kind)
        one = np.array(1, np.int32)
        last = g.StridedSlice(lengths, *_tail(1), end_mask=1, shrink_axis_mask=1)
        half = g.StridedSlice(g.Shape(spectrum), *_tail(1), end_mask=1, shrink_axis_mask=1)
        place = g.Range(np.array(0, np.int32), half, one)
        # The first element and, for even lengths, the middle one represent only themselves.
        single = g.LogicalOr(
            g.Equal(place, np.array(0, np.int32)),
            g.Equal(g.Mul(place, np.array(2, np.int32)), last),
        )
        weights = g.Cast(g.SelectV2(single, one, np.array(2, np.int32)), DstT=kind)
        count = g.Cast(g.Prod(lengths, np.array(0, np.int32)), DstT=kind)
        scaled = g.RealDiv(g.Mul(spectrum, weights), count)
        return [_fitted(g, scaled, g.Shape(x), self.rank), None]


for _rank in (1, 2, 3):
    _suffix = "" if _rank == 1 else f"{_rank}D"
    for _name, _base, _own in (
        (f"FFT{_suffix}", _ComplexTransform, {"inverse": False}),
        (f"IFFT{_suffix}", _ComplexTransform, {"inverse": True}),
        (f"RFFT{_suffix}", _ToSpectrum, {}),
        (f"IRFFT{_suffix}", _FromSpectrum, {}),
    ):
        _doc = f"See `{_base.__name__}`; over the last {_rank} axes."
        register(type(_name, (_base,), {"rank": _rank, "__doc__": _doc, **_own}))

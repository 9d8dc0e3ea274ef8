"""Elementwise arithmetic: importing this module registers the tables `unary` and `binary` too.

Here are the ops that fit no table row: sums of many tensors and conversion between dtypes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from sparkflow_runtime import dtypes, shapes
from sparkflow_runtime.codegen.ir.kernel import DTYPES
from sparkflow_runtime.errors import InvalidArgumentError
from sparkflow_runtime.ops.builder import GraphBuilder, OperationView, Tensor
from sparkflow_runtime.ops.elementwise import binary, unary
from sparkflow_runtime.ops.fusion import Fused, Fusion
from sparkflow_runtime.ops.inference import same_as
from sparkflow_runtime.ops.kernel import KernelContext
from sparkflow_runtime.ops.kernels import narrow_kernels
from sparkflow_runtime.ops.op import Array, Inference, NodeView, Op
from sparkflow_runtime.ops.registry import register
from sparkflow_runtime.ops.signature import bool_attr, int_attr, shape_attr, type_attr
from sparkflow_runtime.ops.value import ELEMENTWISE
from sparkflow_runtime.shapes import Shape

__all__ = ["AddN", "Cast", "binary", "unary"]


@register
class AddN(Op):
    """The sum of tensors of one shape; no broadcasting."""

    tolerates_rounding = True
    capturable = True
    elementwise = True
    inputs = "inputs: N * T"
    outputs = "sum: T"
    attrs = {"N": int_attr(minimum=1), "T": type_attr(dtypes.NUMERIC)}

    def infer(self, node: Inference) -> Sequence[Shape]:
        """The merged static shape of all inputs."""
        merged = node.shapes[0]
        for shape in node.shapes[1:]:
            merged = shapes.merge(merged, shape)
        return [merged]

    def float_operations(self, node: Inference, outputs: Sequence[Shape]) -> int:
        """One addition per element of all inputs but one."""
        return (len(node.shapes) - 1) * shapes.size(outputs[0])

    def compute(self, xp: Any, *inputs: Array) -> Any:
        """The sum, in a new array.

        Raises:
            InvalidArgumentError: The shapes are not all the same.
        """
        first = inputs[0]
        if len(inputs) == 1:
            return xp.positive(first)
        _check_same_shape(inputs)
        total = first + inputs[1]
        for each in inputs[2:]:
            total += each  # in place for an array, a new one for a scalar
        return total

    def bind_out(self, node: NodeView, context: KernelContext) -> Callable[..., Any]:
        """The same, into a given array."""
        xp = context.xp
        if node.attrs["N"] == 1:
            return xp.positive  # type: ignore[no-any-return]  # an array module's function

        def run(*arrays: Array) -> None:
            *inputs, out = arrays
            _check_same_shape(inputs)
            xp.add(inputs[0], inputs[1], out)
            for each in inputs[2:]:
                xp.add(out, each, out)

        return run

    def gradient(self, g: GraphBuilder, op: OperationView, dy: Tensor) -> Sequence[Tensor]:
        """The same for every input."""
        return [dy] * len(op.inputs)

    def fuse(self, fusion: Fusion) -> Sequence[Fused]:
        """A chain of additions."""
        shape = fusion.output_shapes[0]
        count = len(fusion.shapes)
        dims = fusion.align(shape, range(count))
        total = fusion.input(0, dims)
        for number in range(1, count):
            total = fusion.builder.call("add", total, fusion.input(number, dims))
        return [Fused(total, shape, dims)]


def _check_same_shape(inputs: Sequence[Array]) -> None:
    first = inputs[0].shape
    for each in inputs[1:]:
        if each.shape != first:
            raise InvalidArgumentError(
                message=f"AddN takes tensors of one shape, got {shapes.text(first)} "
                f"and {shapes.text(each.shape)}"
            )


@register
class AccumulateNV2(AddN):
    """As `AddN`; `shape` is the caller's partial shape of the result."""

    inputs = "inputs: N * T"
    attrs = {**AddN.attrs, "shape": shape_attr()}

    def infer(self, node: Inference) -> Sequence[Shape]:
        """The merged static shape of all inputs and the attribute."""
        return [shapes.merge(super().infer(node)[0], node.attrs["shape"])]


@register
class Cast(Op):
    """Converts to another dtype: truncates to integers, non-zero is true, keeps the real part."""

    elementwise = True
    capturable = True
    inputs = "x: SrcT"
    outputs = "y: DstT"
    attrs = {
        "SrcT": type_attr(dtypes.PLAIN),
        "DstT": type_attr(dtypes.PLAIN),
        "Truncate": bool_attr(False),
    }
    widens = ()
    value_rule = ELEMENTWISE
    infer = same_as(0)

    def bind(self, node: NodeView, context: KernelContext) -> Callable[..., Any]:
        """`astype` to a type fixed here."""
        source, target = node.attrs["SrcT"], node.attrs["DstT"]
        kind = target.as_numpy_dtype
        if source.is_complex and not target.is_complex:
            return lambda x: x.real.astype(kind)
        convert = narrow_kernels.kernel(source, target) if context.xp is np else None
        if convert is None:
            return lambda x: x.astype(kind)

        def run(x: Array) -> Array:
            out = np.empty(x.shape, kind)
            return out if convert(x, out) else x.astype(kind)

        return run

    def bind_out(self, node: NodeView, context: KernelContext) -> Callable[..., Any]:
        """A copy that converts."""
        source, target = node.attrs["SrcT"], node.attrs["DstT"]
        if source.is_complex and not target.is_complex:
            return lambda x, out: np.copyto(out, x.real, casting="unsafe")
        convert = narrow_kernels.kernel(source, target) if context.xp is np else None

        def fill(x: Array, out: Array) -> None:
            if convert is None or not convert(x, out):
                np.copyto(out, x, casting="unsafe")

        return fill

    def is_fusable(self, node: NodeView) -> bool:
        """Whether kernels support both dtypes."""
        return node.attrs["SrcT"] in DTYPES and node.attrs["DstT"] in DTYPES

    def fuse(self, fusion: Fusion) -> Sequence[Fused]:
        """One instruction."""
        x = fusion.whole(0)
        return [fusion.like(x, fusion.builder.cast(x.value, fusion.attrs["DstT"]))]

    def gradient(self, g: GraphBuilder, op: OperationView, dy: Tensor) -> Sequence[Tensor | None]:
        """Cast back; none through integers."""
        fields = dtypes.FLOATING | dtypes.COMPLEX
        source = op.attr("SrcT")
        if source not in fields or op.attr("DstT") not in fields:
            return [None]
        return [g.Cast(dy, DstT=source)]

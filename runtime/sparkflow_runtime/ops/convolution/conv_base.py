"""The base of convolution ops and their gradients: geometry from attributes, float16 in float32.

The arithmetic is in `convolution`, the ops are in `conv` and `depthwise`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import ClassVar

import numpy as np

from sparkflow_runtime.codegen.ir.kernel import NARROW
from sparkflow_runtime.codegen.machine import native
from sparkflow_runtime.dtypes import float32, float64
from sparkflow_runtime.ops.builder import GraphBuilder, OperationView, Tensor
from sparkflow_runtime.ops.convolution import conv_gpu
from sparkflow_runtime.ops.convolution.conv_native import (
    BY_FILTER,
    BY_IMAGE,
    FORWARD,
    Chooser,
    Geometry,
)
from sparkflow_runtime.ops.kernel import KernelContext
from sparkflow_runtime.ops.kernels.by_shape import ByShape
from sparkflow_runtime.ops.op import Array, NodeView, Op
from sparkflow_runtime.ops.static import shape_tensor
from sparkflow_runtime.ops.windows import Layout, from_channels_last


class ConvolutionOp(Op):
    """A convolution, its input gradient or its filter gradient.

    Attributes:
        family: The types of the convolution, its input gradient and its filter gradient.
        run: The kernel: a function of xp, the layout and the inputs, with channels last.
        geometry: Returns what the layout and the inputs describe, after checking them.
        of_filter: Whether it returns filters, which have no data format.
        depthwise: Whether every channel has its own filters.
    """

    widens = NARROW
    outputs = "output: T"
    family: ClassVar[tuple[str, str, str]]
    run: ClassVar[Callable[..., Array]]
    geometry: ClassVar[Callable[..., Geometry]]
    of_filter = False
    depthwise = False

    def bind(self, node: NodeView, context: KernelContext) -> Callable[..., Array]:
        """The kernel with its geometry read from the attributes once."""
        plain = self._bind_plain(node, context)
        if context.gpu is not None and len(node.attrs["data_format"]) == 4 and not self.depthwise:
            layout, member = Layout.of(node.attrs), self.family.index(self.op_type)
            geometry = partial(self.geometry, layout)
            return conv_gpu.bind(context.gpu, member, layout.data_format, geometry, plain)
        native_kernels = self._native(node, context)
        return native_kernels.kernel(plain) if native_kernels else plain

    def bind_out(self, node: NodeView, context: KernelContext) -> Callable[..., None] | None:
        """The kernel in machine code; None if there is none."""
        native_kernels = self._native(node, context)
        if native_kernels is None:
            return None
        return native_kernels.kernel_out(self._bind_plain(node, context))

    def _native(self, node: NodeView, context: KernelContext) -> ByShape | None:
        dtype = node.attrs["T"]
        if context.xp is not np or dtype not in (float32, float64) or not native.available():
            return None
        layout = Layout.of(node.attrs)
        member = self.family.index(self.op_type)
        choose = Chooser(
            member,
            np.dtype(dtype.as_numpy_dtype),
            layout.data_format,
            self.depthwise,
            partial(self.geometry, layout),
        )
        return ByShape(choose, {FORWARD: None, BY_IMAGE: 0, BY_FILTER: 1}[member])

    def _bind_plain(self, node: NodeView, context: KernelContext) -> Callable[..., Array]:
        xp, layout, run = context.xp, Layout.of(node.attrs), self.run
        of_filter = self.of_filter

        def kernel(*inputs: Array) -> Array:
            half = inputs[-1].dtype == xp.float16
            if half:
                inputs = tuple(x.astype(xp.float32) if x.dtype.kind == "f" else x for x in inputs)
            result = run(xp, layout, *inputs)
            if half:
                result = result.astype(xp.float16)
            return result if of_filter else from_channels_last(xp, result, layout.data_format)

        return kernel

    def add(self, g: GraphBuilder, op: OperationView, index: int, *inputs: Tensor) -> Tensor:
        """A node of this family with the geometry of `op`."""
        attrs = {name: op.attr(name) for name in self.attrs if name not in ("T", "Tshape")}
        return getattr(g, self.family[index])(*inputs, **attrs)


class Forward(ConvolutionOp):
    """The convolution of a family."""

    inputs = "input: T, filter: T"

    def gradient(self, g: GraphBuilder, op: OperationView, dy: Tensor) -> tuple[Tensor, ...]:
        """The two other ops of the family."""
        images, filters = op.inputs
        return (
            self.add(g, op, 1, shape_tensor(g, images), filters, dy),
            self.add(g, op, 2, images, shape_tensor(g, filters), dy),
        )


class BackpropInput(ConvolutionOp):
    """Its gradient with respect to its input, whose shape is an input."""

    inputs = "input_sizes: int32, filter: T, out_backprop: T"

    def gradient(self, g: GraphBuilder, op: OperationView, dy: Tensor) -> tuple[Tensor | None, ...]:
        """Linear in the filter and in out_backprop."""
        _, filters, out_backprop = op.inputs
        return (
            None,
            self.add(g, op, 2, dy, shape_tensor(g, filters), out_backprop),
            self.add(g, op, 0, dy, filters),
        )


class BackpropFilter(ConvolutionOp):
    """Its gradient with respect to its filters, whose shape is an input."""

    inputs = "input: T, filter_sizes: int32, out_backprop: T"
    of_filter = True

    def gradient(self, g: GraphBuilder, op: OperationView, dy: Tensor) -> tuple[Tensor | None, ...]:
        """Linear in the input and in out_backprop."""
        images, _, out_backprop = op.inputs
        return (
            self.add(g, op, 1, shape_tensor(g, images), dy, out_backprop),
            None,
            self.add(g, op, 0, images, dy),
        )

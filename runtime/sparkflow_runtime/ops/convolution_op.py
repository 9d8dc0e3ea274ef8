"""What convolutions and their gradients share as ops: geometry from attributes, float16 in float32.

The arithmetic is in `convolution`, the ops are in `conv` and `depthwise`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from sparkflow_runtime.ops.builder import GraphBuilder, OperationView, Tensor
from sparkflow_runtime.ops.kernel import KernelContext
from sparkflow_runtime.ops.op import Array, NodeView, Op
from sparkflow_runtime.ops.windows import Layout, from_channels_last


class ConvolutionOp(Op):
    """A convolution, its gradient by images or that by filters.

    Attributes:
        family: The types of the convolution, of its gradient by images, of that by filters.
        run: The kernel: from xp, the layout and the inputs, with channels last.
        of_filter: Whether it gives filters, which have no data format.
    """

    outputs = "output: T"
    family: ClassVar[tuple[str, str, str]]
    run: ClassVar[Callable[..., Array]]
    of_filter = False

    def bind(self, node: NodeView, context: KernelContext) -> Callable[..., Array]:
        """The kernel with its geometry read from the attributes once."""
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
        attrs = {name: op.get_attr(name) for name in self.attrs if name not in ("T", "Tshape")}
        result: Tensor = getattr(g, self.family[index])(*inputs, **attrs)
        return result

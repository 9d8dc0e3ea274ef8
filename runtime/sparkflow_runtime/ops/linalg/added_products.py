"""Matrix products with a fused epilogue, into which plans merge two or more nodes.

A gradient that is only added to another one, or applied to its variable, need not be stored and
loaded again: the product's kernel adds each tile to its target while it is in registers. Graphs do
not contain these ops; `compiler.products` inserts them into plans.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import numpy as np

from sparkflow_runtime.dtypes import float32, float64
from sparkflow_runtime.ops.kernel import KernelContext
from sparkflow_runtime.ops.native.matrix_products import bind_product_into
from sparkflow_runtime.ops.op import Array, Inference, NodeView, Op, not_differentiable
from sparkflow_runtime.ops.registry import lookup, register
from sparkflow_runtime.ops.signature import bool_attr, type_attr
from sparkflow_runtime.resources.variable import Variable
from sparkflow_runtime.shapes import Shape

DTYPES = frozenset({float32, float64})
_ATTRS = {
    "T": type_attr(DTYPES),
    "transpose_a": bool_attr(False),
    "transpose_b": bool_attr(False),
}


def _product(node: NodeView, adds: bool) -> Callable[..., None]:
    return bind_product_into(
        node.attrs["T"], node.attrs["transpose_a"], node.attrs["transpose_b"], adds
    )


class _Product(Op):
    """A product of two matrices, optionally scaled and added to a sum."""

    outputs = "product: T"
    attrs = _ATTRS
    kernels: ClassVar[Any] = {"CPU": DTYPES}
    gradient = not_differentiable
    has_total: ClassVar[bool] = False

    def infer(self, node: Inference) -> Sequence[Shape]:
        """[rows of a, columns of b]."""
        a, b = node.shapes[self.has_total : self.has_total + 2]
        rows = None if a is None else a[node.attrs["transpose_a"]]
        columns = None if b is None else b[not node.attrs["transpose_b"]]
        return [(rows, columns)]

    def bind(self, node: NodeView, context: KernelContext) -> Callable[..., Any]:
        """The same into a new array."""
        fill = self.bind_out(node, context)
        a_at, b_at = self.has_total, self.has_total + 1
        of_a, of_b = node.attrs["transpose_a"], node.attrs["transpose_b"]

        def multiply(*inputs: Array) -> Array:
            a, b = inputs[a_at], inputs[b_at]
            out = np.empty((a.shape[of_a], b.shape[not of_b]), a.dtype)
            fill(*inputs, out)
            return out

        return multiply

    def bind_out(self, node: NodeView, context: KernelContext) -> Callable[..., Any]:
        """The product into a given array, which may be the sum's."""
        product = _product(node, self.has_total)
        if not self.has_total:
            return product

        def add(total: Array, *rest: Array) -> None:
            out = rest[-1]
            if not np.may_share_memory(total, out):
                np.copyto(out, total)
            product(*rest)

        return add


@register
class ScaledProduct(_Product):
    """The product of two matrices times a number."""

    type = "_ScaledProduct"
    inputs = "a: T, b: T, scale: T"


@register
class AddedProduct(_Product):
    """The sum of a matrix and the product of two."""

    type = "_AddedProduct"
    inputs = "total: T, a: T, b: T"
    has_total = True
    overwrites = 0


@register
class AddedScaledProduct(_Product):
    """The sum of a matrix and the product of two, times a number."""

    type = "_AddedScaledProduct"
    inputs = "total: T, a: T, b: T, scale: T"
    has_total = True
    overwrites = 0


@register
class AppliedProduct(Op):
    """`ApplyGradientDescent` of a gradient that is the product of two matrices."""

    type = "_AppliedProduct"
    applies_gradients = True
    inputs = "var: Ref(T), alpha: T, a: T, b: T"
    outputs = "out: Ref(T)"
    attrs = _ATTRS
    kernels: ClassVar[Any] = {"CPU": DTYPES}
    stateful = True
    keeps_inputs = False
    gradient = not_differentiable

    def infer(self, node: Inference) -> Sequence[Shape]:
        """The shape of the variable."""
        return [node.shapes[0]]

    def bind(self, node: NodeView, context: KernelContext) -> Callable[..., Any]:
        """The kernel: a function of the variable and arrays that returns the variable.

        It raises the same errors as `ApplyGradientDescent`.
        """
        dtype = node.attrs["T"].as_numpy_dtype
        subtract, multiply = _product(node, adds=True), _product(node, adds=False)
        of_a, of_b = node.attrs["transpose_a"], node.attrs["transpose_b"]
        apply = lookup("ApplyGradientDescent").bind(node, context)

        def run(variable: Variable, alpha: Array, a: Array, b: Array) -> Variable:
            shape = a.shape[of_a], b.shape[not of_b]
            step = np.asarray(-alpha, dtype)
            with variable.lock:
                array = variable.read()
                if array.shape == shape and step.ndim == 0:
                    subtract(a, b, step, array)
                    return variable
            gradient = np.empty(shape, dtype)
            multiply(a, b, gradient)
            applied: Variable = apply(variable, alpha, gradient)
            return applied

        return run

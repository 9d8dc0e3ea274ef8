"""Matrix products, diagonals and inverses."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from sparkflow_runtime import shapes
from sparkflow_runtime.codegen.ir.kernel import NARROW
from sparkflow_runtime.dtypes import (
    COMPLEX,
    FLOATING,
    UNSIGNED,
    float32,
    float64,
    int16,
    int32,
    int64,
)
from sparkflow_runtime.errors import InvalidArgumentError
from sparkflow_runtime.ops.builder import GraphBuilder, OperationView, Tensor
from sparkflow_runtime.ops.elementwise.broadcast_gradient import sum_to_operands
from sparkflow_runtime.ops.elementwise.elementwise_table import conjugated
from sparkflow_runtime.ops.kernel import KernelContext
from sparkflow_runtime.ops.machine_call import CallSite, MachineCall
from sparkflow_runtime.ops.native.matrix_products import (
    Turn,
    bind_product,
    bind_product_out,
    multiply_into,
)
from sparkflow_runtime.ops.op import Array, Inference, NodeView, Op
from sparkflow_runtime.ops.registry import register
from sparkflow_runtime.ops.signature import bool_attr, type_attr
from sparkflow_runtime.ops.static import bracketed
from sparkflow_runtime.shapes import Dim, Shape

if TYPE_CHECKING:
    from sparkflow_runtime.device.gpu import Gpu

_MATRIX = FLOATING | COMPLEX | {int32, int64}
_GRAPHS_OF_TF2 = bool_attr(False)
"""`grad_a` and so on: newer TensorFlow graphs contain them; they have no effect."""


def _inner(op_type: str, node: Inference, x: Dim, y: Dim) -> None:
    """Checks the dimension that is summed over."""
    if x is not None and y is not None and x != y:
        given = ", ".join(bracketed(shape) for shape in node.shapes)
        raise InvalidArgumentError(
            message=f"Dimensions must be equal, but are {x} and {y} for {op_type} "
            f"with input shapes {given}"
        )


def _require_two_matrices(a: Array, b: Array) -> None:
    if a.ndim != 2 or b.ndim != 2:
        raise InvalidArgumentError(
            message=f"MatMul takes two matrices, got shapes {bracketed(a.shape)} "
            f"and {bracketed(b.shape)}"
        )


@register
class MatMul(Op):
    """The product of two matrices, either of them transposed first."""

    widens = NARROW
    capturable = True
    inputs = "a: T, b: T"
    outputs = "product: T"
    attrs = {
        "transpose_a": bool_attr(False),
        "transpose_b": bool_attr(False),
        "T": type_attr(_MATRIX | UNSIGNED),
        "grad_a": _GRAPHS_OF_TF2,
        "grad_b": _GRAPHS_OF_TF2,
    }

    def infer(self, node: Inference) -> Sequence[Shape]:
        """[rows of a, columns of b]."""
        a = node.with_rank(0, 2, "Input 'a' of MatMul")
        b = node.with_rank(1, 2, "Input 'b' of MatMul")
        rows, inner = reversed(a) if node.attrs["transpose_a"] else a
        inner_b, columns = reversed(b) if node.attrs["transpose_b"] else b
        _inner(self.op_type, node, inner, inner_b)
        return [(rows, columns)]

    def float_operations(self, node: Inference, outputs: Sequence[Shape]) -> int:
        """A multiplication and an addition per pair of elements."""
        inner = shapes.sizes(node.shapes[0])[-2 if node.attrs["transpose_a"] else -1]
        return 2 * inner * shapes.size(outputs[0])

    def bind(self, node: NodeView, context: KernelContext) -> Callable[..., Any]:
        """The product with transposes as flags."""
        product = bind_product(context.xp, node.attrs["T"], *self._turns(node))

        def multiply(a: Array, b: Array) -> Array:
            _require_two_matrices(a, b)
            return product(a, b)

        return multiply

    def bind_out(self, node: NodeView, context: KernelContext) -> Callable[..., Any]:
        """The same into a given array."""
        product = bind_product_out(node.attrs["T"], *self._turns(node))

        def multiply(a: Array, b: Array, out: Array) -> None:
            _require_two_matrices(a, b)
            product(a, b, out)

        return multiply

    def bind_out_gpu(self, node: NodeView, gpu: Gpu) -> Callable[..., Any] | None:
        """The same into a given array, if the GPU's library supports it."""
        return _bind_out_gpu(node, gpu, node.attrs["transpose_a"], node.attrs["transpose_b"])

    def matrix_product(self, node: NodeView) -> tuple[bool, bool]:
        """The transposes from the attributes."""
        return node.attrs["transpose_a"], node.attrs["transpose_b"]

    @staticmethod
    def _turns(node: NodeView) -> tuple[Turn | None, Turn | None]:
        return (
            _transposed if node.attrs["transpose_a"] else None,
            _transposed if node.attrs["transpose_b"] else None,
        )

    def gradient(self, g: GraphBuilder, op: OperationView, dy: Tensor) -> tuple[Tensor, Tensor]:
        """For y = a b: da = dy b', db = a' dy; transposed where the input was."""
        a, b = (conjugated(g, each) for each in op.inputs)
        transpose_a, transpose_b = op.attr("transpose_a"), op.attr("transpose_b")
        if transpose_a:
            da = g.MatMul(b, dy, transpose_a=transpose_b, transpose_b=True)
        else:
            da = g.MatMul(dy, b, transpose_b=not transpose_b)
        if transpose_b:
            db = g.MatMul(dy, a, transpose_a=True, transpose_b=transpose_a)
        else:
            db = g.MatMul(a, dy, transpose_a=not transpose_a)
        return da, db


class _BatchMatMulOp(Op):
    """Products of matrices in the last two dimensions, either adjoint first."""

    widens = NARROW
    inputs = "x: T, y: T"
    outputs = "output: T"
    attrs = {
        "adj_x": bool_attr(False),
        "adj_y": bool_attr(False),
        "T": type_attr(_MATRIX),
        "grad_x": _GRAPHS_OF_TF2,
        "grad_y": _GRAPHS_OF_TF2,
    }

    def _batch(self, node: Inference, x: Shape, y: Shape) -> Shape:
        """The leading dimensions of the result from those of the inputs."""
        raise NotImplementedError

    def infer(self, node: Inference) -> Sequence[Shape]:
        """[..., rows of x, columns of y]."""
        x, y = node.shapes
        for shape in (x, y):
            if shape is not None and len(shape) < 2:
                raise InvalidArgumentError(
                    message=f"{self.op_type} takes tensors of rank 2 or more, got shapes "
                    f"{bracketed(x)} and {bracketed(y)}"
                )
        if x is None or y is None:
            return [None]
        rows, inner = reversed(x[-2:]) if node.attrs["adj_x"] else x[-2:]
        inner_y, columns = reversed(y[-2:]) if node.attrs["adj_y"] else y[-2:]
        _inner(self.op_type, node, inner, inner_y)
        return [shapes.concatenate(self._batch(node, x[:-2], y[:-2]), (rows, columns))]

    def float_operations(self, node: Inference, outputs: Sequence[Shape]) -> int:
        """As for `MatMul`."""
        inner = shapes.sizes(node.shapes[0])[-2 if node.attrs["adj_x"] else -1]
        return 2 * inner * shapes.size(outputs[0])

    def bind(self, node: NodeView, context: KernelContext) -> Callable[..., Any]:
        """The products, with transposes as flags."""
        product = bind_product(context.xp, node.attrs["T"], *self._turns(node, context))

        def multiply(x: Array, y: Array) -> Array:
            self._require_stacks(x, y)
            return product(x, y)

        return multiply

    def bind_out(self, node: NodeView, context: KernelContext) -> Callable[..., Any]:
        """The same into a given array."""
        product = bind_product_out(node.attrs["T"], *self._turns(node, context))

        def multiply(x: Array, y: Array, out: Array) -> None:
            self._require_stacks(x, y)
            product(x, y, out)

        return multiply

    def bind_out_gpu(self, node: NodeView, gpu: Gpu) -> Callable[..., Any] | None:
        """The same into a given array, if the GPU's library supports it."""
        product = _bind_out_gpu(node, gpu, node.attrs["adj_x"], node.attrs["adj_y"])
        if product is None:
            return None
        spread = gpu.cupy.broadcast_to

        def multiply(x: Array, y: Array, out: Array) -> None:
            self._require_stacks(x, y)
            product(*(_as_stack(each, out, spread) for each in (x, y)), _as_stack(out, out, spread))

        return multiply

    def matrix_product(self, node: NodeView) -> tuple[bool, bool]:
        """The transposes from the attributes: the adjoint of a real matrix is its transpose."""
        return node.attrs["adj_x"], node.attrs["adj_y"]

    @staticmethod
    def _turns(node: NodeView, context: KernelContext) -> tuple[Turn | None, Turn | None]:
        def turn(x: Array) -> Array:
            return _adjoint(context.xp, x)

        return turn if node.attrs["adj_x"] else None, turn if node.attrs["adj_y"] else None

    def _require_stacks(self, x: Array, y: Array) -> None:
        """Checks that the arrays are stacks of compatible matrices."""
        if x.ndim < 2 or y.ndim < 2:
            raise InvalidArgumentError(
                message=f"{self.op_type} takes tensors of rank 2 or more, got shapes "
                f"{bracketed(x.shape)} and {bracketed(y.shape)}"
            )

    def gradient(
        self, g: GraphBuilder, op: OperationView, dz: Tensor
    ) -> tuple[Tensor | None, Tensor | None]:
        """As for `MatMul`, summed over broadcast batch dimensions."""
        x, y = op.inputs
        adj_x, adj_y = op.attr("adj_x"), op.attr("adj_y")
        multiply = getattr(g, self.op_type)
        of_x = (y, dz, adj_y, True) if adj_x else (dz, y, False, not adj_y)
        of_y = (dz, x, True, adj_x) if adj_y else (x, dz, not adj_x, False)
        dx, dy = (multiply(p, q, adj_x=first, adj_y=second) for p, q, first, second in (of_x, of_y))
        return self._to_operands(g, x, y, dx, dy)

    def _to_operands(
        self, g: GraphBuilder, x: Tensor, y: Tensor, dx: Tensor, dy: Tensor
    ) -> tuple[Tensor | None, Tensor | None]:
        return dx, dy


def _bind_out_gpu(
    node: NodeView, gpu: Gpu, transpose_a: bool, transpose_b: bool
) -> Callable[..., Any] | None:
    """Products of matrices or stacks, see `GpuProducts.multiply`; None for other dtypes."""
    from sparkflow_runtime.device.gpu_products import DTYPES

    if np.dtype(node.attrs["T"].numpy) not in DTYPES:
        return None
    turned = {"transpose_a": transpose_a, "transpose_b": transpose_b}
    return partial(multiply_into, gpu.cupy, **turned)


def _as_stack(x: Array, like: Array, spread: Callable[..., Array]) -> Array:
    """[count, rows, columns]; a count of 1 for one matrix that is broadcast."""
    matrix = x.shape[-2:]
    if x.shape[:-2] != like.shape[:-2]:
        if x.size == matrix[0] * matrix[1]:
            return x.reshape(1, *matrix)
        x = spread(x, (*like.shape[:-2], *matrix))
    return x.reshape(math.prod(x.shape[:-2]), *matrix)


def _transposed(x: Array) -> Array:
    return x.T


def _adjoint(xp: Any, x: Array) -> Array:
    x = xp.swapaxes(x, -1, -2)
    return xp.conj(x) if x.dtype.kind == "c" else x


@register
class BatchMatMul(_BatchMatMulOp):
    """Products of matrices in the last two dimensions; the others must be equal."""

    capturable = True

    def _batch(self, node: Inference, x: Shape, y: Shape) -> Shape:
        """The common dimensions."""
        return shapes.merge(x, y)

    def _require_stacks(self, x: Array, y: Array) -> None:
        """Checks that the stacks have the same shape."""
        if x.shape[:-2] != y.shape[:-2]:
            raise InvalidArgumentError(
                message=f"BatchMatMul needs equal batch dimensions, got shapes "
                f"{bracketed(x.shape)} and {bracketed(y.shape)}"
            )
        super()._require_stacks(x, y)


@register
class BatchMatMulV2(_BatchMatMulOp):
    """Products of matrices in the last two dimensions; the others are broadcast."""

    capturable = True
    attrs = {**_BatchMatMulOp.attrs, "T": type_attr(_MATRIX | UNSIGNED | {int16})}

    def _batch(self, node: Inference, x: Shape, y: Shape) -> Shape:
        """The broadcast dimensions."""
        return shapes.broadcast(x, y)

    def _to_operands(
        self, g: GraphBuilder, x: Tensor, y: Tensor, dx: Tensor, dy: Tensor
    ) -> tuple[Tensor | None, Tensor | None]:
        return sum_to_operands(g, x, y, dx, dy, trailing_axes=2)


@register
class Diag(Op):
    """A tensor of twice the rank with the input on its diagonal and 0 elsewhere."""

    inputs = "diagonal: T"
    outputs = "output: T"
    attrs = {"T": type_attr(_MATRIX)}

    def infer(self, node: Inference) -> Sequence[Shape]:
        """The shape, twice."""
        shape = node.shapes[0]
        if shape == ():
            raise InvalidArgumentError(
                message="The diagonal of Diag must have at least one dimension, got a scalar"
            )
        return [shapes.concatenate(shape, shape)]

    def compute(self, xp: Any, diagonal: Array) -> Array:
        """A new array."""
        return xp.diag(diagonal.ravel()).reshape(diagonal.shape * 2)

    def gradient(self, g: GraphBuilder, op: OperationView, dy: Tensor) -> Sequence[Tensor]:
        """The diagonal of the gradient."""
        return [g.DiagPart(dy)]


@register
class DiagPart(Op):
    """The diagonal of a tensor whose shape is some shape twice."""

    inputs = "input: T"
    outputs = "diagonal: T"
    attrs = {"T": type_attr(_MATRIX)}

    def infer(self, node: Inference) -> Sequence[Shape]:
        """The first half of the shape."""
        shape = node.shapes[0]
        return [None if shape is None else _half(shape)]

    def compute(self, xp: Any, value: Array) -> Array:
        """A new array."""
        half = _half(value.shape)
        size = shapes.num_elements(half)
        return xp.diagonal(value.reshape(size, size)).reshape(half).copy()

    def gradient(self, g: GraphBuilder, op: OperationView, dy: Tensor) -> Sequence[Tensor]:
        """The gradient on a diagonal."""
        return [g.Diag(dy)]


def _half(shape: Sequence[Dim]) -> Shape:
    half = len(shape) // 2
    first, second = tuple(shape[:half]), tuple(shape[half:])
    if not shape or len(shape) % 2 or not shapes.is_compatible(first, second):
        raise InvalidArgumentError(
            message=f"DiagPart takes a tensor whose shape is some shape twice, "
            f"got {bracketed(shape)}"
        )
    return shapes.merge(first, second)


@register
class MatrixInverse(Op):
    """The inverse (or the inverse of the adjoint) of the matrices in the last two dimensions."""

    inputs = "input: T"
    outputs = "output: T"
    attrs = {"adjoint": bool_attr(False), "T": type_attr(frozenset({float32, float64}) | COMPLEX)}

    def infer(self, node: Inference) -> Sequence[Shape]:
        """The input's shape."""
        shape = node.shapes[0]
        if shape is None:
            return [None]
        square = len(shape) >= 2 and shapes.is_compatible(shape[-2:-1], shape[-1:])
        if not square:
            raise InvalidArgumentError(
                message=f"MatrixInverse takes square matrices, got shape {bracketed(shape)}"
            )
        return [shape]

    def compute(self, xp: Any, value: Array, *, adjoint: bool) -> Array:
        """The inverses.

        Raises:
            InvalidArgumentError: A matrix is not square or has no inverse.
        """
        if value.ndim < 2 or value.shape[-1] != value.shape[-2]:
            raise InvalidArgumentError(
                message=f"MatrixInverse takes square matrices, got shape {bracketed(value.shape)}"
            )
        try:
            return xp.linalg.inv(_adjoint(xp, value) if adjoint else value)
        except np.linalg.LinAlgError as error:
            raise InvalidArgumentError(message="Input is not invertible") from error

    def machine_call(self, node: NodeView, site: CallSite) -> MachineCall | None:
        """The inverses of small matrices."""
        from sparkflow_runtime.codegen.systems import small_systems

        *stack, rows, _ = site.shapes[0]
        number = site.dtypes[0]
        if number not in small_systems.NUMBERS or rows > small_systems.MOST:
            return None
        turned = node.attrs["adjoint"]
        kernel = small_systems.bind_inverse(number, math.prod(stack), rows, turned)
        return MachineCall(kernel, (0,), can_fail=True)

    def gradient(self, g: GraphBuilder, op: OperationView, dy: Tensor) -> Sequence[Tensor]:
        """-y* dy y*, adjoint where the input was."""
        y = op.outputs[0]
        if op.attr("adjoint"):
            product = g.BatchMatMulV2(y, g.BatchMatMulV2(dy, y, adj_x=True))
        else:
            product = g.BatchMatMulV2(y, g.BatchMatMulV2(dy, y, adj_y=True), adj_x=True)
        return [g.Neg(product)]

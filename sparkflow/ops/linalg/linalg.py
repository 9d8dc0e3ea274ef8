"""Products of matrices, norms, special matrices."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, cast

import numpy as np

from sparkflow._api import export
from sparkflow.graph.constant_value import constant_value
from sparkflow.graph.conversion import first_symbolic
from sparkflow.graph.operators import Symbolic
from sparkflow.graph.scopes import apply_op, convert_to_tensor, graph_of, output_of
from sparkflow.graph.tensor import Tensor
from sparkflow.ops.elementwise import elementwise
from sparkflow.ops.reduction import reduction
from sparkflow.ops.shape import arrays
from sparkflow_runtime.dtypes import as_dtype, bfloat16, float32, int32


@export("matmul", "linalg.matmul")
def matmul(
    a: Any,
    b: Any,
    transpose_a: bool = False,
    transpose_b: bool = False,
    adjoint_a: bool = False,
    adjoint_b: bool = False,
    a_is_sparse: bool = False,
    b_is_sparse: bool = False,
    name: str | None = None,
) -> Tensor:
    """The product of two matrices, or of two stacks of matrices whose outer dimensions broadcast.

    Args:
        a: [..., n, k].
        b: [..., k, m].
        transpose_a: Exchange the last two dimensions first.
        transpose_b: Exchange the last two dimensions first.
        adjoint_a: The same, conjugated.
        adjoint_b: The same, conjugated.
        a_is_sparse: A hint: many elements of `a` are 0. Only for matrices.
        b_is_sparse: The same of `b`.
        name: Name of the node.

    Returns:
        [..., n, m].

    Raises:
        ValueError: The shapes do not fit; or both transposed and adjoint are asked for.
    """
    if transpose_a and adjoint_a:
        raise ValueError("Only one of transpose_a and adjoint_a can be True.")
    if transpose_b and adjoint_b:
        raise ValueError("Only one of transpose_b and adjoint_b can be True.")
    graph = graph_of((a, b))
    name = name or "MatMul"
    left = graph.convert(a, None, f"{name}/a")
    kind = None if isinstance(b, Symbolic) else left.dtype.base
    right = graph.convert(b, kind, f"{name}/b")
    sparse = _is_sparse_product(left, right, a_is_sparse or b_is_sparse)
    stacked = any(tensor._shape is None or len(tensor._shape) > 2 for tensor in (left, right))
    if stacked and not (a_is_sparse or b_is_sparse):
        left, right = _conjugated(left, transpose_a), _conjugated(right, transpose_b)
        adjoints = {"adj_x": transpose_a or adjoint_a, "adj_y": transpose_b or adjoint_b}
        return cast("Tensor", graph.apply("BatchMatMulV2", (left, right), adjoints, name))
    left, right = _conjugated(left, adjoint_a), _conjugated(right, adjoint_b)
    attrs = {"transpose_a": transpose_a or adjoint_a, "transpose_b": transpose_b or adjoint_b}
    if not sparse:
        return cast("Tensor", graph.apply("MatMul", (left, right), attrs, name))
    attrs |= {"a_is_sparse": a_is_sparse, "b_is_sparse": b_is_sparse}
    with graph.as_default(), graph.name_scope(name) as scope:
        product: Tensor = apply_op("SparseMatMul", left, right, **attrs, name=scope)
        both_halves = left.dtype.base is bfloat16 and right.dtype.base is bfloat16
        return elementwise.cast(product, bfloat16) if both_halves else product


def _is_sparse_product(left: Tensor, right: Tensor, is_hinted: bool) -> bool:
    """Whether TensorFlow takes the op for matrices of zeros, which also mixes two dtypes."""
    kinds = {left.dtype.base, right.dtype.base}
    if len(kinds) == 2 and bfloat16 in kinds:
        return True
    return is_hinted and kinds <= {float32, bfloat16}


def _conjugated(tensor: Tensor, wanted: bool) -> Tensor:
    return (
        cast("Tensor", apply_op("Conj", tensor)) if wanted and tensor.dtype.is_complex else tensor
    )


@export("tensordot", "linalg.tensordot")
def tensordot(a: Any, b: Any, axes: Any, name: str | None = None) -> Tensor:
    """The sum of products over some axes of two tensors.

    Args:
        a: Tensors of one dtype.
        b: Tensors of one dtype.
        axes: How many of the last axes of `a` and the first of `b` to sum over, or a pair of lists
            of axes; also as tensors.
        name: Name of the node.

    Returns:
        The free axes of `a`, then those of `b`.

    Raises:
        ValueError: `axes` does not fit.
    """
    graph = graph_of((a, b))
    with graph.as_default(), graph.name_scope(name or "Tensordot") as scope:
        left, right = convert_to_tensor(a, name="a"), convert_to_tensor(b, name="b")
        axes, told = _told_axes(axes)
        if left._shape is None or right._shape is None or not told:
            return _tensordot_of_unknown_rank(left, right, axes, scope)
        over_left, over_right = _contracted(left, right, axes)
        matrix_a, free_a = _as_matrix(left, over_left, last=True)
        matrix_b, free_b = _as_matrix(right, over_right, last=False)
        product = matmul(matrix_a, matrix_b)
        shape = arrays.concat([free_a, free_b], 0)
        return arrays.reshape(product, shape, name=scope)


def _told_axes(axes: Any) -> tuple[Any, bool]:
    """The axes as numbers where the graph tells them, and whether it does."""
    if first_symbolic(axes) is None:
        return axes, True
    if isinstance(axes, list | tuple):
        parts = [convert_to_tensor(each, int32) for each in axes]
        found = [constant_value(part) for part in parts]
    else:
        whole = convert_to_tensor(axes, name="axes")
        value = constant_value(whole)
        if value is None and whole.shape.ndims != 0:
            return (whole[0], whole[1]), False
        parts, found = [whole], [value]
    if any(value is None for value in found):
        return (parts if len(parts) > 1 else parts[0]), False
    told = [np.asarray(value).tolist() for value in found]
    return (told if len(told) > 1 else told[0]), True


def _contracted(left: Tensor, right: Tensor, axes: Any) -> tuple[list[int], list[int]]:
    assert left._shape is not None
    assert right._shape is not None
    ranks = len(left._shape), len(right._shape)
    if isinstance(axes, int | np.integer):
        if not 0 <= axes <= min(ranks):
            raise ValueError(f"'axes' must be at least 0 and at most {min(ranks)}, got {axes}")
        return list(range(ranks[0] - axes, ranks[0])), list(range(axes))
    first, second = (
        [int(each)] if isinstance(each, int | np.integer) else [int(i) for i in each]
        for each in axes
    )
    if len(first) != len(second):
        raise ValueError(f"Different number of contraction axes: {first} and {second}")
    return [i % ranks[0] for i in first], [i % ranks[1] for i in second]


def _tensordot_of_unknown_rank(left: Tensor, right: Tensor, axes: Any, name: str) -> Tensor:
    """As `tensordot`, with ranks and axes looked at when it runs."""
    ranks = arrays.rank(left), arrays.rank(right)
    if isinstance(axes, int | np.integer | Tensor):
        count = convert_to_tensor(axes, int32)
        over = (
            apply_op("Range", ranks[0] - count, ranks[0], 1),
            apply_op("Range", 0, count, 1),
        )
    else:
        over = tuple(
            apply_op("FloorMod", arrays.reshape(convert_to_tensor(each, int32), [-1]), rank)
            for each, rank in zip(axes, ranks, strict=True)
        )
    matrices, sizes = [], []
    for tensor, rank, summed, is_left in zip(
        (left, right), ranks, over, (True, False), strict=True
    ):
        free = apply_op("ListDiff", apply_op("Range", 0, rank, 1), summed)[0]
        order = arrays.concat([free, summed] if is_left else [summed, free], 0)
        shape = arrays.shape(tensor)
        sizes.append(arrays.gather(shape, free))
        inner = reduction.reduce_prod(arrays.gather(shape, summed))
        target = arrays.stack([-1, inner] if is_left else [inner, -1])
        matrices.append(arrays.reshape(arrays.transpose(tensor, order), target))
    return arrays.reshape(matmul(matrices[0], matrices[1]), arrays.concat(sizes, 0), name=name)


def _as_matrix(tensor: Tensor, axes: Sequence[int], last: bool) -> tuple[Tensor, Tensor]:
    """`tensor` as a matrix whose columns (or rows) run over `axes`, and the sizes of the rest."""
    assert tensor._shape is not None
    free = [i for i in range(len(tensor._shape)) if i not in axes]
    order = [*free, *axes] if last else [*axes, *free]
    static = tensor.shape.as_list()
    contracted: Any = math.prod(static[i] or 0 for i in axes)
    sizes: Any = np.asarray([static[i] or 0 for i in free], np.int32)
    if any(static[i] is None for i in axes):
        axes_array = np.asarray(axes, np.int32)
        contracted = reduction.reduce_prod(arrays.gather(arrays.shape(tensor), axes_array))
    if any(static[i] is None for i in free):
        sizes = arrays.gather(arrays.shape(tensor), np.asarray(free, np.int32))
    if order != sorted(order):
        tensor = arrays.transpose(tensor, order)
    shape = [-1, contracted] if last else [contracted, -1]
    return arrays.reshape(tensor, shape), convert_to_tensor(sizes)


@export("eye", "linalg.eye")
def eye(
    num_rows: Any,
    num_columns: Any = None,
    batch_shape: Any = None,
    dtype: Any = float32,
    name: str | None = None,
) -> Tensor:
    """Identity matrices.

    Args:
        num_rows: A number, or a scalar integer tensor.
        num_columns: As many as rows when None.
        batch_shape: The dimensions before those of the matrices.
        dtype: Of the elements.
        name: Name of the scope.
    """
    kind = as_dtype(dtype).base
    given = (num_rows, num_columns, batch_shape)
    if not any(isinstance(each, Symbolic) or first_symbolic(each) is not None for each in given):
        batch = () if batch_shape is None else tuple(int(size) for size in batch_shape)
        width = None if num_columns is None else int(num_columns)
        one = np.eye(int(num_rows), width, dtype=kind.as_numpy_dtype)
        array = np.broadcast_to(one, (*batch, *one.shape))
        return convert_to_tensor(array, kind, name=name or "eye")
    graph = graph_of(given)
    with graph.as_default(), graph.name_scope(name or "eye"):
        rows = convert_to_tensor(num_rows, name="num_rows")
        columns = rows if num_columns is None else convert_to_tensor(num_columns, rows.dtype.base)
        lead: Any = [] if batch_shape is None else [convert_to_tensor(batch_shape, int32)]
        least = apply_op("Cast", apply_op("Minimum", rows, columns), DstT=int32)
        sizes = [apply_op("Cast", each, DstT=int32) for each in (rows, columns)]
        ones = arrays.concat([*lead, [least]], 0)
        whole = arrays.concat([*lead, sizes], 0)
        number = np.array(1, kind.as_numpy_dtype)
        zeros = apply_op("Fill", whole, np.array(0, kind.as_numpy_dtype))
        return output_of("MatrixSetDiag", zeros, apply_op("Fill", ones, number))


@export("linalg.matvec")
def matvec(
    a: Any,
    b: Any,
    transpose_a: bool = False,
    adjoint_a: bool = False,
    a_is_sparse: bool = False,
    b_is_sparse: bool = False,
    name: str | None = None,
) -> Tensor:
    """The products of matrices [..., n, m] with vectors [..., m], as `matmul`."""
    graph = graph_of((a, b))
    with graph.as_default(), graph.name_scope(name or "MatVec"):
        column = arrays.expand_dims(b, -1)
        product = matmul(a, column, transpose_a=transpose_a, adjoint_a=adjoint_a)
        return arrays.squeeze(product, [-1])

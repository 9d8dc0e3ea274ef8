"""Products of matrices, norms, special matrices."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from sparkflow.graph.scopes import apply_op, convert_to_tensor, graph_of
from sparkflow.graph.tensor import Tensor
from sparkflow.ops import arrays, reduction
from sparkflow.ops.elementwise import sqrt
from sparkflow_runtime.dtypes import as_dtype, float32


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
        a_is_sparse: Hints, not used.
        b_is_sparse: Hints, not used.
        name: Name of the node.

    Returns:
        [..., n, m].

    Raises:
        ValueError: The shapes do not fit; or both transposed and adjoint are asked for.
    """
    if (transpose_a and adjoint_a) or (transpose_b and adjoint_b):
        raise ValueError("Only one of transpose and adjoint can be True for each argument.")
    graph = graph_of((a, b))
    name = name or "MatMul"
    left = a if isinstance(a, Tensor) else graph.convert(a, None, f"{name}/a")
    right = b if isinstance(b, Tensor) else graph.convert(b, left.dtype.base, f"{name}/b")
    ranks = [len(t._shape) for t in (left, right) if t._shape is not None]
    if any(rank > 2 for rank in ranks):
        adjoints = {"adj_x": transpose_a or adjoint_a, "adj_y": transpose_b or adjoint_b}
        stacked: Tensor = graph.apply("BatchMatMulV2", (left, right), adjoints, name)
        return stacked
    if adjoint_a and left.dtype.is_complex:
        left = apply_op("Conj", left)
    if adjoint_b and right.dtype.is_complex:
        right = apply_op("Conj", right)
    attrs = {"transpose_a": transpose_a or adjoint_a, "transpose_b": transpose_b or adjoint_b}
    result: Tensor = graph.apply("MatMul", (left, right), attrs, name)
    return result


def tensordot(a: Any, b: Any, axes: Any, name: str | None = None) -> Tensor:
    """The sum of products over some axes of two tensors.

    Args:
        a: Tensors of one dtype with known ranks.
        b: Tensors of one dtype with known ranks.
        axes: How many of the last axes of `a` and the first of `b` to sum over, or a pair of lists
            of axes.
        name: Name of the node.

    Returns:
        The free axes of `a`, then those of `b`.

    Raises:
        ValueError: A rank is not known, or `axes` does not fit.
    """
    graph = graph_of((a, b))
    with graph.as_default(), graph.name_scope(name or "Tensordot") as scope:
        left, right = convert_to_tensor(a, name="a"), convert_to_tensor(b, name="b")
        over_left, over_right = _contracted(left, right, axes)
        matrix_a, free_a = _as_matrix(left, over_left, last=True)
        matrix_b, free_b = _as_matrix(right, over_right, last=False)
        product = matmul(matrix_a, matrix_b)
        shape = arrays.concat([free_a, free_b], 0)
        return arrays.reshape(product, shape, name=scope)


def _contracted(left: Tensor, right: Tensor, axes: Any) -> tuple[list[int], list[int]]:
    if left._shape is None or right._shape is None:
        raise ValueError(f"tf.tensordot needs tensors of known rank, got {left!r} and {right!r}")
    ranks = len(left._shape), len(right._shape)
    if isinstance(axes, int | np.integer):
        return list(range(ranks[0] - axes, ranks[0])), list(range(axes))
    first, second = (
        [int(each)] if isinstance(each, int | np.integer) else [int(i) for i in each]
        for each in axes
    )
    if len(first) != len(second):
        raise ValueError(f"Different number of contraction axes: {first} and {second}")
    return [i % ranks[0] for i in first], [i % ranks[1] for i in second]


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


def norm(
    tensor: Any,
    ord: Any = "euclidean",
    axis: Any = None,
    keepdims: bool | None = None,
    name: str | None = None,
) -> Tensor:
    """A vector norm over `axis` (None: over everything).

    Args:
        tensor: Real numbers.
        ord: `euclidean` (or 2), 1, or infinity.
        axis: The axes of the vectors.
        keepdims: Leaves sizes of 1.
        name: Name of the scope.

    Raises:
        ValueError: Another `ord`.
    """
    graph = graph_of((tensor,))
    with graph.as_default(), graph.name_scope(name or "norm"):
        value = convert_to_tensor(tensor, name="tensor")
        if ord in ("euclidean", "fro", 2):
            return sqrt(reduction.reduce_sum(value * value, axis, keepdims))
        if ord == 1:
            return reduction.reduce_sum(abs(value), axis, keepdims)
        if ord == np.inf:
            return reduction.reduce_max(abs(value), axis, keepdims)
    raise ValueError(f"'ord' must be 'euclidean', 1, 2 or np.inf, got {ord!r}")


def eye(
    num_rows: int, num_columns: int | None = None, dtype: Any = float32, name: str | None = None
) -> Tensor:
    """The identity matrix, a constant."""
    array = np.eye(num_rows, num_columns, dtype=as_dtype(dtype).as_numpy_dtype)
    return convert_to_tensor(array, name=name or "eye")

"""Sums, means, extrema over axes; positions of extrema."""

from __future__ import annotations

from typing import Any

import numpy as np

from sparkflow._api import export
from sparkflow._generated.ops.elementwise.special import lgamma
from sparkflow._generated.ops.reduction.reduction import *  # noqa: F403
from sparkflow.graph.composite import Composite
from sparkflow.graph.operators import Symbolic
from sparkflow.graph.scopes import apply_op, convert_to_tensor, graph_of, operand, output_of
from sparkflow.graph.tensor import Tensor
from sparkflow.ops.elementwise.complex import conj, real
from sparkflow.ops.elementwise.elementwise import cast, exp, log
from sparkflow.ops.renamed_arguments import either
from sparkflow_runtime.dtypes import as_dtype, bool_, int64, string


def _reduce(
    op_type: str,
    input_tensor: Any,
    axis: Any,
    keepdims: Any,
    name: str | None,
    reduction_indices: Any,
    keep_dims: Any,
    dtype: Any = None,
) -> Tensor:
    axis = either("axis", axis, "reduction_indices", reduction_indices)
    keepdims = either("keepdims", keepdims, "keep_dims", keep_dims)
    if isinstance(input_tensor, Composite):
        reduced = input_tensor._counterpart("reduced")
        return reduced(op_type, input_tensor, axis, keepdims, name)  # type: ignore[no-any-return]
    graph = graph_of((input_tensor, axis))
    wanted = None if isinstance(input_tensor, Symbolic) else dtype  # apply refuses other tensors
    with graph.as_default():
        tensor, node = operand(input_tensor, "input", name or op_type, wanted)
    over_all = axis is None
    if over_all:
        axis = _all_axes(tensor)
    attrs = {"keep_dims": bool(keepdims)}
    result: Tensor = graph.apply(op_type, (tensor, axis), attrs, node)
    if over_all and not keepdims:
        result.set_shape(())
    if keepdims and result._shape is None:
        result.set_shape(None if tensor._shape is None else [None] * len(tensor._shape))
    return result


def _all_axes(tensor: Tensor) -> Tensor:
    graph = tensor.op.graph
    if tensor._shape is not None:
        axes = np.arange(len(tensor._shape), dtype=np.int32)
        return graph.convert(axes, None, "Const")
    rank = graph.apply("Rank", (tensor,), {})
    found: Tensor = graph.apply("Range", (0, rank, 1), {}, "range")
    return found


@export("reduce_sum", "math.reduce_sum")
def reduce_sum(
    input_tensor: Any,
    axis: Any = None,
    keepdims: bool | None = None,
    name: str | None = None,
    reduction_indices: Any = None,
    keep_dims: bool | None = None,
) -> Tensor:
    """The sum over `axis` (None: over everything).

    Args:
        input_tensor: Numbers of any shape.
        axis: A dimension or several; negative ones count from the last.
        keepdims: Whether the dimensions stay, with size 1.
        name: Name of the node.
        reduction_indices: The old name of `axis`.
        keep_dims: The old name of `keepdims`.

    Returns:
        The shape of `input_tensor` without those dimensions, of its dtype. Over no element: 0.

    Raises:
        ValueError: There is no such dimension, or both an old and a new name are given.
    """
    return _reduce("Sum", input_tensor, axis, keepdims, name, reduction_indices, keep_dims)


@export("reduce_mean", "math.reduce_mean")
def reduce_mean(
    input_tensor: Any,
    axis: Any = None,
    keepdims: bool | None = None,
    name: str | None = None,
    reduction_indices: Any = None,
    keep_dims: bool | None = None,
) -> Tensor:
    """The mean over `axis` (None: over everything); of integers an integer.

    Arguments, result and errors as for `reduce_sum`; over no element the mean is NaN.
    """
    return _reduce("Mean", input_tensor, axis, keepdims, name, reduction_indices, keep_dims)


@export("reduce_prod", "math.reduce_prod")
def reduce_prod(
    input_tensor: Any,
    axis: Any = None,
    keepdims: bool | None = None,
    name: str | None = None,
    reduction_indices: Any = None,
    keep_dims: bool | None = None,
) -> Tensor:
    """The product over `axis` (None: over everything)."""
    return _reduce("Prod", input_tensor, axis, keepdims, name, reduction_indices, keep_dims)


@export("reduce_max", "math.reduce_max")
def reduce_max(
    input_tensor: Any,
    axis: Any = None,
    keepdims: bool | None = None,
    name: str | None = None,
    reduction_indices: Any = None,
    keep_dims: bool | None = None,
) -> Tensor:
    """The largest element over `axis` (None: over everything)."""
    return _reduce("Max", input_tensor, axis, keepdims, name, reduction_indices, keep_dims)


@export("reduce_min", "math.reduce_min")
def reduce_min(
    input_tensor: Any,
    axis: Any = None,
    keepdims: bool | None = None,
    name: str | None = None,
    reduction_indices: Any = None,
    keep_dims: bool | None = None,
) -> Tensor:
    """The smallest element over `axis` (None: over everything)."""
    return _reduce("Min", input_tensor, axis, keepdims, name, reduction_indices, keep_dims)


@export("reduce_all", "math.reduce_all")
def reduce_all(
    input_tensor: Any,
    axis: Any = None,
    keepdims: bool | None = None,
    name: str | None = None,
    reduction_indices: Any = None,
    keep_dims: bool | None = None,
) -> Tensor:
    """Whether every element over `axis` is true."""
    return _reduce("All", input_tensor, axis, keepdims, name, reduction_indices, keep_dims, bool_)


@export("reduce_any", "math.reduce_any")
def reduce_any(
    input_tensor: Any,
    axis: Any = None,
    keepdims: bool | None = None,
    name: str | None = None,
    reduction_indices: Any = None,
    keep_dims: bool | None = None,
) -> Tensor:
    """Whether some element over `axis` is true."""
    return _reduce("Any", input_tensor, axis, keepdims, name, reduction_indices, keep_dims, bool_)


@export("reduce_logsumexp", "math.reduce_logsumexp")
def reduce_logsumexp(
    input_tensor: Any,
    axis: Any = None,
    keepdims: bool | None = None,
    name: str | None = None,
    reduction_indices: Any = None,
    keep_dims: bool | None = None,
) -> Tensor:
    """log(sum(exp(x))) over `axis`, computed so that large elements do not overflow."""
    axis = either("axis", axis, "reduction_indices", reduction_indices)
    keepdims = bool(either("keepdims", keepdims, "keep_dims", keep_dims))
    graph = graph_of((input_tensor,))
    with graph.as_default(), graph.name_scope(name or "ReduceLogSumExp") as scope:
        tensor = convert_to_tensor(input_tensor, name="input_tensor")
        largest = reduce_max(tensor, axis, keepdims=True)
        finite = apply_op("IsFinite", largest)
        zero = apply_op("ZerosLike", largest)
        shift = apply_op("StopGradient", apply_op("Select", finite, largest, zero))
        summed = log(reduce_sum(exp(tensor - shift), axis, keepdims=keepdims))
        if not keepdims:
            shift = apply_op("Reshape", shift, apply_op("Shape", summed))
        return output_of("AddV2", summed, shift, name=scope)


@export("count_nonzero", "math.count_nonzero")
def count_nonzero(
    input_tensor: Any = None,
    axis: Any = None,
    keepdims: bool | None = None,
    dtype: Any = int64,
    name: str | None = None,
    reduction_indices: Any = None,
    keep_dims: bool | None = None,
    input: Any = None,
) -> Tensor:
    """How many elements over `axis` are not zero; of strings, not empty."""
    input_tensor = either("input_tensor", input_tensor, "input", input)
    axis = either("axis", axis, "reduction_indices", reduction_indices)
    keepdims = either("keepdims", keepdims, "keep_dims", keep_dims)
    graph = graph_of((input_tensor,))
    with graph.as_default(), graph.name_scope(name or "count_nonzero"):
        tensor = convert_to_tensor(input_tensor, name="input")
        empty = b"" if tensor.dtype.base is string else np.zeros((), tensor.dtype.as_numpy_dtype)
        zero = graph.convert(empty, None, "zeros")
        nonzero = cast(apply_op("NotEqual", tensor, zero), dtype)
        return reduce_sum(nonzero, axis, keepdims)


@export("math.reduce_euclidean_norm")
def reduce_euclidean_norm(
    input_tensor: Any, axis: Any = None, keepdims: bool = False, name: str | None = None
) -> Tensor:
    """The square root of the sum of squares over `axis` (None: over everything)."""
    return _reduce("EuclideanNorm", input_tensor, axis, keepdims, name, None, None)


@export("math.reduce_variance")
def reduce_variance(
    input_tensor: Any, axis: Any = None, keepdims: bool = False, name: str | None = None
) -> Tensor:
    """The mean of squared distances from the mean over `axis` (None: over everything).

    Raises:
        TypeError: Integers.
    """
    graph = graph_of((input_tensor,))
    with graph.as_default(), graph.name_scope(name or "reduce_variance"):
        tensor = convert_to_tensor(input_tensor, name="input_tensor")
        means = reduce_mean(tensor, axis, keepdims=True)
        if means.dtype.is_integer:
            raise TypeError("Input must be either real or complex")
        difference = tensor - means
        if difference.dtype.is_complex:
            squares = real(difference * conj(difference))
        else:
            squares = apply_op("Square", difference)
        return reduce_mean(squares, axis, keepdims=keepdims)


@export("math.reduce_std")
def reduce_std(
    input_tensor: Any, axis: Any = None, keepdims: bool = False, name: str | None = None
) -> Tensor:
    """The standard deviation over `axis` (None: over everything).

    Raises:
        TypeError: Integers.
    """
    graph = graph_of((input_tensor,))
    with graph.as_default(), graph.name_scope(name or "reduce_std"):
        variance = reduce_variance(input_tensor, axis, keepdims)
        return output_of("Sqrt", variance)


@export("argmax", "math.argmax")
def argmax(
    input: Any,
    axis: Any = None,
    name: str | None = None,
    dimension: Any = None,
    output_type: Any = int64,
) -> Tensor:
    """The position of the largest element along `axis` (None: the first dimension).

    Args:
        input: Real numbers of rank 1 or more; of equal elements the first counts.
        axis: A scalar; negative ones count from the last.
        name: Name of the node.
        dimension: The old name of `axis`.
        output_type: int64 or int32.

    Returns:
        The shape of `input` without `axis`.
    """
    return _position(
        "ArgMax", input, either("axis", axis, "dimension", dimension), name, output_type
    )


@export("argmin", "math.argmin")
def argmin(
    input: Any,
    axis: Any = None,
    name: str | None = None,
    dimension: Any = None,
    output_type: Any = int64,
) -> Tensor:
    """The position of the smallest element along `axis` (None: the first dimension)."""
    return _position(
        "ArgMin", input, either("axis", axis, "dimension", dimension), name, output_type
    )


def _position(op_type: str, value: Any, axis: Any, name: str | None, output_type: Any) -> Tensor:
    where = 0 if axis is None else axis
    kind = as_dtype(output_type)
    return output_of(op_type, value, where, output_type=kind, name=name)


@export("arg_max")
def arg_max(
    input: Any, dimension: Any, output_type: Any = int64, name: str | None = None
) -> Tensor:
    """The position of the largest element along `dimension`."""
    return _position("ArgMax", input, dimension, name, output_type)


@export("arg_min")
def arg_min(
    input: Any, dimension: Any, output_type: Any = int64, name: str | None = None
) -> Tensor:
    """The position of the smallest element along `dimension`."""
    return _position("ArgMin", input, dimension, name, output_type)


@export("lbeta", "math.lbeta", "math.special.lbeta")
def lbeta(x: Any, name: str | None = None) -> Tensor:
    """Log |Beta(x)| along the last dimension: the sum of log Γ less log Γ of the sum."""
    graph = graph_of((x,))
    with graph.as_default(), graph.name_scope(name or "lbeta") as scope:
        tensor = convert_to_tensor(x, name="x")
        products = reduce_sum(lgamma(tensor), [-1])
        of_sum = lgamma(reduce_sum(tensor, [-1]))
        return output_of("Sub", products, of_sum, name=scope)

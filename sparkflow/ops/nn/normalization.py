"""Moments, batch normalisation in one op or in many, local response normalisation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sparkflow._api import export
from sparkflow._generated.ops.nn.normalization import *  # noqa: F403
from sparkflow._generated.ops.nn.normalization import local_response_normalization
from sparkflow.graph.operators import Symbolic
from sparkflow.graph.scopes import apply_op, convert_to_tensor, graph_of
from sparkflow.graph.tensor import Tensor
from sparkflow.ops.elementwise import elementwise
from sparkflow.ops.reduction import reduction
from sparkflow.ops.renamed_arguments import either
from sparkflow.ops.shape import arrays, constants
from sparkflow_runtime.dtypes import bfloat16, float16, float32

_LEAST_EPSILON = 1.001e-5
"""What the libraries behind TensorFlow's GPU kernels ask for; used on every device."""


@export("linalg.l2_normalize", "math.l2_normalize", "nn.l2_normalize")
def l2_normalize(
    x: Any, axis: Any = None, epsilon: float = 1e-12, name: str | None = None, dim: Any = None
) -> Tensor:
    """`x` divided by its euclidean norm along `axis`, at least √`epsilon`.

    Args:
        x: Floating-point numbers.
        axis: A dimension or several; all when None.
        epsilon: The least square of the norm, so that zeros stay zeros.
        name: Name of the scope.
        dim: The old name of `axis`.
    """
    axis = either("axis", axis, "dim", dim)
    graph = graph_of((x,))
    with graph.as_default(), graph.name_scope(name or "l2_normalize") as scope:
        tensor = convert_to_tensor(x, name="x")
        squares = reduction.reduce_sum(elementwise.square(tensor), axis, keepdims=True)
        inverse = elementwise.rsqrt(elementwise.maximum(squares, epsilon))
        return elementwise.multiply(tensor, inverse, name=scope)


@export("nn.moments")
def moments(
    x: Any,
    axes: Sequence[int],
    shift: Any = None,
    name: str | None = None,
    keep_dims: bool | None = None,
    keepdims: bool | None = None,
) -> tuple[Tensor, Tensor]:
    """The mean and the variance of `x` over `axes`; float16 is computed in float32.

    Args:
        x: Numbers, such as images [batch, height, width, channels].
        axes: The dimensions to take them over, such as [0, 1, 2].
        shift: Accepted and not used, as in TensorFlow.
        name: Name of the scope.
        keep_dims: The old name of `keepdims`.
        keepdims: Whether the dimensions stay, with size 1.

    Returns:
        Two tensors of the shape of `x` without `axes`. The variance divides by the number of
        elements, not by one less.
    """
    keep = bool(either("keepdims", keepdims, "keep_dims", keep_dims))
    graph = graph_of((x, axes))
    with graph.as_default(), graph.name_scope(name or "moments"):
        given = convert_to_tensor(x, name="x")
        half = given.dtype.base if given.dtype.base in (float16, bfloat16) else None
        y = elementwise.cast(given, float32) if half else given
        mean = reduction.reduce_mean(y, axes, keepdims=True, name="mean")
        squares = elementwise.squared_difference(y, apply_op("StopGradient", mean))
        variance = reduction.reduce_mean(squares, axes, keepdims=True, name="variance")
        results = [mean, variance]
        if not keep:
            results = [_without(each, axes) for each in results]
        if half:
            results = [elementwise.cast(each, half) for each in results]
        return results[0], results[1]


def _without(tensor: Tensor, axes: Any) -> Tensor:
    """`tensor` without dimensions of size 1 at `axes`, which may be a tensor."""
    if isinstance(axes, Symbolic):
        return reduction.reduce_sum(tensor, axes)
    return arrays.squeeze(tensor, [axes] if isinstance(axes, int) else list(axes))


@export("nn.sufficient_statistics")
def sufficient_statistics(
    x: Any,
    axes: Any,
    shift: Any = None,
    keep_dims: bool | None = None,
    name: str | None = None,
    keepdims: bool | None = None,
) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
    """The statistics from which `normalize_moments` computes mean and variance.

    Args:
        x: Real numbers.
        axes: The dimensions to reduce.
        shift: A number near the mean, subtracted for the sake of precision.
        keep_dims: Keep reduced dimensions with size 1.
        name: Name of the scope.
        keepdims: The newer name of `keep_dims`.

    Returns:
        The number of elements, their sum, the sum of their squares (both less the shift), and the
        shift (None without).
    """
    axes = sorted(set(axes))
    keep = bool(either("keepdims", keepdims, "keep_dims", keep_dims))
    graph = graph_of((x, shift))
    with graph.as_default(), graph.name_scope(name or "sufficient_statistics"):
        values = convert_to_tensor(x, name="x")
        shape = values._shape
        if shape is not None and all(shape[axis] is not None for axis in axes):
            product = 1
            for axis in axes:
                product *= shape[axis] or 0
            counts = constants.constant(product, values.dtype.base, name="count")
        else:
            sizes = arrays.gather(arrays.shape(values), axes)
            counts = reduction.reduce_prod(elementwise.cast(sizes, values.dtype.base), name="count")
        moved: Any = None
        if shift is not None:
            moved = convert_to_tensor(shift, name="shift")
            first = elementwise.subtract(values, moved)
            second = elementwise.squared_difference(values, moved)
        else:
            first, second = values, elementwise.square(values)
        mean_ss = reduction.reduce_sum(first, axes, keepdims=keep, name="mean_ss")
        variance_ss = reduction.reduce_sum(second, axes, keepdims=keep, name="var_ss")
        return counts, mean_ss, variance_ss, moved


@export("nn.normalize_moments")
def normalize_moments(
    counts: Any, mean_ss: Any, variance_ss: Any, shift: Any, name: str | None = None
) -> tuple[Tensor, Tensor]:
    """The mean and the variance from `sufficient_statistics`."""
    graph = graph_of((counts, mean_ss, variance_ss, shift))
    with graph.as_default(), graph.name_scope(name or "normalize"):
        divisor = elementwise.reciprocal(counts, name="divisor")
        if shift is not None:
            shifted = elementwise.multiply(mean_ss, divisor, name="shifted_mean")
            mean = elementwise.add(shifted, shift, name="mean")
        else:
            shifted = mean = elementwise.multiply(mean_ss, divisor, name="mean")
        variance = elementwise.subtract(
            elementwise.multiply(variance_ss, divisor), elementwise.square(shifted), name="variance"
        )
        return mean, variance


@export("nn.weighted_moments")
def weighted_moments(
    x: Any,
    axes: Any,
    frequency_weights: Any,
    name: str | None = None,
    keep_dims: bool | None = None,
    keepdims: bool | None = None,
) -> tuple[Tensor, Tensor]:
    """The mean and the variance of `x` over `axes`, its elements counted by their weights.

    Args:
        x: Real numbers.
        axes: The dimensions to reduce.
        frequency_weights: Broadcast with `x`.
        name: Name of the scope.
        keep_dims: Keep reduced dimensions with size 1.
        keepdims: The newer name of `keep_dims`.
    """
    keep = bool(either("keepdims", keepdims, "keep_dims", keep_dims))
    graph = graph_of((x, frequency_weights, axes))
    with graph.as_default(), graph.name_scope(name or "weighted_moments"):
        values = convert_to_tensor(x, name="x")
        weights = convert_to_tensor(frequency_weights, name="frequency_weights")
        half = values.dtype.base if values.dtype.base in (float16, bfloat16) else None
        if half:
            values = elementwise.cast(values, float32)
        if weights.dtype.base is not values.dtype.base:
            weights = elementwise.cast(weights, values.dtype.base)
        weighted = reduction.reduce_sum(
            weights * values, axes, name="weighted_input_sum", keepdims=True
        )
        # Weights that are broadcast count once per element of x.
        spread = weights + constants.zeros_like(values)
        total = reduction.reduce_sum(spread, axes, name="sum_of_weights", keepdims=True)
        divisor = elementwise.reciprocal(total, name="inv_weight_sum")
        mean = elementwise.multiply(weighted, divisor)
        squares = reduction.reduce_sum(
            weights * elementwise.squared_difference(values, mean),
            axes,
            name="weighted_distsq",
            keepdims=True,
        )
        results = [mean, elementwise.multiply(squares, divisor)]
        if not keep:
            results = [_without(each, axes) for each in results]
        if half:
            results = [elementwise.cast(each, half) for each in results]
        return results[0], results[1]


@export("nn.batch_normalization")
def batch_normalization(
    x: Any,
    mean: Any,
    variance: Any,
    offset: Any,
    scale: Any,
    variance_epsilon: float,
    name: str | None = None,
) -> Tensor:
    """(x - mean) / √(variance + epsilon) * scale + offset (Ioffe, Szegedy 2015).

    Args:
        x: Numbers of any shape.
        mean: Of a shape that broadcasts to that of `x`, such as [channels].
        variance: The same.
        offset: The same, or None: nothing is added.
        scale: The same, or None: 1.
        variance_epsilon: A small number against division by 0.
        name: Name of the scope.
    """
    graph = graph_of((x, mean, variance, scale, offset))
    with graph.as_default(), graph.name_scope(name or "batchnorm"):
        inverse = elementwise.rsqrt(convert_to_tensor(variance) + variance_epsilon)
        if scale is not None:
            inverse = inverse * scale
        shift = -mean * inverse if offset is None else offset - mean * inverse
        values = convert_to_tensor(x)
        kind = values.dtype.base
        return values * _as(inverse, kind) + _as(shift, kind)


def _as(tensor: Tensor, dtype: Any) -> Tensor:
    return tensor if tensor.dtype.base is dtype else elementwise.cast(tensor, dtype)


@export("nn.fused_batch_norm")
def fused_batch_norm(
    x: Any,
    scale: Any,
    offset: Any,
    mean: Any = None,
    variance: Any = None,
    epsilon: float = 0.001,
    data_format: str = "NHWC",
    is_training: bool = True,
    name: str | None = None,
    exponential_avg_factor: float = 1.0,
) -> tuple[Tensor, Tensor, Tensor]:
    """Batch normalisation of images in one op.

    Args:
        x: [batch, height, width, channels], or `NCHW`.
        scale: [channels] float32.
        offset: [channels] float32.
        mean: [channels] float32, used where not in training.
        variance: [channels] float32, used where not in training.
        epsilon: Added to the variance.
        data_format: `NHWC` or `NCHW`.
        is_training: Whether to use the statistics of the batch.
        name: Name of the node.
        exponential_avg_factor: The weight of the batch in the statistics given back.

    Returns:
        The normalised images, and the mean and the unbiased variance of the batch, or those given.

    Raises:
        ValueError: `mean` or `variance` is given in training where nothing is averaged with it.
    """
    if is_training and exponential_avg_factor == 1.0 and (mean, variance) != (None, None):
        raise ValueError(
            "Both `mean` and `variance` must be None if `is_training` is True and "
            f"`exponential_avg_factor` is 1.0. Got mean {mean!r} and variance {variance!r}"
        )
    images = convert_to_tensor(x, name="input")
    graph = graph_of((images, scale, offset))
    with graph.as_default():
        weights = convert_to_tensor(scale, name="scale")
        shift = convert_to_tensor(offset, name="offset")
        center = constants.constant([], float32) if mean is None else mean
        spread = constants.constant([], float32) if variance is None else variance
        # Without the attribute where it says nothing, TensorFlow 1.15 can read the graph too.
        extra = {} if exponential_avg_factor == 1.0 else {
            "exponential_avg_factor": exponential_avg_factor
        }  # fmt: skip
        y, mean_out, variance_out, *_ = apply_op(
            "FusedBatchNormV3",
            images,
            weights,
            shift,
            center,
            spread,
            epsilon=max(epsilon, _LEAST_EPSILON),
            data_format=data_format,
            is_training=is_training,
            name=name,
            **extra,
        )
        return y, mean_out, variance_out


@export("nn.batch_norm_with_global_normalization")
def batch_norm_with_global_normalization(
    t: Any = None,
    m: Any = None,
    v: Any = None,
    beta: Any = None,
    gamma: Any = None,
    variance_epsilon: Any = None,
    scale_after_normalization: Any = None,
    name: str | None = None,
    input: Any = None,
    mean: Any = None,
    variance: Any = None,
) -> Tensor:
    """The old name of `batch_normalization`; `gamma` counts for `scale_after_normalization`."""
    values = either("input", input, "t", t)
    center = either("mean", mean, "m", m)
    spread = either("variance", variance, "v", v)
    scale = gamma if scale_after_normalization else None
    return batch_normalization(values, center, spread, beta, scale, variance_epsilon, name)


lrn = local_response_normalization

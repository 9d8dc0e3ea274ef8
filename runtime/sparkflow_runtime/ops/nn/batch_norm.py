"""Batch normalisation in one op, for training and for inference, and its gradient.

Ioffe and Szegedy, "Batch normalization", 2015. Statistics are float32 for float16 images.
In inference the given mean and variance are constants: no gradient flows to them.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from sparkflow_runtime import shapes
from sparkflow_runtime.dtypes import FLOATING, float16, float32
from sparkflow_runtime.errors import InvalidArgumentError
from sparkflow_runtime.ops.builder import GraphBuilder, OperationView, Tensor
from sparkflow_runtime.ops.composition import chain_rule
from sparkflow_runtime.ops.images import IMAGE, Images
from sparkflow_runtime.ops.kernel import KernelContext
from sparkflow_runtime.ops.nn.bias import sum_per_channel
from sparkflow_runtime.ops.op import Array, Inference, NodeView, Op
from sparkflow_runtime.ops.registry import register
from sparkflow_runtime.ops.signature import bool_attr, float_attr, string_attr, type_attr
from sparkflow_runtime.ops.static import bracketed
from sparkflow_runtime.ops.windows import channels_last, has_channels_last, in_format
from sparkflow_runtime.shapes import Shape

if TYPE_CHECKING:
    from sparkflow_runtime.device.gpu import Gpu

_ONE_TYPE = {"T": type_attr(FLOATING)}
_TWO_TYPES = {"T": type_attr(FLOATING), "U": type_attr(FLOATING)}
_FORMAT = string_attr("NHWC", frozenset({"NHWC", "NCHW", "NDHWC", "NCDHW"}))
_FORWARD = {
    "epsilon": float_attr(0.0001),
    "exponential_avg_factor": float_attr(1.0),
    "data_format": _FORMAT,
    "is_training": bool_attr(True),
}
_BACKWARD = {name: attr for name, attr in _FORWARD.items() if name != "exponential_avg_factor"}


def _broadcast(vector: Array, rank: int, data_format: str) -> Array:
    if has_channels_last(data_format):
        return vector
    return vector.reshape(-1, *(1,) * (rank - 2))


def _channel_axis(rank: int, data_format: str) -> int:
    return rank - 1 if has_channels_last(data_format) else 1


class _Normalisation(Op):
    capturable = True
    images = IMAGE
    aliases = frozenset({"mean", "variance"})  # outputs return them unless they are of the batch

    def infer(self, node: Inference) -> Sequence[Shape]:
        """The shape of the images, then vectors with a number per channel."""
        data_format = node.attrs["data_format"]
        images = node.with_rank(0, len(data_format), "x")
        channels = channels_last(images, data_format)[-1]
        for index, name in enumerate(("scale", "offset", "mean", "variance"), 1):
            (size,) = node.with_rank(index, 1, name)
            # In training mean and variance may be empty: they are not used.
            if index <= 2:
                channels = shapes.merge_dims(channels, size)
        *outer, _ = channels_last(images, data_format)
        statistics: list[Shape] = [(channels,)] * 4
        rest: list[Shape] = [(0,)] if len(self.signature.outputs) == 6 else []
        return [in_format((*outer, channels), data_format), *statistics, *rest]

    def compute(
        self,
        xp: Any,
        x: Array,
        scale: Array,
        offset: Array,
        mean: Array,
        variance: Array,
        *,
        epsilon: float,
        exponential_avg_factor: float,
        data_format: str,
        is_training: bool,
    ) -> tuple[Array, ...]:
        """(y, mean, unbiased variance, mean, variance), the statistics used in inference.

        Raises:
            InvalidArgumentError: A vector does not have one element per channel.
        """
        _check_rank(x, data_format)
        kind = scale.dtype
        wide = x.astype(kind, copy=False)
        y = xp.empty(x.shape, kind)
        if is_training:
            moments = _center(xp, wide, data_format, y)
            shown = _shown(x, scale, mean, variance, moments, exponential_avg_factor)
            kept: Sequence[Array] = moments
        else:
            shown = kept = (mean, variance)
            xp.subtract(wide, _broadcast(mean, x.ndim, data_format), out=y)
        _scale(xp, scale, offset, kept[1], epsilon, data_format, y)
        rest = [xp.zeros((0,), kind)] if len(self.signature.outputs) == 6 else []
        return (y.astype(x.dtype, copy=False), *shown, *kept, *rest)

    def bind(self, node: NodeView, context: KernelContext) -> Callable[..., Any]:
        """`compute`, or the equivalent machine code of `bind_out`."""
        rest = len(self.signature.outputs) - 5
        return _made(super().bind(node, context), self.bind_out, node, context, (0, 4, rest))

    def bind_out(self, node: NodeView, context: KernelContext) -> Callable[..., Any] | None:
        """The same, with the normalised images in a given array; not for float16."""
        if not _is_of_one_type(node.attrs):
            return None
        plain = _filling(context.xp, node.attrs)
        if not _has_machine_code(context, node.attrs):
            return plain
        from sparkflow_runtime.ops.nn import batch_norm_native

        rank, epsilon = len(node.attrs["data_format"]), node.attrs["epsilon"]
        return batch_norm_native.bind(rank, epsilon, _showing(node.attrs), plain)

    def bind_out_gpu(self, node: NodeView, gpu: Gpu) -> Callable[..., Any] | None:
        """The same in few passes over the images."""
        if not _is_of_one_type(node.attrs):
            return None
        from sparkflow_runtime.ops.nn import batch_norm_gpu

        plain = _filling(gpu.cupy, node.attrs)
        return batch_norm_gpu.bind(gpu, node.attrs["T"], node.attrs, plain)

    def gradient(
        self, g: GraphBuilder, op: OperationView, dy: Tensor | None, *_: Tensor | None
    ) -> tuple[Tensor | None, ...]:
        """One op returns those of images, scale and offset."""
        if dy is None:
            return (None,) * 5
        x, scale, _, mean, variance = op.inputs
        training = op.attr("is_training")
        kept = op.outputs[3:5] if training else (mean, variance)
        attrs = {name: op.attr(name) for name in _BACKWARD}
        version = {"FusedBatchNorm": "", "FusedBatchNormV2": "V2"}.get(self.op_type, "V3")
        inputs = [dy, x, scale if version == "" else g.Cast(scale, DstT=float32), *kept]
        if version == "":
            found = g.FusedBatchNormGrad(*inputs, **attrs)
        elif version == "V2":
            found = g.FusedBatchNormGradV2(*inputs, **attrs)
        else:
            found = g.FusedBatchNormGradV3(*inputs, op.outputs[5], **attrs)
        return (found[0], found[1], found[2], None, None)


def _is_of_one_type(attrs: Mapping[str, Any]) -> bool:
    """Whether statistics have the images' dtype, and that is not float16."""
    return attrs["T"] is attrs.get("U", attrs["T"]) and attrs["T"] is not float16


def _scales_in_its_type(attrs: Mapping[str, Any]) -> bool:
    """The same for a gradient, whose later versions have a float32 scale."""
    return _is_of_one_type(attrs) and ("U" not in attrs or attrs["T"] is float32)


def _has_machine_code(context: KernelContext, attrs: Mapping[str, Any]) -> bool:
    return context.xp is np and has_channels_last(attrs["data_format"])


def _made(
    general: Callable[..., Any],
    bind_out: Callable[[NodeView, KernelContext], Callable[..., Any] | None],
    node: NodeView,
    context: KernelContext,
    form: tuple[int, int, int],
) -> Callable[..., Any]:
    """Returns a kernel that uses machine code if it applies, and else the general kernel.

    Args:
        general: The kernel in numpy.
        bind_out: Returns the kernel that fills arrays.
        node: The node.
        context: The context of the kernels.
        form: The number of the images' input, before scale; the numbers of vector outputs, after
            the images, and of empty ones.
    """
    fill = bind_out(node, context) if _has_machine_code(context, node.attrs) else None
    if fill is None:
        return general
    images, vectors, empty = form
    rank = len(node.attrs["data_format"])

    def run(*inputs: Array) -> Any:
        x, scale = inputs[images : images + 2]
        if x.ndim != rank or scale.shape != x.shape[-1:]:
            return general(*inputs)
        made = [np.empty(x.shape, x.dtype), *(np.empty_like(scale) for _ in range(vectors))]
        outputs = (*made, *(np.zeros(0, scale.dtype) for _ in range(empty)))
        fill(*inputs, *outputs)
        return outputs

    return run


def _showing(
    attrs: Mapping[str, Any],
) -> Callable[[Sequence[Array], tuple[Array, Array]], tuple[Array, Array]] | None:
    """A function of inputs and moments that computes the training outputs of mean and variance."""
    if not attrs["is_training"]:
        return None
    share = attrs["exponential_avg_factor"]

    def shown(inputs: Sequence[Array], moments: tuple[Array, Array]) -> tuple[Array, Array]:
        x, scale, _, mean, variance = inputs
        return _shown(x, scale, mean, variance, moments, share)

    return shown


def _filling(xp: Any, attrs: Mapping[str, Any]) -> Callable[..., None]:
    """The kernel that fills arrays."""
    data_format, epsilon = attrs["data_format"], attrs["epsilon"]
    share = attrs["exponential_avg_factor"] if attrs["is_training"] else None

    def run(
        x: Array, scale: Array, offset: Array, mean: Array, variance: Array, *outs: Array
    ) -> None:
        _check_rank(x, data_format)
        y = outs[0]
        if share is None:
            shown = kept = (mean, variance)
            xp.subtract(x, _broadcast(mean, x.ndim, data_format), out=y)
        else:
            kept = _center(xp, x, data_format, y)
            shown = _shown(x, scale, mean, variance, kept, share)
        for out, value in zip(outs[1:5], (*shown, *kept), strict=True):
            out[...] = value
        _scale(xp, scale, offset, kept[1], epsilon, data_format, y)

    return run


def _check_rank(x: Array, data_format: str) -> None:
    rank = len(data_format)
    if x.ndim != rank:
        raise InvalidArgumentError(
            message=f"input must be {rank}-dimensional: {bracketed(x.shape)}"
        )


def _center(xp: Any, x: Array, data_format: str, y: Array) -> tuple[Array, Array]:
    """Writes the images minus their mean; returns mean and variance per channel."""
    axis = _channel_axis(x.ndim, data_format)
    count = x.dtype.type(max(x.size // max(x.shape[axis], 1), 1))
    mean = sum_per_channel(xp, x, axis) / count
    shift = _broadcast(mean, x.ndim, data_format)
    # The squares go where the result will be: a second subtraction costs less than memory.
    xp.square(xp.subtract(x, shift, out=y), out=y)
    variance = sum_per_channel(xp, y, axis) / count
    xp.subtract(x, shift, out=y)
    return mean, variance


def _shown(
    x: Array,
    scale: Array,
    mean: Array,
    variance: Array,
    moments: tuple[Array, Array],
    share: float,
) -> tuple[Array, Array]:
    """The mean and unbiased variance to return in training; NaN if there are no images."""
    if not x.size:
        unknown = moments[0] + scale.dtype.type(float("nan"))
        return unknown, unknown
    count = x.size // max(scale.size, 1)
    unbiased = moments[1] * scale.dtype.type(count / max(count - 1, 1))
    return _moved(mean, moments[0], share), _moved(variance, unbiased, share)


def _scale(
    xp: Any,
    scale: Array,
    offset: Array,
    variance: Array,
    epsilon: float,
    data_format: str,
    y: Array,
) -> None:
    """Computes the result from images minus their mean."""
    factor = scale / xp.sqrt(variance + scale.dtype.type(epsilon))
    xp.multiply(y, _broadcast(factor, y.ndim, data_format), out=y)
    xp.add(y, _broadcast(offset, y.ndim, data_format), out=y)


def _moved(given: Array, new: Array, share: float) -> Array:
    """The moving average after a batch; the batch's own value for a factor of 1."""
    if share == 1.0:
        return new
    return given + (new - given) * new.dtype.type(share)


@register
class FusedBatchNorm(_Normalisation):
    """(x - mean) / √(variance + epsilon) · scale + offset, with statistics of the batch."""

    inputs = "x: T, scale: T, offset: T, mean: T, variance: T"
    outputs = "y: T, batch_mean: T, batch_variance: T, reserve_space_1: T, reserve_space_2: T"
    attrs = {**_ONE_TYPE, **_FORWARD}


@register
class FusedBatchNormV2(_Normalisation):
    """As `FusedBatchNorm`, with a separate dtype for statistics."""

    inputs = "x: T, scale: U, offset: U, mean: U, variance: U"
    outputs = "y: T, batch_mean: U, batch_variance: U, reserve_space_1: U, reserve_space_2: U"
    attrs = {**_TWO_TYPES, **_FORWARD}


@register
class FusedBatchNormV3(_Normalisation):
    """As `FusedBatchNormV2`, with one more output for the gradient's use on some devices."""

    inputs = "x: T, scale: U, offset: U, mean: U, variance: U"
    outputs = (
        "y: T, batch_mean: U, batch_variance: U, reserve_space_1: U, reserve_space_2: U, "
        "reserve_space_3: U"
    )
    attrs = {**_TWO_TYPES, **_FORWARD}


class _NormalisationGrad(Op):
    capturable = True
    images = Images((0, 1))

    def infer(self, node: Inference) -> Sequence[Shape]:
        """The shapes of images, scale and offset, then two that are empty."""
        data_format = node.attrs["data_format"]
        images = shapes.merge(
            node.with_rank(0, len(data_format), "y_backprop"),
            node.with_rank(1, len(data_format), "x"),
        )
        assert images is not None
        channels = channels_last(images, data_format)[-1]
        channels = shapes.merge_dims(channels, node.with_rank(2, 1, "scale")[0])
        return [images, (channels,), (channels,), (0,), (0,)]

    def compute(
        self,
        xp: Any,
        dy: Array,
        x: Array,
        scale: Array,
        mean: Array,
        variance: Array,
        *rest: Array,
        epsilon: float,
        data_format: str,
        is_training: bool,
    ) -> tuple[Array, ...]:
        """(dx, dscale, doffset, empty, empty)."""
        kind = mean.dtype
        dx = xp.empty(x.shape, kind)
        dscale, doffset = xp.empty(scale.shape, kind), xp.empty(scale.shape, kind)
        given = [each.astype(kind, copy=False) for each in (dy, x, scale)]
        attrs = (epsilon, data_format, is_training)
        _fill_gradients(xp, (*given, mean, variance), attrs, (dx, dscale, doffset))
        empty = xp.zeros((0,), kind)
        return dx.astype(x.dtype, copy=False), dscale, doffset, empty, empty

    def bind(self, node: NodeView, context: KernelContext) -> Callable[..., Any]:
        """`compute`, or the equivalent machine code of `bind_out`."""
        return _made(super().bind(node, context), self.bind_out, node, context, (1, 2, 2))

    def bind_out(self, node: NodeView, context: KernelContext) -> Callable[..., Any] | None:
        """The same, into given arrays; not for float16."""
        attrs = node.attrs
        if not _scales_in_its_type(attrs):
            return None
        inputs = len(self.signature.inputs)
        plain = self._filling(context.xp, attrs)
        if not _has_machine_code(context, attrs):
            return plain
        from sparkflow_runtime.ops.nn import batch_norm_native

        rank, epsilon = len(attrs["data_format"]), attrs["epsilon"]
        run = batch_norm_native.bind_gradient(rank, epsilon, attrs["is_training"], plain)
        return lambda *arrays: run(*arrays[: inputs + 3])

    def _filling(self, xp: Any, given: Mapping[str, Any]) -> Callable[..., None]:
        attrs = given["epsilon"], given["data_format"], given["is_training"]
        inputs = len(self.signature.inputs)

        def run(*arrays: Array) -> None:
            _fill_gradients(xp, arrays[:5], attrs, arrays[inputs : inputs + 3])

        return run

    def bind_out_gpu(self, node: NodeView, gpu: Gpu) -> Callable[..., Any] | None:
        """The same in two passes over images and gradients."""
        if not _scales_in_its_type(node.attrs):
            return None
        from sparkflow_runtime.ops.nn import batch_norm_gpu

        plain = self._filling(gpu.cupy, node.attrs)
        return batch_norm_gpu.bind_gradient(gpu, node.attrs["T"], node.attrs, plain)

    def gradient(
        self, g: GraphBuilder, op: OperationView, *grads: Tensor | None
    ) -> Sequence[Tensor | None]:
        """Through dy, x and scale, by the chain rule."""
        attrs = {name: op.attr(name) for name in _BACKWARD}
        formula = functools.partial(_gradients, **attrs)
        found = chain_rule(g, formula, op.inputs[:5], grads[:3])
        return (*found[:3], *(None,) * (len(op.inputs) - 3))


def _fill_gradients(
    xp: Any,
    inputs: Sequence[Array],
    attrs: tuple[float, str, bool],
    outputs: Sequence[Array],
) -> None:
    """Computes the gradients of images, scale and offset, without storing normalised images.

    With n = (x - mean) · inverse: dscale = Σ dy·n, and in training dx = factor · (dy - mean(dy) -
    n · mean(dy·n)), for which n is first stored in dx.
    """
    dy, x, scale, mean, variance = inputs
    epsilon, data_format, is_training = attrs
    dx, dscale, doffset = outputs
    rank, kind = x.ndim, mean.dtype
    axis = _channel_axis(rank, data_format)
    inverse = 1 / xp.sqrt(variance + kind.type(epsilon))
    shift = _broadcast(mean, rank, data_format)
    sum_per_channel(xp, dy, axis, doffset)
    xp.multiply(xp.subtract(x, shift, out=dx), dy, out=dx)
    xp.multiply(sum_per_channel(xp, dx, axis), inverse, out=dscale)
    factor = _broadcast(scale * inverse, rank, data_format)
    if is_training:
        count = kind.type(max(x.size // max(scale.size, 1), 1))
        slope = _broadcast(dscale * inverse / count, rank, data_format)
        xp.multiply(xp.subtract(x, shift, out=dx), slope, out=dx)
        xp.subtract(dy, dx, out=dx)
        xp.subtract(dx, _broadcast(doffset / count, rank, data_format), out=dx)
        xp.multiply(dx, factor, out=dx)
    else:
        xp.multiply(dy, factor, out=dx)


def _gradients(
    g: Any,
    dy: Tensor,
    x: Tensor,
    scale: Tensor,
    mean: Tensor,
    variance: Tensor,
    *,
    epsilon: float,
    data_format: str,
    is_training: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    """The computation of `_fill_gradients` as a differentiable formula.

    In training, mean and variance depend on the images.
    """
    kind, narrow, rank = mean.dtype.base, x.dtype.base, len(data_format)
    order = np.array(channels_last(range(rank), data_format), np.int32)
    back = np.array(in_format(range(rank), data_format), np.int32)
    axes = np.arange(rank - 1, dtype=np.int32)
    upstream, images = (g.Transpose(g.Cast(each, DstT=kind), order) for each in (dy, x))
    if is_training:
        mean = g.Mean(images, axes)
        variance = g.Mean(g.Square(g.Sub(images, mean)), axes)
    inverse = g.Rsqrt(g.Add(variance, epsilon))
    normal = g.Mul(g.Sub(images, mean), inverse)
    dscale, doffset = g.Sum(g.Mul(upstream, normal), axes), g.Sum(upstream, axes)
    slope = upstream
    if is_training:
        along = g.Mul(normal, g.Mean(g.Mul(upstream, normal), axes))
        slope = g.Sub(g.Sub(upstream, g.Mean(upstream, axes)), along)
    dx = g.Mul(slope, g.Mul(g.Cast(scale, DstT=kind), inverse))
    return g.Cast(g.Transpose(dx, back), DstT=narrow), dscale, doffset


@register
class FusedBatchNormGrad(_NormalisationGrad):
    """The gradients of `FusedBatchNorm`."""

    inputs = "y_backprop: T, x: T, scale: T, reserve_space_1: T, reserve_space_2: T"
    outputs = (
        "x_backprop: T, scale_backprop: T, offset_backprop: T, reserve_space_3: T, "
        "reserve_space_4: T"
    )
    attrs = {**_ONE_TYPE, **_BACKWARD}


@register
class FusedBatchNormGradV2(_NormalisationGrad):
    """The gradients of `FusedBatchNormV2`."""

    inputs = "y_backprop: T, x: T, scale: float32, reserve_space_1: U, reserve_space_2: U"
    outputs = (
        "x_backprop: T, scale_backprop: U, offset_backprop: U, reserve_space_3: U, "
        "reserve_space_4: U"
    )
    attrs = {**_TWO_TYPES, **_BACKWARD}


@register
class FusedBatchNormGradV3(_NormalisationGrad):
    """The gradients of `FusedBatchNormV3`."""

    inputs = (
        "y_backprop: T, x: T, scale: float32, reserve_space_1: U, reserve_space_2: U, "
        "reserve_space_3: U"
    )
    outputs = (
        "x_backprop: T, scale_backprop: U, offset_backprop: U, reserve_space_4: U, "
        "reserve_space_5: U"
    )
    attrs = {**_TWO_TYPES, **_BACKWARD}

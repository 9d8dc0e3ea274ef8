"""Maximum and average over windows of two or three dimensions, and their gradients.

The arithmetic is in `pooling`; pooling that also returns argmaxes is in `argmax_pool`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from sparkflow_runtime import shapes
from sparkflow_runtime.codegen.ir.kernel import NARROW
from sparkflow_runtime.codegen.machine import native
from sparkflow_runtime.codegen.pooling.pooling_form import Task
from sparkflow_runtime.dtypes import FLOATING, REAL, float32, float64
from sparkflow_runtime.errors import InvalidArgumentError, UnimplementedError
from sparkflow_runtime.ops.builder import GraphBuilder, OperationView, Tensor
from sparkflow_runtime.ops.images import IMAGE, Images
from sparkflow_runtime.ops.kernel import KernelContext
from sparkflow_runtime.ops.kernels.by_shape import ByShape
from sparkflow_runtime.ops.op import Array, Inference, NodeView, Op
from sparkflow_runtime.ops.pooling import pool_arithmetic as arithmetic
from sparkflow_runtime.ops.pooling.pool_arithmetic import Pooling
from sparkflow_runtime.ops.pooling.pool_native import Chooser
from sparkflow_runtime.ops.registry import register
from sparkflow_runtime.ops.signature import Attr, list_attr, string_attr, type_attr
from sparkflow_runtime.ops.static import (
    bracketed,
    checked_dims,
    constant_shape,
    shape_tensor,
    vector,
)
from sparkflow_runtime.ops.windows import (
    as_channels_last,
    channels_last,
    from_channels_last,
    in_format,
    offsets,
    pad_images,
    static_channels_last,
)
from sparkflow_runtime.shapes import Shape

if TYPE_CHECKING:
    from sparkflow_runtime.device.gpu import Gpu

_SIZES = list_attr("int", minimum=4)
_FORMAT = string_attr("NHWC", frozenset({"NHWC", "NCHW"}))
_PADDING = string_attr(allowed=frozenset({"SAME", "VALID"}))
_MAX_ATTRS = {
    "ksize": _SIZES,
    "strides": _SIZES,
    "padding": string_attr(allowed=frozenset({"SAME", "VALID", "EXPLICIT"})),
    "explicit_paddings": list_attr("int", []),
    "data_format": _FORMAT,
}
PLAIN_ATTRS: Mapping[str, Attr] = {
    "ksize": _SIZES,
    "strides": _SIZES,
    "padding": _PADDING,
    "data_format": _FORMAT,
}
"""The geometry of windows over height and width."""
_SOLID_ATTRS = {
    "ksize": list_attr("int", minimum=5),
    "strides": list_attr("int", minimum=5),
    "padding": _PADDING,
    "data_format": string_attr("NDHWC", frozenset({"NDHWC", "NCDHW"})),
}


def _one_per_tap(op: Op, node: Inference, outputs: Sequence[Shape]) -> int:
    """One operation per window element and output element."""
    window: list[int] = node.attrs["ksize"]
    return math.prod(window) * shapes.size(outputs[0])


class _PoolOp(Op):
    """The base of the ops: their geometry, read from the attributes once per node.

    Attributes:
        family: The types of the pooling, its gradient, and the gradient's gradient.
        run: The kernel: a function of xp, the geometry and the inputs.
        task: Its task in `codegen.pooling_ir`; None if that does not support it.
        checked: Checks the geometry and the inputs, and returns the shape of the images, channels
            last.
    """

    widens = NARROW
    outputs = "output: T"
    family: ClassVar[tuple[str, ...]]
    run: ClassVar[Callable[..., Array]]
    task: ClassVar[Task | None] = None
    checked: ClassVar[Callable[..., Sequence[int]]]

    def bind(self, node: NodeView, context: KernelContext) -> Callable[..., Array]:
        """`run` with the array module and the geometry, or equivalent generated code.

        Raises:
            UnimplementedError: Windows over the batch, or over channels as `over_channels` forbids.
        """
        width = over_channels(node.attrs)
        if width > 1 and self.task in (Task.MAXIMUM, Task.MAXIMUM_GRADIENT, None):
            kernel = self._kernel(node, context, _of_rows(width))
            return _over_channels(kernel, context.xp, node.attrs["data_format"], width)
        return self._kernel(node, context, Pooling.of(node.attrs))

    def _kernel(
        self, node: NodeView, context: KernelContext, pooling: Pooling
    ) -> Callable[..., Array]:
        plain = partial(self.run, context.xp, pooling)
        if context.gpu is None:
            chosen = self._native(node, context)
        else:
            chosen = self._on_gpu(node, context.gpu, pooling)
        return chosen.kernel(plain) if chosen else plain

    def bind_out(self, node: NodeView, context: KernelContext) -> Callable[..., None] | None:
        """The same in machine code; None if there is none."""
        native_kernels = self._native(node, context)
        if native_kernels is None:
            return None
        return native_kernels.kernel_out(partial(self.run, context.xp, Pooling.of(node.attrs)))

    def bind_out_gpu(self, node: NodeView, gpu: Gpu) -> Callable[..., None] | None:
        """The same in CUDA."""
        if over_channels(node.attrs) > 1:
            return None
        pooling = Pooling.of(node.attrs)
        chosen = self._on_gpu(node, gpu, pooling)
        if chosen is None:
            return None
        return chosen.kernel_out(partial(self.run, gpu.cupy, pooling))

    def _on_gpu(self, node: NodeView, gpu: Gpu, pooling: Pooling) -> ByShape | None:
        from sparkflow_runtime.codegen.gpu.cuda_expressions import COMPUTED_IN
        from sparkflow_runtime.ops.pooling.pool_gpu import GpuChooser

        dtype, task = node.attrs["T"], self.task
        if task is None or dtype not in COMPUTED_IN or not _is_of_one_dtype(node.attrs):
            return None
        choose = GpuChooser(gpu.cupy, task, dtype, pooling, partial(self.checked, pooling))
        return ByShape(choose, self._sizes_input, gpu.cupy)

    @property
    def _sizes_input(self) -> int | None:
        return 0 if self.task is Task.AVERAGE_GRADIENT else None

    def _native(self, node: NodeView, context: KernelContext) -> ByShape | None:
        if over_channels(node.attrs) > 1:
            return None
        dtype, task, pooling = node.attrs["T"], self.task, Pooling.of(node.attrs)
        if context.xp is not np or dtype not in (float32, float64) or not native.available():
            return None
        if task is None or not _is_of_one_dtype(node.attrs):
            return None
        choose = Chooser(
            task, np.dtype(dtype.as_numpy_dtype), pooling, partial(self.checked, pooling)
        )
        return ByShape(choose, self._sizes_input)

    def add(self, g: GraphBuilder, op: OperationView, index: int, *inputs: Tensor) -> Tensor:
        """A node of this family with the geometry of `op`."""
        attrs = {name: op.attr(name) for name in self.attrs if name not in ("T", "TInput")}
        if index == 2 and not attrs.get("explicit_paddings"):
            attrs.pop("explicit_paddings", None)  # TensorFlow's op has none
        return getattr(g, self.family[index])(*inputs, **attrs)


def _of_channels(attrs: Mapping[str, Any], name: str) -> int:
    return int(channels_last(attrs[name], attrs["data_format"])[-1])


def _is_of_one_dtype(attrs: Mapping[str, Any]) -> bool:
    return attrs.get("TInput", attrs["T"]) is attrs["T"]


def _is_spatial(attrs: Mapping[str, Any]) -> bool:
    sizes = [channels_last(attrs[name], attrs["data_format"]) for name in ("ksize", "strides")]
    return all(size[0] == size[-1] == 1 for size in sizes)


def over_channels(attrs: Mapping[str, Any]) -> int:
    """The number of channels in a window; 1 if windows span height and width.

    Raises:
        UnimplementedError: Windows over the batch, over channels and more, or that overlap.
    """
    if _is_spatial(attrs):
        return 1
    sizes, strides = (channels_last(attrs[n], attrs["data_format"]) for n in ("ksize", "strides"))
    if sizes[0] != 1 or strides[0] != 1:
        raise UnimplementedError(message="Pooling is not yet supported on the batch dimension.")
    if any(size != 1 for size in sizes[1:-1]):
        raise UnimplementedError(
            message="MaxPooling supports exactly one of pooling across depth or pooling across "
            "width/height."
        )
    if sizes[-1] != strides[-1]:
        raise UnimplementedError(
            message="Depthwise max pooling requires the depth window to equal the depth stride."
        )
    return int(sizes[-1])


def _of_rows(width: int) -> Pooling:
    """Windows over channels as windows over the columns of an image with a row per pixel."""
    window = {"ksize": [1, 1, width, 1], "strides": [1, 1, width, 1], "padding": "VALID"}
    return Pooling.of(window)


def _over_channels(
    of_rows: Callable[..., Array], xp: Any, data_format: str, width: int
) -> Callable[..., Array]:
    """Adapts the kernel of `_of_rows` to windows over `width` channels."""

    def kernel(*inputs: Array) -> Array:
        images = [as_channels_last(each, data_format, "input") for each in inputs]
        *outer, channels = images[0].shape
        if channels % width:
            raise UnimplementedError(
                message="Depthwise max pooling requires the depth window to evenly divide the "
                "input depth."
            )
        rows = [xp.ascontiguousarray(each).reshape(1, -1, each.shape[-1], 1) for each in images]
        found = of_rows(*rows)
        return from_channels_last(xp, found.reshape(*outer, found.shape[2]), data_format)

    return kernel


class _Max(_PoolOp):
    inputs = "input: T"
    task = Task.MAXIMUM

    def infer(self, node: Inference) -> Sequence[Shape]:
        """(batch, windows over each spatial dimension, channels or windows over them)."""
        data_format = node.attrs["data_format"]
        images = node.with_rank(0, len(data_format), "input")
        if _is_spatial(node.attrs):
            return [Pooling.of(node.attrs).static_shape(images)]
        *outer, channels = static_channels_last(images, data_format)
        width = _of_channels(node.attrs, "ksize")
        shape = (*outer, None if channels is None else channels // width)
        return [in_format(shape, data_format)]

    @staticmethod
    def checked(pooling: Pooling, images: Array) -> Sequence[int]:
        """The shape of the images."""
        return _checked_images(pooling, images, "input")

    @staticmethod
    def run(xp: Any, pooling: Pooling, images: Array) -> Array:
        """The maxima.

        Raises:
            InvalidArgumentError: A window does not fit, or the input is not of the format's rank.
        """
        images = pooling.channels_last(images, "input")
        return pooling.result(xp, arithmetic.maximum(xp, images, pooling.windows(images.shape)))

    def gradient(self, g: GraphBuilder, op: OperationView, dy: Tensor) -> tuple[Tensor, ...]:
        """Each window's gradient goes to its first maximum."""
        return (self.add(g, op, 1, op.inputs[0], op.outputs[0], dy),)


class _MaxGrad(_PoolOp):
    inputs = "orig_input: T, orig_output: T, grad: T"
    task = Task.MAXIMUM_GRADIENT

    def infer(self, node: Inference) -> Sequence[Shape]:
        """The shape of the images."""
        rank = len(node.attrs["data_format"])
        node.with_rank(1, rank, "orig_output")
        node.with_rank(2, rank, "grad")
        return [node.with_rank(0, rank, "orig_input")]

    @staticmethod
    def checked(pooling: Pooling, images: Array, pooled: Array, grad: Array) -> Sequence[int]:
        """The shape of the images.

        Raises:
            InvalidArgumentError: The shapes do not belong to one pooling.
        """
        images = pooling.channels_last(images, "orig_input")
        pooled = pooling.channels_last(pooled, "orig_output")
        grad = pooling.channels_last(grad, "grad")
        pooling.check(images.shape, orig_output=pooled, grad=grad)
        shape: Sequence[int] = images.shape
        return shape

    @staticmethod
    def run(xp: Any, pooling: Pooling, images: Array, pooled: Array, grad: Array) -> Array:
        """The gradient; raises as `checked` does."""
        windows = pooling.windows(_MaxGrad.checked(pooling, images, pooled, grad))
        images = pooling.channels_last(images, "orig_input")
        pooled = pooling.channels_last(pooled, "orig_output")
        grad = pooling.channels_last(grad, "grad")
        result = arithmetic.padded_zeros(xp, images.shape, windows, grad.dtype)
        for _, index, mask in arithmetic.winners(xp, images, pooled, windows):
            result[index] += arithmetic.masked(grad, mask)
        return pooling.result(xp, arithmetic.inside(result, windows, images.shape))

    def gradient(self, g: GraphBuilder, op: OperationView, dy: Tensor) -> tuple[Tensor | None, ...]:
        """Linear in `grad` only."""
        images, pooled, _ = op.inputs
        return None, None, self.add(g, op, 2, images, pooled, dy)


class _MaxGradGrad(_PoolOp):
    inputs = "orig_input: T, orig_output: T, grad: T"

    def infer(self, node: Inference) -> Sequence[Shape]:
        """The shape of the pooled images."""
        rank = len(node.attrs["data_format"])
        node.with_rank(0, rank, "orig_input")
        node.with_rank(2, rank, "grad")
        return [node.with_rank(1, rank, "orig_output")]

    @staticmethod
    def run(xp: Any, pooling: Pooling, images: Array, pooled: Array, grad: Array) -> Array:
        """The gradient.

        Raises:
            InvalidArgumentError: The shapes do not belong to one pooling.
        """
        images = pooling.channels_last(images, "orig_input")
        pooled = pooling.channels_last(pooled, "orig_output")
        grad = pooling.channels_last(grad, "grad")
        windows = pooling.check(images.shape, orig_output=pooled)
        arithmetic.check_like("grad", grad, images.shape)
        padded = pad_images(xp, grad, windows)
        result = xp.zeros(pooled.shape, grad.dtype)
        for _, index, mask in arithmetic.winners(xp, images, pooled, windows):
            xp.copyto(result, padded[index], where=mask)
        return pooling.result(xp, result)

    def gradient(self, g: GraphBuilder, op: OperationView, dy: Tensor) -> tuple[Tensor | None, ...]:
        """Linear in `grad` only."""
        images, pooled, _ = op.inputs
        return None, None, self.add(g, op, 1, images, pooled, dy)


class _Average(_PoolOp):
    task = Task.AVERAGE

    def infer(self, node: Inference) -> Sequence[Shape]:
        """(batch, windows over each spatial dimension, channels)."""
        pooling = Pooling.of(node.attrs)
        return [pooling.static_shape(node.with_rank(0, pooling.rank, "value"))]

    @staticmethod
    def checked(pooling: Pooling, images: Array) -> Sequence[int]:
        """The shape of the images."""
        return _checked_images(pooling, images, "value")

    @staticmethod
    def run(xp: Any, pooling: Pooling, images: Array) -> Array:
        """The means.

        Raises:
            InvalidArgumentError: A window does not fit, or the input is not of the format's rank.
        """
        images = pooling.channels_last(images, "value")
        windows = pooling.windows(images.shape)
        wide = images.astype(xp.float32) if images.dtype == xp.float16 else images
        means = arithmetic.total(xp, wide, windows)
        means /= arithmetic.window_sizes(xp, windows, images.shape, wide.dtype)
        return pooling.result(xp, means.astype(images.dtype, copy=False))

    def gradient(self, g: GraphBuilder, op: OperationView, dy: Tensor) -> tuple[Tensor, ...]:
        """Each window's gradient in equal parts."""
        return (self.add(g, op, 1, shape_tensor(g, op.inputs[0]), dy),)


class _AverageGrad(_PoolOp):
    inputs = "orig_input_shape: int32, grad: T"
    task = Task.AVERAGE_GRADIENT

    def infer(self, node: Inference) -> Sequence[Shape]:
        """The shape given."""
        rank = len(node.attrs["data_format"])
        node.with_rank(1, rank, "grad")
        shape = constant_shape(node, 0, "orig_input_shape")
        return [(None,) * rank if shape is None else shape]

    @staticmethod
    def checked(pooling: Pooling, orig_input_shape: Array, grad: Array) -> Sequence[int]:
        """The shape of the images.

        Raises:
            InvalidArgumentError: The shapes do not belong to one pooling.
        """
        dims = checked_dims(vector(orig_input_shape, "orig_input_shape"), "orig_input_shape")
        if len(dims) != pooling.rank:
            raise InvalidArgumentError(
                message=f"orig_input_shape must have {pooling.rank} elements, got {bracketed(dims)}"
            )
        shape = channels_last(dims, pooling.layout.data_format)
        pooling.check(shape, grad=pooling.channels_last(grad, "grad"))
        return shape

    @staticmethod
    def run(xp: Any, pooling: Pooling, orig_input_shape: Array, grad: Array) -> Array:
        """The gradient; raises as `checked` does."""
        shape = _AverageGrad.checked(pooling, orig_input_shape, grad)
        windows = pooling.windows(shape)
        grad = pooling.channels_last(grad, "grad")
        wide = grad.astype(xp.float32) if grad.dtype == xp.float16 else grad
        share = wide / arithmetic.window_sizes(xp, windows, shape, wide.dtype)
        result = arithmetic.padded_zeros(xp, shape, windows, share.dtype)
        for _, index in offsets(windows):
            result[index] += share
        found = arithmetic.inside(result, windows, shape)
        return pooling.result(xp, found.astype(grad.dtype, copy=False))

    def gradient(self, g: GraphBuilder, op: OperationView, dy: Tensor) -> tuple[Tensor | None, ...]:
        """The means of the gradient."""
        return None, self.add(g, op, 0, dy)


def _checked_images(pooling: Pooling, images: Array, name: str) -> Sequence[int]:
    shape: Sequence[int] = pooling.channels_last(images, name).shape
    pooling.windows(shape)
    return shape


_MAX = ("MaxPool", "MaxPoolGrad", "MaxPoolGradGrad")
_MAX_3D = ("MaxPool3D", "MaxPool3DGrad", "MaxPool3DGradGrad")
_AVERAGE = ("AvgPool", "AvgPoolGrad")
_AVERAGE_3D = ("AvgPool3D", "AvgPool3DGrad")


@register
class MaxPool(_Max):
    """The largest element of every window, per channel; padding never wins.

    A window may span channels instead of height and width if its stride equals its size.
    """

    capturable = True
    images = IMAGE
    family = _MAX
    attrs = {"T": type_attr(REAL, float32), **_MAX_ATTRS}
    float_operations = _one_per_tap


@register
class MaxPoolGrad(_MaxGrad):
    """The gradient of `MaxPool`: each window's `grad` at its first maximum, summed."""

    capturable = True
    images = Images((0, 1, 2))
    family = _MAX
    attrs = {**_MAX_ATTRS, "T": type_attr(REAL, float32)}


@register
class MaxPoolGradGrad(_MaxGradGrad):
    """For every window the element of `grad` at the position of its first maximum."""

    capturable = True
    family = _MAX
    attrs = {**PLAIN_ATTRS, "T": type_attr(REAL)}


@register
class MaxPool3D(_Max):
    """As `MaxPool`, over depth, height and width."""

    capturable = True
    family = _MAX_3D
    attrs = {**_SOLID_ATTRS, "T": type_attr(FLOATING)}


@register
class MaxPool3DGrad(_MaxGrad):
    """As `MaxPoolGrad`, over depth, height and width."""

    capturable = True
    inputs = "orig_input: TInput, orig_output: TInput, grad: T"
    family = _MAX_3D
    attrs = {
        **_SOLID_ATTRS,
        "T": type_attr(FLOATING, float32),
        "TInput": type_attr(FLOATING, float32),
    }


@register
class MaxPool3DGradGrad(_MaxGradGrad):
    """As `MaxPoolGradGrad`, over depth, height and width."""

    capturable = True
    family = _MAX_3D
    attrs = {**_SOLID_ATTRS, "T": type_attr(REAL)}


@register
class AvgPool(_Average):
    """The mean of every window, per channel; padding does not count."""

    capturable = True
    images = IMAGE
    inputs = "value: T"
    family = _AVERAGE
    attrs = {**PLAIN_ATTRS, "T": type_attr(FLOATING)}
    float_operations = _one_per_tap


@register
class AvgPoolGrad(_AverageGrad):
    """The gradient of `AvgPool`: each window's `grad` in equal parts over its elements."""

    capturable = True
    host_inputs = frozenset({"orig_input_shape"})
    images = Images((1,), sizes=0)
    family = _AVERAGE
    attrs = {**PLAIN_ATTRS, "T": type_attr(FLOATING)}


@register
class AvgPool3D(_Average):
    """As `AvgPool`, over depth, height and width."""

    capturable = True
    inputs = "input: T"
    family = _AVERAGE_3D
    attrs = {**_SOLID_ATTRS, "T": type_attr(FLOATING)}


@register
class AvgPool3DGrad(_AverageGrad):
    """As `AvgPoolGrad`, over depth, height and width."""

    capturable = True
    host_inputs = frozenset({"orig_input_shape"})
    family = _AVERAGE_3D
    attrs = {**_SOLID_ATTRS, "T": type_attr(FLOATING)}

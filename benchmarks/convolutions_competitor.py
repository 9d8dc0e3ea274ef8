"""One competitor of `convolutions.py`, as a process: `... NAME THREADS`.

Images are float32 with channels last; PyTorch uses its memory format of that name.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
from competitor import Case, serve, skip

FORWARD, BY_FILTER, BY_IMAGE = "forward", "by filter", "by image"
CONVOLUTION, DEPTHWISE, MAXIMUM, AVERAGE = "convolution", "depthwise", "maximum", "average"
OPS = {
    (CONVOLUTION, FORWARD): "Conv2D",
    (CONVOLUTION, BY_FILTER): "Conv2DBackpropFilter",
    (CONVOLUTION, BY_IMAGE): "Conv2DBackpropInput",
    (DEPTHWISE, FORWARD): "DepthwiseConv2dNative",
    (DEPTHWISE, BY_FILTER): "DepthwiseConv2dNativeBackpropFilter",
    (DEPTHWISE, BY_IMAGE): "DepthwiseConv2dNativeBackpropInput",
    (MAXIMUM, FORWARD): "MaxPool",
    (MAXIMUM, BY_IMAGE): "MaxPoolGrad",
    (AVERAGE, FORWARD): "AvgPool",
    (AVERAGE, BY_IMAGE): "AvgPoolGrad",
}
"""TensorFlow's names, which are also ours."""


@dataclass(frozen=True, slots=True)
class Layer:
    """A layer over a batch of images.

    Attributes:
        kind: The operation.
        images: [batch, height, width, channels].
        size: The window size, in both directions.
        outputs: The number of output channels of a convolution.
        stride: The stride, in both directions.
        padding: `SAME`, here always equal on both sides, or `VALID`.
    """

    kind: str
    images: tuple[int, int, int, int]
    size: int
    outputs: int = 0
    stride: int = 1
    padding: str = "SAME"

    @property
    def is_pooling(self) -> bool:
        """Whether it is a pooling, without filters."""
        return self.kind in (MAXIMUM, AVERAGE)

    @property
    def filters(self) -> tuple[int, int, int, int]:
        """The shape of the filters."""
        last = 1 if self.kind == DEPTHWISE else self.outputs
        return (self.size, self.size, self.images[3], last)

    @property
    def result(self) -> tuple[int, int, int, int]:
        """The shape of the result."""
        batch, height, width, channels = self.images
        missing = 0 if self.padding == "SAME" else self.size - 1
        rows, columns = (-(-(dim - missing) // self.stride) for dim in (height, width))
        outputs = self.outputs if self.kind == CONVOLUTION else channels
        return (batch, rows, columns, outputs)

    @property
    def operations(self) -> int:
        """Multiplications and additions of each direction, or elements that pooling reads."""
        if self.is_pooling:
            return int(np.prod(self.images))
        depth = self.images[3] if self.kind == CONVOLUTION else 1
        return 2 * int(np.prod(self.result)) * self.size**2 * depth

    def draw(self) -> tuple[Any, Any, Any]:
        """Random images, filters and gradients of the result."""
        random = np.random.default_rng(7)
        shapes = (self.images, self.filters, self.result)
        images, filters, dy = (random.standard_normal(shape, np.float32) for shape in shapes)
        return images, filters, dy


LAYERS = {
    "CNN's first, 28×28×1, 5×5×32": Layer(CONVOLUTION, (64, 28, 28, 1), 5, 32),
    "CNN's second, 14×14×32, 5×5×64": Layer(CONVOLUTION, (64, 14, 14, 32), 5, 64),
    "56×56×64, 3×3×64": Layer(CONVOLUTION, (8, 56, 56, 64), 3, 64),
    "28×28×128, 3×3×128": Layer(CONVOLUTION, (8, 28, 28, 128), 3, 128),
    "14×14×256, 3×3×256": Layer(CONVOLUTION, (8, 14, 14, 256), 3, 256),
    "7×7×512, 3×3×512": Layer(CONVOLUTION, (8, 7, 7, 512), 3, 512),
    "56×56×64, 1×1×256": Layer(CONVOLUTION, (8, 56, 56, 64), 1, 256),
    "57×57×128, 3×3×128, stride 2": Layer(CONVOLUTION, (8, 57, 57, 128), 3, 128, 2, "VALID"),
    "229×229×3, 7×7×64, stride 2": Layer(CONVOLUTION, (4, 229, 229, 3), 7, 64, 2, "VALID"),
    "56×56×128, depthwise 3×3": Layer(DEPTHWISE, (8, 56, 56, 128), 3),
    "113×113×64, depthwise 3×3, stride 2": Layer(DEPTHWISE, (8, 113, 113, 64), 3, 0, 2, "VALID"),
    "28×28×32, maximum 2×2": Layer(MAXIMUM, (64, 28, 28, 32), 2, 0, 2),
    "14×14×64, maximum 2×2": Layer(MAXIMUM, (64, 14, 14, 64), 2, 0, 2),
    "113×113×64, maximum 3×3, stride 2": Layer(MAXIMUM, (8, 113, 113, 64), 3, 0, 2, "VALID"),
    "28×28×32, average 2×2": Layer(AVERAGE, (64, 28, 28, 32), 2, 0, 2),
}
CASES = {
    f"{name}: {direction}": (layer, direction)
    for name, layer in LAYERS.items()
    for direction in (FORWARD, BY_FILTER, BY_IMAGE)
    if (layer.kind, direction) in OPS
}
PEAK = "product of matrices, cube of 1024"
PEAK_SIZE = 1024

Run = tuple[Callable[[], Any], Callable[[], Any]]
"""Returns the function that computes it, and one that returns the result with channels last."""


def main() -> None:
    name, threads = sys.argv[1], int(sys.argv[2])
    makers = {"sparkflow": _sparkflow, "TensorFlow": _tensorflow, "torch": _torch}
    module = name.lower()
    if importlib.util.find_spec(module) is None:
        skip(f"{module} is not installed")
        return
    run, multiply = makers[name](threads)

    def make(case: str) -> Case:
        if case == PEAK:
            square = np.random.default_rng(7).random((PEAK_SIZE, PEAK_SIZE), np.float32)
            return Case(multiply(square), [square[0] @ square[:, 0]])
        call, result = run(*CASES[case])
        call()
        found = np.asarray(result())
        corners = (found[i, j, k] for i in (0, -1) for j in (0, -1) for k in (0, -1))
        return Case(call, [float(np.abs(corner).sum()) for corner in corners])

    serve(make, f"{name} {getattr(sys.modules[module], '__version__', '')}".strip())


def _inputs(layer: Layer, direction: str, forward: Callable[[], Any]) -> list[Any]:
    """The arguments of the op."""
    images, filters, dy = layer.draw()
    if direction == FORWARD:
        return [images] if layer.is_pooling else [images, filters]
    if layer.kind == MAXIMUM:
        return [images, forward(), dy]
    if layer.kind == AVERAGE:
        return [np.array(layer.images, np.int32), dy]
    if direction == BY_FILTER:
        return [images, np.array(layer.filters, np.int32), dy]
    return [np.array(layer.images, np.int32), filters, dy]


def _attributes(layer: Layer) -> dict[str, Any]:
    stride, size = layer.stride, layer.size
    found: dict[str, Any] = {"strides": [1, stride, stride, 1], "padding": layer.padding}
    return {**found, "ksize": [1, size, size, 1]} if layer.is_pooling else found


def _sparkflow(threads: int) -> tuple[Callable[..., Run], Callable[[Any], Any]]:
    """The kernels of ops, which write into a given array."""
    import sparkflow  # noqa: F401  (named as the software)
    import sparkflow_runtime.ops.all  # noqa: F401  (fills the registry)
    from sparkflow_runtime.codegen.machine import threads as pools
    from sparkflow_runtime.dtypes import float32
    from sparkflow_runtime.ops import registry
    from sparkflow_runtime.ops.kernel import KernelContext
    from sparkflow_runtime.ops.native.matrix_products import bind_product_out
    from sparkflow_runtime.resources.container import Resources

    pools.set_count(threads)
    context = KernelContext(np, "CPU", "/device:CPU:0", Resources(), Resources())

    def run(layer: Layer, direction: str) -> Run:
        op = registry.lookup(OPS[layer.kind, direction])
        attrs = {name: attr.default for name, attr in op.attrs.items()}
        attrs = {**attrs, **_attributes(layer), "T": float32}
        node = SimpleNamespace(name=op.op_type, op=op.op_type, attrs=attrs)

        def forward() -> Any:
            return run(layer, FORWARD)[1]()

        inputs = _inputs(layer, direction, forward)
        out = op.bind(node, context)(*inputs)
        fill = op.bind_out(node, context)
        assert fill is not None
        return lambda: fill(*inputs, out), lambda: out

    def multiply(square: Any) -> Any:
        fill, out = bind_product_out(float32, None, None), np.empty_like(square)
        return lambda: fill(square, square, out)

    return run, multiply


def _tensorflow(threads: int) -> tuple[Callable[..., Run], Callable[[Any], Any]]:
    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(threads)
    tf.config.threading.set_inter_op_parallelism_threads(threads)

    def run(layer: Layer, direction: str) -> Run:
        kernel = getattr(tf.raw_ops, OPS[layer.kind, direction])

        def forward() -> Any:
            return run(layer, FORWARD)[1]()

        names = {
            FORWARD: ("value",) if layer.kind == AVERAGE else ("input", "filter"),
            BY_FILTER: ("input", "filter_sizes", "out_backprop"),
            BY_IMAGE: ("input_sizes", "filter", "out_backprop"),
        }[direction]
        if direction == BY_IMAGE and layer.is_pooling:
            names = ("orig_input", "orig_output", "grad")
            names = names if layer.kind == MAXIMUM else ("orig_input_shape", "grad")
        inputs = [tf.constant(each) for each in _inputs(layer, direction, forward)]
        arguments = {**dict(zip(names, inputs, strict=False)), **_attributes(layer)}

        def call() -> Any:
            return kernel(**arguments)

        return call, lambda: call().numpy()

    def multiply(square: Any) -> Any:
        given = tf.constant(square)
        return lambda: tf.matmul(given, given)

    return run, multiply


def _torch(threads: int) -> tuple[Callable[..., Run], Callable[[Any], Any]]:
    import torch

    torch.set_num_threads(threads)
    torch.set_grad_enabled(False)
    backward = torch.ops.aten.convolution_backward
    maxima = torch.ops.aten.max_pool2d_with_indices

    def run(layer: Layer, direction: str) -> Run:
        images, filters, dy = layer.draw()
        before = (layer.size - 1) // 2 if layer.padding == "SAME" and not layer.is_pooling else 0
        stride, padding, size = [layer.stride] * 2, [before] * 2, [layer.size] * 2
        x, gradient = _channels_last(torch, images), _channels_last(torch, dy)
        order = (2, 3, 0, 1) if layer.kind == DEPTHWISE else (3, 2, 0, 1)
        groups = layer.images[3] if layer.kind == DEPTHWISE else 1
        w = torch.from_numpy(np.ascontiguousarray(filters.transpose(order)))
        if layer.kind == CONVOLUTION:
            w = w.contiguous(memory_format=torch.channels_last)

        def call() -> Any:
            if layer.kind == MAXIMUM and direction == FORWARD:
                return torch.nn.functional.max_pool2d(x, size, stride)
            if layer.kind == AVERAGE and direction == FORWARD:
                return torch.nn.functional.avg_pool2d(x, size, stride)
            if layer.kind == AVERAGE:
                return torch.ops.aten.avg_pool2d_backward(
                    gradient, x, size, stride, [0, 0], False, True, None
                )
            if layer.kind == MAXIMUM:
                return torch.ops.aten.max_pool2d_with_indices_backward(
                    gradient, x, size, stride, [0, 0], [1, 1], False, places
                )
            if direction == FORWARD:
                return torch.nn.functional.conv2d(x, w, None, stride, padding, 1, groups)
            by_image = direction == BY_IMAGE
            mask = [by_image, not by_image, False]
            found = backward(
                gradient, x, w, None, stride, padding, [1, 1], False, [0, 0], groups, mask
            )
            return found[0 if by_image else 1]

        places = maxima(x, size, stride)[1] if layer.kind == MAXIMUM else None
        if direction == BY_FILTER:
            inverse = np.argsort(order)
            return call, lambda: call().numpy().transpose(*inverse)
        return call, lambda: call().permute(0, 2, 3, 1).numpy()

    def multiply(square: Any) -> Any:
        given, out = torch.from_numpy(square), torch.empty(square.shape)
        return lambda: torch.mm(given, given, out=out)

    return run, multiply


def _channels_last(torch: Any, images: Any) -> Any:
    return torch.from_numpy(images).permute(0, 3, 1, 2)


if __name__ == "__main__":
    main()

"""Layers: activations, bias, softmax, convolutions, pooling, normalisation.

TensorFlow puts channels last by default, ONNX always first: what differs is transposed before and
after, and runtimes take pairs of transpositions out again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from sparkflow.export.onnx.table import Node, converts


@converts("Relu6")
def _relu6(node: Node) -> Sequence[str]:
    return [
        node.emit(
            "Clip",
            [node.inputs[0], node.constant(0, node.dtype()), node.constant(6, node.dtype())],
        )
    ]


@converts("LeakyRelu")
def _leaky_relu(node: Node) -> Sequence[str]:
    return [node.emit("LeakyRelu", alpha=float(node.attr("alpha")))]


@converts("Softmax", "LogSoftmax")
def _softmax(node: Node) -> Sequence[str]:
    return [node.emit(node.type, axis=-1)]


@converts("BiasAdd", "BiasAddV1")
def _bias_add(node: Node) -> Sequence[str]:
    x, bias = node.inputs
    if node.type == "BiasAdd" and node.attr("data_format") == "NCHW":
        rank = len(node.shape(0))
        bias = node.emit("Reshape", [bias, node.integers(-1, *[1] * (rank - 2))])
    return [node.emit("Add", [x, bias])]


@converts("L2Loss")
def _l2_loss(node: Node) -> Sequence[str]:
    squares = node.emit("ReduceSumSquare", keepdims=0)
    return [node.emit("Mul", [squares, node.constant(0.5, node.dtype())])]


@converts("Conv2D", "Conv3D")
def _convolution(node: Node) -> Sequence[str]:
    rank = len(node.shape(1))
    kernel = node.emit("Transpose", [node.inputs[1]], perm=[rank - 1, rank - 2, *range(rank - 2)])
    return [_convolved(node, kernel, node.shape(1)[:-2], group=1)]


@converts("DepthwiseConv2dNative")
def _depthwise(node: Node) -> Sequence[str]:
    height, width, channels, multiplier = node.shape(1)
    if channels is None or multiplier is None:
        raise node.refusal("the channels of its filter must be known")
    swapped = node.emit("Transpose", [node.inputs[1]], perm=[2, 3, 0, 1])
    shape = node.integers(channels * multiplier, 1, height or 0, width or 0)
    kernel = node.emit("Reshape", [swapped, shape])
    return [_convolved(node, kernel, [height, width], group=channels)]


def _convolved(node: Node, kernel: str, sizes: list[int | None], group: int) -> str:
    strides, dilations = _spatial(node, "strides"), _spatial(node, "dilations")
    given = _spatial_sizes(node, node.shape(0))
    spans = [None if k is None else (k - 1) * d + 1 for k, d in zip(sizes, dilations, strict=True)]
    return _with_channels_first(
        node,
        lambda x: node.emit(
            "Conv",
            [x, kernel],
            strides=strides,
            dilations=dilations,
            group=group,
            **_padding(node, given, spans, strides),
        ),
    )


@converts("Conv2DBackpropInput")
def _transposed_convolution(node: Node) -> Sequence[str]:
    strides = _spatial(node, "strides")
    if set(_spatial(node, "dilations")) != {1}:
        raise node.refusal("a transposed convolution with dilations")
    kernel = node.emit("Transpose", [node.inputs[1]], perm=[3, 2, 0, 1])
    # As the gradient of a convolution whose input has the size that is asked for.
    made = _spatial_sizes(node, node.output_shape())
    given = _spatial_sizes(node, node.shape(2))
    begins, ends, beyond = [], [], []
    sizes = zip(made, given, node.shape(1)[:2], strides, strict=True)
    for out, size, span, stride in sizes:
        if span is None:
            raise node.refusal("the height and width of its filter must be known")
        if out is None or size is None:
            # Computed from the batch, as layers do: then it is the size that they ask for, size *
            # stride, or more by what a filter overlaps without padding.
            total = span - stride if node.attr("padding") == "SAME" else min(span - stride, 0)
        else:
            total = (size - 1) * stride + span - out
        begins.append(max(total, 0) // 2)
        ends.append(max(total, 0) - max(total, 0) // 2)
        beyond.append(max(-total, 0))
    return [
        _with_channels_first(
            node,
            lambda x: node.emit(
                "ConvTranspose",
                [x, kernel],
                strides=strides,
                pads=[*begins, *ends],
                output_padding=beyond,
            ),
            index=2,
        )
    ]


@converts("MaxPool", "MaxPool3D", "AvgPool", "AvgPool3D")
def _pool(node: Node) -> Sequence[str]:
    sizes, strides = _spatial(node, "ksize"), _spatial(node, "strides")
    attributes = _padding(node, _spatial_sizes(node, node.shape()), list(sizes), strides)
    is_max = node.type.startswith("Max")
    if not is_max:
        attributes["count_include_pad"] = 0
    return [
        _with_channels_first(
            node,
            lambda x: node.emit(
                "MaxPool" if is_max else "AveragePool",
                [x],
                kernel_shape=sizes,
                strides=strides,
                **attributes,
            ),
        )
    ]


@converts("FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3")
def _batch_norm(node: Node) -> Sequence[str]:
    if node.attr("is_training"):
        raise node.refusal(
            "it normalises by the batch (is_training=True); in mode PREDICT, batch normalisation "
            "must use the averages of training"
        )
    _, *statistics = node.inputs
    return [
        _with_channels_first(
            node,
            lambda x: node.emit(
                "BatchNormalization", [x, *statistics], epsilon=float(node.attr("epsilon"))
            ),
        )
    ]


@converts("LRN")
def _local_response(node: Node) -> Sequence[str]:
    size = 2 * int(node.attr("depth_radius")) + 1
    return [
        _with_channels_first(
            node,
            lambda x: node.emit(
                "LRN",
                [x],
                size=size,
                alpha=float(node.attr("alpha")) * size,
                beta=float(node.attr("beta")),
                bias=float(node.attr("bias")),
            ),
        )
    ]


def _is_first(node: Node) -> bool:
    try:
        return str(node.attr("data_format")).startswith("NC")
    except ValueError:  # LRN has no choice
        return False


def _spatial(node: Node, name: str) -> list[int]:
    """The part of an attribute that is about height and width."""
    values = [int(value) for value in node.attr(name)]
    return values[2:] if _is_first(node) else values[1:-1]


def _spatial_sizes(node: Node, shape: list[int | None]) -> list[int | None]:
    return shape[2:] if _is_first(node) else shape[1:-1]


def _with_channels_first(node: Node, make: Callable[[str], str], index: int = 0) -> str:
    """What `make` makes of an input whose channels come first, in the node's own order."""
    if _is_first(node):
        return make(node.inputs[index])
    rank = len(node.shape(index))
    first = node.emit("Transpose", [node.inputs[index]], perm=[0, rank - 1, *range(1, rank - 1)])
    return node.emit("Transpose", [make(first)], perm=[0, *range(2, rank), 1])


def _padding(
    node: Node, given: list[int | None], spans: list[int | None], strides: list[int]
) -> dict[str, object]:
    padding = node.attr("padding")
    if padding == "VALID":
        return {"auto_pad": "VALID"}
    if padding == "EXPLICIT":
        pairs = np.reshape(node.attr("explicit_paddings"), (-1, 2))
        pairs = pairs[2:] if _is_first(node) else pairs[1:-1]
        return {"pads": [int(value) for value in pairs.T.reshape(-1)]}
    begins, ends = [], []
    for size, span, stride in zip(given, spans, strides, strict=True):
        if size is None or span is None:
            return {"auto_pad": "SAME_UPPER"}  # the runtime computes the same
        total = max((-(-size // stride) - 1) * stride + span - size, 0)
        begins.append(total // 2)
        ends.append(total - total // 2)
    return {"pads": begins + ends}

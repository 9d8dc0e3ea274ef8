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
    groups = _groups(node, _channels(node, node.shape(0)))
    return [_convolved(node, kernel, node.shape(1)[:-2], groups)]


def _groups(node: Node, channels: int | None) -> int:
    """Of how many groups of channels each is convolved by filters of its own."""
    of_one = node.shape(1)[-2]
    if channels is None or of_one is None:
        raise node.refusal("the channels of what is convolved, and of its filter, must be known")
    return channels // of_one


@converts("DepthwiseConv2dNative")
def _depthwise(node: Node) -> Sequence[str]:
    height, width, channels, multiplier = node.shape(1)
    if channels is None or multiplier is None:
        raise node.refusal("the channels of its filter must be known")
    swapped = node.emit("Transpose", [node.inputs[1]], perm=[2, 3, 0, 1])
    shape = node.integers(channels * multiplier, 1, height or 0, width or 0)
    kernel = node.emit("Reshape", [swapped, shape])
    return [_convolved(node, kernel, [height, width], channels)]


def _convolved(node: Node, kernel: str, sizes: list[int | None], groups: int) -> str:
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
            group=groups,
            **_padding(node, given, spans, strides, dilations),
        ),
    )


@converts("Conv2DBackpropInput")
def _transposed_convolution(node: Node) -> Sequence[str]:
    strides = _spatial(node, "strides")
    if set(_spatial(node, "dilations")) != {1}:
        raise node.refusal("a transposed convolution with dilations")
    kernel = node.emit("Transpose", [node.inputs[1]], perm=[3, 2, 0, 1])
    groups = _groups(node, _channels(node, node.output_shape()))
    # As the gradient of a convolution whose input has the size that is asked for.
    made = _spatial_sizes(node, node.output_shape())
    given = _spatial_sizes(node, node.shape(2))
    begins, ends, beyond = [], [], []
    computed = []
    for axis, (out, size, span) in enumerate(zip(made, given, node.shape(1)[:2], strict=True)):
        if span is None:
            raise node.refusal("the height and width of its filter must be known")
        stride = strides[axis]
        if out is None or size is None:  # all that it can be, of which a part is taken
            computed.append((axis, span, stride))
            begin, total = 0, 1 - stride
        else:
            total = (size - 1) * stride + span - out
            begin = _begin_of_padding(node, axis, total)
        begins.append(begin)
        ends.append(max(total - begin, 0))
        beyond.append(max(begin - total, 0))

    def make(x: str) -> str:
        found = node.emit(
            "ConvTranspose",
            [x, kernel],
            strides=strides,
            pads=[*begins, *ends],
            output_padding=beyond,
            group=groups,
        )
        for axis, span, stride in computed:
            found = _part_of_transposed(node, found, x, axis, span, stride)
        return found

    return [_with_channels_first(node, make, index=2)]


def _begin_of_padding(node: Node, axis: int, total: int) -> int:
    """How much of the padding that is needed in all comes before height or width."""
    if node.attr("padding") == "EXPLICIT":
        return _explicit_padding(node)[axis][0]
    return max(total, 0) // 2 if node.attr("padding") == "SAME" else 0


def _part_of_transposed(node: Node, found: str, x: str, axis: int, span: int, stride: int) -> str:
    """The part of a whole transposed convolution of `x` that has the size that is asked for."""
    place = node.integers(axis + (2 if _is_first(node) else 1))
    out = node.emit("Gather", [node.as_int64(0), place], axis=0)
    if node.attr("padding") == "SAME":
        size = node.emit("Shape", [x], start=axis + 2, end=axis + 3)
        steps = node.emit("Mul", [size, node.integers(stride)])
        total = node.emit("Sub", [node.emit("Add", [steps, node.integers(span - stride)]), out])
        total = node.emit("Max", [total, node.integers(0)])
        begin = node.emit("Div", [total, node.integers(2)])
    else:
        begin = node.integers(_begin_of_padding(node, axis, 0))
    end = node.emit("Add", [begin, out])
    return node.emit("Slice", [found, begin, end, node.integers(axis + 2)])


@converts("MaxPool", "MaxPool3D", "AvgPool", "AvgPool3D")
def _pool(node: Node) -> Sequence[str]:
    if int(np.prod(node.attr("ksize"))) != int(np.prod(_spatial(node, "ksize"))):
        raise node.refusal(f"windows over batch or channels (ksize={list(node.attr('ksize'))})")
    sizes, strides = _spatial(node, "ksize"), _spatial(node, "strides")
    given = _spatial_sizes(node, node.shape())
    attributes = _padding(node, given, list(sizes), strides, [1] * len(sizes))
    # Pixels at the end that no window takes: onnxruntime refuses to leave them out by itself.
    gaps = [
        (axis, sizes[axis], strides[axis])
        for axis in range(len(sizes))
        if attributes.get("auto_pad") == "SAME_UPPER" and sizes[axis] < strides[axis]
    ]
    is_max = node.type.startswith("Max")
    if not is_max:
        attributes["count_include_pad"] = 0

    def make(x: str) -> str:
        for axis, size, stride in gaps:
            given = node.emit("Shape", [x], start=axis + 2, end=axis + 3)
            last = node.emit("Sub", [given, node.integers(1)])
            count = node.emit("Div", [last, node.integers(stride)])  # of windows before the last
            end = node.emit("Mul", [count, node.integers(stride)])
            end = node.emit("Add", [end, node.integers(size)])
            x = node.emit("Slice", [x, node.integers(0), end, node.integers(axis + 2)])
        return node.emit(
            "MaxPool" if is_max else "AveragePool",
            [x],
            kernel_shape=sizes,
            strides=strides,
            **attributes,
        )

    return [_with_channels_first(node, make)]


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


def _channels(node: Node, shape: list[int | None]) -> int | None:
    return shape[1 if _is_first(node) else -1]


def _explicit_padding(node: Node) -> list[list[int]]:
    """Before and after height and width."""
    pairs = np.reshape(node.attr("explicit_paddings"), (-1, 2))
    found: list[list[int]] = (pairs[2:] if _is_first(node) else pairs[1:-1]).tolist()
    return found


def _padding(
    node: Node,
    given: list[int | None],
    spans: list[int | None],
    strides: list[int],
    dilations: list[int],
) -> dict[str, object]:
    padding = node.attr("padding")
    if padding == "VALID":
        return {"auto_pad": "VALID"}
    if padding == "EXPLICIT":
        pairs = _explicit_padding(node)
        return {"pads": [pair[end] for end in (0, 1) for pair in pairs]}
    begins, ends = [], []
    for size, span, stride in zip(given, spans, strides, strict=True):
        if span is None or (size is None and 1 not in (span, stride)):
            if set(dilations) != {1}:  # onnxruntime refuses both together
                raise node.refusal(
                    "dilations, strides and the padding SAME of an unknown height or width; "
                    "declare the size, or pad before it (tf.pad) and use VALID"
                )
            return {"auto_pad": "SAME_UPPER"}  # the runtime computes the same
        # With a stride of 1 the size makes no difference, and a window of 1 needs no padding.
        total = max((-(-(size or 1) // stride) - 1) * stride + span - (size or 1), 0)
        begins.append(total // 2)
        ends.append(total - total // 2)
    return {"pads": begins + ends}

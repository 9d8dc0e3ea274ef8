"""Convolutions and poolings in onnxruntime: padding, groups, sizes known only at run time."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import sparkflow as tf
from sparkflow.export.onnx.convert import to_onnx
from sparkflow_runtime.errors import UnimplementedError
from tests.sparkflow.export.onnx.comparison import Build, compare, model_of

RANDOM = np.random.default_rng(0)
EXPLICIT = [[0, 0], [2, 0], [1, 1], [0, 0]]
# Of each: window, stride, padding.
LAYERS = [
    ((3, 3), 2, "SAME"), ((2, 3), 3, "SAME"), ((1, 1), 2, "SAME"), ((4, 2), 1, "SAME"),
    ((3, 3), 2, "VALID"), ((2, 2), 3, "VALID"), ((4, 3), 1, "VALID"),
    ((3, 3), 2, EXPLICIT), ((3, 2), 3, EXPLICIT), ((4, 3), 1, EXPLICIT),
]  # fmt: skip
Layer = tuple[tuple[int, int], int, Any]
layers = pytest.mark.parametrize("layer", LAYERS, ids=str)
unknown = pytest.mark.parametrize("is_unknown", [False, True])


def _images(*shape: int) -> Any:
    return RANDOM.normal(size=shape).astype(np.float32)


def _with_size(x: Any, is_unknown: bool, *, width: int | None = None) -> Any:
    channels = x.shape.as_list()[-1]
    return tf.placeholder_with_default(x, [None, None, width, channels]) if is_unknown else x


def _padding(padding: Any) -> dict[str, Any]:
    if isinstance(padding, str):
        return {"padding": padding}
    return {"padding": "EXPLICIT", "explicit_paddings": np.ravel(padding).tolist()}


@layers
@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("known", ["all", "width", "nothing"])
def test_transposed_convolutions(layer: Layer, groups: int, known: str) -> None:
    window, stride, padding = layer
    size = 9, 8  # of what is made: the gradient of a convolution has the size of its input
    weights = _images(*window, 4 // groups, 6)
    strides = [1, stride, stride, 1]
    forward = tf.Graph()
    with forward.as_default():
        images = tf.zeros([1, *size, 4])
        convolved = tf.nn.conv2d(images, weights, strides, padding)
        height, width, _ = convolved.shape.as_list()[1:]

    def build(x: Any) -> Any:
        wanted: Any = tf.stack([tf.shape(x)[0], *size, 4])
        if known != "all":  # as of another tensor, which a U-Net makes larger
            last = size[1] if known == "width" else None
            wanted = tf.shape(
                tf.placeholder_with_default(tf.zeros([2, *size, 4]), [None, None, last, 4])
            )
        return tf.raw_ops.Conv2DBackpropInput(
            input_sizes=wanted,
            filter=tf.constant(weights),
            out_backprop=_with_size(x, known == "nothing"),
            strides=strides,
            **_padding(padding),
        )

    compare(build, _images(2, height, width, 6), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("padding", ["same", "valid"])
def test_transposed_layers_of_unknown_sizes(padding: str) -> None:
    def build(x: Any) -> list[Any]:
        x = _with_size(x, True)
        return [
            tf.layers.conv2d_transpose(x, 2, window, stride, padding)
            for window in (2, 3, 4)
            for stride in (1, 2, 3)
        ]

    compare(build, _images(2, 4, 5, 3), rtol=1e-4, atol=1e-5)


@layers
@unknown
@pytest.mark.parametrize("kind", ["all", "groups", "depthwise"])
def test_convolutions(layer: Layer, kind: str, is_unknown: bool) -> None:
    window, stride, padding = layer
    strides = [1, stride, stride, 1]

    def build(x: Any) -> Any:
        x = _with_size(x, is_unknown)
        if kind == "depthwise":
            return tf.nn.depthwise_conv2d(x, _images(*window, 4, 2), strides, padding)
        return tf.nn.conv2d(x, _images(*window, 2 if kind == "groups" else 4, 6), strides, padding)

    compare(build, _images(2, 7, 8, 4), rtol=1e-4, atol=1e-5)


@unknown
@pytest.mark.parametrize("padding", ["SAME", "VALID", EXPLICIT], ids=str)
def test_dilated_convolutions(padding: Any, is_unknown: bool) -> None:
    def build(x: Any) -> list[Any]:
        x = _with_size(x, is_unknown)
        return [
            tf.nn.conv2d(x, _images(3, 2, 4, 5), [1] * 4, padding, dilations=[1, 2, 3, 1]),
            tf.nn.depthwise_conv2d(x, _images(3, 2, 4, 1), [1] * 4, padding, rate=[2, 2]),
        ]

    compare(build, _images(2, 9, 8, 4), rtol=1e-4, atol=1e-5)


@layers
@unknown
def test_poolings(layer: Layer, is_unknown: bool) -> None:
    window, stride, padding = layer
    if not isinstance(padding, str):
        padding = [
            [min(each, size - 1) for each in pair] if size else pair
            for pair, size in zip(padding, [0, *window, 0], strict=True)
        ]

    def build(x: Any) -> list[Any]:
        x = _with_size(x, is_unknown)
        kinds: Sequence[Any] = (tf.nn.max_pool, tf.nn.avg_pool)
        return [
            pool(x, [1, *window, 1], [1, stride, stride, 1], padding)
            for pool in (kinds if isinstance(padding, str) else kinds[:1])
        ]

    compare(build, _images(2, 7, 8, 4), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("size", range(1, 10))
def test_windows_with_gaps(size: int) -> None:
    def build(x: Any) -> list[Any]:
        return [
            pool(_with_size(x, True, width=width), [1, *window, 1], [1, 4, 3, 1], "SAME")
            for pool in (tf.nn.max_pool, tf.nn.avg_pool)
            for window in ((2, 2), (3, 1), (2, 3))
            for width in (None, 6)
        ]

    compare(build, _images(1, size, 6, 2), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("build", "text"),
    [
        (
            lambda x: tf.nn.max_pool(x, [1, 1, 1, 2], [1, 1, 1, 2], "VALID", name="deep"),
            r"The node 'deep' \(op MaxPool\) .*: windows over batch or channels",
        ),
        (
            lambda x: tf.raw_ops.Conv2D(
                input=_with_size(x, True), filter=np.ones((2, 2, 4, 1), np.float32),
                strides=[1, 2, 2, 1], dilations=[1, 2, 2, 1], padding="SAME", name="gaps",
            ),
            r"The node 'gaps' \(op Conv2D\) .*SAME of an unknown height or width; declare",
        ),
        (
            lambda x: tf.nn.conv2d(
                tf.placeholder_with_default(x, [None] * 4), np.ones((1, 1, 4, 2), np.float32),
                [1] * 4, "SAME", name="open",
            ),
            r"The node 'open' \(op Conv2D\) .*: the channels .* must be known",
        ),
    ],
)  # fmt: skip
def test_what_cannot_be_converted_is_named(build: Build, text: str) -> None:
    with pytest.raises(UnimplementedError, match=text):
        to_onnx(model_of((7, 8, 4), "float32", build))

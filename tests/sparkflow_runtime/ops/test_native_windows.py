"""Convolution and pooling nodes: machine code against numpy, in both data formats."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import sparkflow_runtime.ops.all  # noqa: F401 - fills the registry
from sparkflow_runtime import dtypes
from sparkflow_runtime.codegen.machine import native
from sparkflow_runtime.errors import InvalidArgumentError
from sparkflow_runtime.ops import registry
from sparkflow_runtime.ops.kernel import KernelContext
from sparkflow_runtime.ops.kernels import by_shape
from sparkflow_runtime.resources.container import Resources

pytestmark = pytest.mark.skipif(not native.available(), reason="needs llvmlite")

Array = np.ndarray[Any, Any]
Node = tuple[str, dict[str, Any], tuple[Array, ...]]

SMALL = {"images": (2, 7, 9, 5), "filters": (3, 2, 5, 6)}
POINTWISE = {"images": (2, 4, 3, 8), "filters": (1, 1, 8, 5)}
ONE_CHANNEL = {"images": (2, 6, 6, 1), "filters": (3, 3, 1, 4)}
LARGE = {"images": (1, 3, 3, 300), "filters": (3, 3, 300, 400)}  # one gradient is computed by numpy
CONVOLUTIONS = [
    (SMALL, [1, 1], "SAME"),
    (SMALL, [2, 3], "VALID"),
    (POINTWISE, [1, 1], "SAME"),
    (POINTWISE, [2, 2], "SAME"),
    (ONE_CHANNEL, [1, 1], "SAME"),
    (LARGE, [1, 1], "SAME"),
]
FAMILIES = [
    ("Conv2D", "Conv2DBackpropInput", "Conv2DBackpropFilter"),
    (
        "DepthwiseConv2dNative",
        "DepthwiseConv2dNativeBackpropInput",
        "DepthwiseConv2dNativeBackpropFilter",
    ),
]


def _node(op: str, attrs: dict[str, Any], kind: Any) -> Any:
    full = {name: attr.default for name, attr in registry.lookup(op).attrs.items()}
    return SimpleNamespace(name="n", op=op, attrs={**full, **attrs, "T": dtypes.as_dtype(kind)})


def _context() -> KernelContext:
    return KernelContext(np, "CPU", "/device:CPU:0", Resources(), Resources())


def _plain(node: Any, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Array]:
    """Returns the kernel without a code generator."""
    with monkeypatch.context() as patch:
        patch.setattr(native, "available", lambda: False)
        op = registry.lookup(node.op)
        assert op.bind_out(node, _context()) is None
        kernel: Callable[..., Array] = op.bind(node, _context())
        return kernel


def _check(case: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    name, attrs, inputs = case
    kind = inputs[-1].dtype
    node = _node(name, attrs, kind)
    expected = _plain(node, monkeypatch)(*inputs)
    op = registry.lookup(name)
    found = op.bind(node, _context())(*inputs)
    filling = op.bind_out(node, _context())
    assert filling is not None
    filled = np.full(expected.shape, np.nan, expected.dtype)
    filling(*inputs, filled)
    tolerance = 1e-12 if kind == np.float64 else 1e-5
    scale = np.abs(expected).max(initial=1)
    np.testing.assert_allclose(found, expected, rtol=0, atol=tolerance * scale)
    np.testing.assert_array_equal(filled, found)
    assert found.dtype == expected.dtype


def _in_format(array: Array, data_format: str) -> Array:
    """Converts an array with channels last to the data format, not contiguous."""
    wide = np.repeat(array, 2, axis=0)[::2]
    return wide if data_format == "NHWC" else wide.transpose(0, 3, 1, 2)


def _sizes(*dims: int) -> Array:
    return np.array(dims, np.int32)


@pytest.mark.parametrize("data_format", ["NHWC", "NCHW"])
@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family[0])
@pytest.mark.parametrize(("shapes", "strides", "padding"), CONVOLUTIONS)
def test_convolutions(
    shapes: dict[str, tuple[int, ...]],
    strides: list[int],
    padding: str,
    family: tuple[str, str, str],
    kind: Any,
    data_format: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    generator = np.random.default_rng(5)
    depthwise = family[0].startswith("Depthwise")
    shape, filters_shape = shapes["images"], shapes["filters"]
    multiplier = 2 if strides == [2, 3] else 1
    if depthwise:
        filters_shape = (*filters_shape[:3], multiplier)
    images: Array = generator.standard_normal(shape).astype(kind)
    filters = generator.standard_normal(filters_shape).astype(kind)
    spatial = [1, *strides, 1] if data_format == "NHWC" else [1, 1, *strides]
    attrs = {"strides": spatial, "padding": padding, "data_format": data_format}
    images = _in_format(images, data_format)
    plain = _plain(_node(family[0], attrs, kind), monkeypatch)
    dy_shape = plain(images, filters).shape
    dy = np.asarray(generator.standard_normal(dy_shape), kind)
    _check((family[0], attrs, (images, filters)), monkeypatch)
    _check((family[1], attrs, (_sizes(*images.shape), filters, dy)), monkeypatch)
    _check((family[2], attrs, (images, _sizes(*filters_shape), dy)), monkeypatch)


@pytest.mark.parametrize("data_format", ["NHWC", "NCHW"])
@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize(("size", "stride"), [(2, 2), (3, 2)])
def test_pooling(
    size: int, stride: int, kind: Any, data_format: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    generator = np.random.default_rng(6)
    images = _in_format(generator.standard_normal((3, 7, 8, 5)).astype(kind), data_format)

    def spatial(number: int) -> list[int]:
        return [1, number, number, 1] if data_format == "NHWC" else [1, 1, number, number]

    attrs = {
        "ksize": spatial(size),
        "strides": spatial(stride),
        "padding": "SAME",
        "data_format": data_format,
    }
    maxima = _plain(_node("MaxPool", attrs, kind), monkeypatch)(images)
    gradient = np.asarray(generator.standard_normal(maxima.shape), kind)
    _check(("MaxPool", attrs, (images,)), monkeypatch)
    _check(("AvgPool", attrs, (images,)), monkeypatch)
    _check(("MaxPoolGrad", attrs, (images, maxima, gradient)), monkeypatch)
    _check(("AvgPoolGrad", attrs, (_sizes(*images.shape), gradient)), monkeypatch)


@pytest.mark.parametrize("kind", [np.float16, np.int32])
def test_other_dtypes_have_no_machine_code(kind: Any) -> None:
    attrs = {"strides": [1, 1, 1, 1], "ksize": [1, 2, 2, 1], "padding": "VALID"}
    images = np.arange(18).reshape(1, 3, 3, 2).astype(kind)
    for name, inputs in (
        ("MaxPool", (images,)),
        ("Conv2D", (images, np.ones((2, 2, 2, 1), kind))),
    ):
        given = {key: attrs[key] for key in attrs if key in registry.lookup(name).attrs}
        node = _node(name, given, kind)
        assert registry.lookup(name).bind_out(node, _context()) is None
        assert registry.lookup(name).bind(node, _context())(*inputs).shape[:3] == (1, 2, 2)


def test_a_node_sees_many_shapes(monkeypatch: pytest.MonkeyPatch) -> None:
    attrs = {"strides": [1, 1, 1, 1], "padding": "SAME"}
    node = _node("Conv2D", attrs, np.float32)
    kernel = registry.lookup("Conv2D").bind(node, _context())
    plain = _plain(node, monkeypatch)
    filters = np.ones((2, 2, 3, 4), np.float32)
    for batch in (*range(by_shape.REMEMBERED + 2), 0, 3):
        images = np.ones((batch, 4, 4, 3), np.float32)
        np.testing.assert_allclose(kernel(images, filters), plain(images, filters))


def test_every_call_is_checked() -> None:
    attrs = {"strides": [1, 1, 1, 1], "padding": "SAME"}
    node = _node("Conv2DBackpropInput", attrs, np.float32)
    kernel = registry.lookup("Conv2DBackpropInput").bind(node, _context())
    filters, dy = np.ones((2, 2, 3, 4), np.float32), np.ones((1, 4, 4, 4), np.float32)
    assert kernel(_sizes(1, 4, 4, 3), filters, dy).shape == (1, 4, 4, 3)
    with pytest.raises(InvalidArgumentError, match="out_backprop must have the shape"):
        kernel(_sizes(1, 4, 5, 3), filters, dy)
    with pytest.raises(InvalidArgumentError, match="not a multiple of input depth"):
        kernel(_sizes(1, 4, 4, 2), filters, dy)

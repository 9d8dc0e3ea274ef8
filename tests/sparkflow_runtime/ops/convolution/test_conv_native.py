"""Which kernels convolution nodes get; the kernels have their own tests."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest

from sparkflow_runtime.codegen.machine import native
from sparkflow_runtime.ops.convolution import conv_native
from sparkflow_runtime.ops.convolution.conv_native import (
    BY_FILTER,
    BY_IMAGE,
    FORWARD,
    VARIABLE,
    Chooser,
    filtering_is_wanted,
)
from sparkflow_runtime.ops.convolution.conv_ops import (
    Conv2D,
    Conv2DBackpropFilter,
    Conv2DBackpropInput,
    Conv3D,
    Conv3DBackpropFilterV2,
    Conv3DBackpropInputV2,
)
from sparkflow_runtime.ops.windows import Layout, channels_last, from_channels_last, in_format

pytestmark = pytest.mark.skipif(not native.available(), reason="needs llvmlite")

Array = np.ndarray[Any, Any]
OPS = {
    4: (Conv2D, Conv2DBackpropInput, Conv2DBackpropFilter),
    5: (Conv3D, Conv3DBackpropInputV2, Conv3DBackpropFilterV2),
}


@pytest.fixture
def chosen(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The kernels chosen so far."""
    monkeypatch.delenv(VARIABLE, raising=False)
    found: list[str] = []

    def watched(way: str, make: Any, *given: Any, **more: Any) -> Any:
        found.append(way)
        return make(*given, **more)

    for way in ("_DIRECT", "_FILTERED"):
        makers = [partial(watched, way, make) for make in getattr(conv_native, way)]
        monkeypatch.setattr(conv_native, way, tuple(makers))
    return found


def run(
    member: int, images: Array, filters: Array, data_format: str = "NHWC", strides: Any = (1, 1)
) -> Array | None:
    """Runs the chosen kernel and compares its result with numpy's; None if there is none."""
    layout = Layout(strides, (1,) * len(strides), "SAME", ((0, 0),) * len(strides), data_format)
    op = OPS[images.ndim][member]
    shape = channels_last(images.shape, data_format)
    counts = [window.count for window in layout.windows(shape[1:-1], filters.shape[:-2])]
    size = in_format((shape[0], *counts, filters.shape[-1]), data_format)
    dy = np.random.default_rng(5).standard_normal(size).astype(images.dtype)
    inputs = {
        FORWARD: (images, filters),
        BY_IMAGE: (np.array(images.shape, np.int32), filters, dy),
        BY_FILTER: (images, np.array(filters.shape, np.int32), dy),
    }[member]
    geometry = partial(op.geometry, layout)
    choice = Chooser(member, images.dtype, data_format, False, geometry)(*inputs)
    if choice is None:
        return None
    out = np.full(choice.shape, np.nan, images.dtype)
    assert choice.fill(inputs, out)
    expected = op.run(np, layout, *inputs)
    if member != BY_FILTER:
        expected = from_channels_last(np, expected, data_format)
    np.testing.assert_allclose(out, expected, rtol=0, atol=1e-5 * np.abs(expected).max())
    return out


def draw(*shape: int, dtype: Any = np.float32) -> Array:
    return np.random.default_rng(4).standard_normal(shape).astype(dtype)


@pytest.mark.parametrize("member", range(3))
def test_minimal_filtering_where_it_pays(member: int, chosen: list[str]) -> None:
    run(member, draw(4, 28, 28, 32), draw(3, 3, 32, 32))
    assert chosen == ["_FILTERED"]
    run(member, draw(4, 28, 28, 32), draw(3, 3, 32, 32), strides=(2, 2))
    run(member, draw(4, 28, 28, 32, dtype=np.float64), draw(3, 3, 32, 32, dtype=np.float64))
    run(member, draw(1, 4, 4, 3), draw(3, 3, 3, 4))
    assert chosen == ["_FILTERED", "_DIRECT", "_DIRECT", "_DIRECT"]


@pytest.mark.parametrize("member", range(3))
@pytest.mark.parametrize("data_format", ["NHWC", "NCHW"])
def test_it_can_be_switched_off(
    member: int, data_format: str, chosen: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    images = draw(4, 14, 14, 32) if data_format == "NHWC" else draw(4, 32, 14, 14)
    filters = draw(3, 3, 32, 64)
    filtered = run(member, images, filters, data_format)
    monkeypatch.setenv(VARIABLE, "0")
    direct = run(member, images, filters, data_format)
    assert chosen == ["_FILTERED", "_DIRECT"]
    assert filtered is not None
    assert direct is not None
    np.testing.assert_allclose(filtered, direct, rtol=0, atol=1e-5 * np.abs(direct).max())
    assert not np.array_equal(filtered, direct)


def test_what_switches_it_off() -> None:
    assert filtering_is_wanted({})
    assert filtering_is_wanted({VARIABLE: "1"})
    for text in ("0", "false", " False "):
        assert not filtering_is_wanted({VARIABLE: text})


def test_single_pixels_are_a_product(chosen: list[str]) -> None:
    images, filters = draw(2, 3, 4, 5), draw(1, 1, 5, 6)
    found = run(FORWARD, images, filters)
    assert found is not None
    np.testing.assert_allclose(found, images @ filters[0, 0], rtol=1e-5, atol=1e-5)
    assert chosen == []


def test_gradients_that_numpy_does_better_are_left_to_it(chosen: list[str]) -> None:
    assert run(BY_IMAGE, draw(2, 6, 6, 1), draw(3, 3, 1, 9)) is None
    assert run(BY_FILTER, draw(1, 3, 3, 384), draw(3, 3, 384, 384)) is None
    volumes = draw(1, 1, 3, 3, 384), draw(2, 3, 3, 384, 192)
    assert run(BY_FILTER, *volumes, "NDHWC", (1, 1, 1)) is not None
    chosen.clear()
    assert run(FORWARD, draw(1, 3, 3, 384), draw(3, 3, 384, 384)) is not None
    assert run(BY_IMAGE, draw(2, 6, 6, 1), draw(3, 3, 1, 8)) is not None
    assert chosen == ["_DIRECT", "_DIRECT"]


@pytest.mark.parametrize("member", range(3))
@pytest.mark.parametrize("data_format", ["NDHWC", "NCDHW"])
def test_volumes(member: int, data_format: str, chosen: list[str]) -> None:
    def images(*shape: int) -> Array:
        return draw(*in_format(shape, data_format))

    def ways(*filters: int, strides: tuple[int, int, int] = (1, 1, 1)) -> list[str]:
        chosen.clear()
        found = run(member, images(2, 3, 14, 15, 32), draw(*filters), data_format, strides)
        assert found is not None
        return [*chosen]

    assert ways(3, 3, 3, 32, 32) == ["_DIRECT"]
    assert ways(3, 3, 3, 32, 8, strides=(1, 2, 3)) == ["_DIRECT"]
    assert ways(3, 1, 1, 32, 16) == ["_DIRECT"]
    assert ways(1, 3, 3, 32, 32) == ["_FILTERED"]
    assert ways(1, 3, 3, 32, 32, strides=(2, 1, 1)) == ["_DIRECT"]
    assert ways(1, 1, 1, 32, 16) == []

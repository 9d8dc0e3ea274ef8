"""Minimal filtering against the same sums in float64; its errors next to those of plain sums."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from sparkflow_runtime.codegen.machine import native, threads
from sparkflow_runtime.codegen.tiles import convolution_kernels
from sparkflow_runtime.codegen.winograd import winograd_kernels as winograd
from sparkflow_runtime.ops.convolution.conv_arithmetic import (
    convolve,
    filter_gradient,
    input_gradient,
)
from sparkflow_runtime.ops.windows import Layout, Windows
from support.sharing import shared_among

pytestmark = pytest.mark.skipif(not native.available(), reason="needs llvmlite")

Array = np.ndarray[Any, Any]
FLOAT = np.dtype(np.float32)

GEOMETRIES = [
    # batch, height, width, channels, outputs, taps, padding
    (2, 8, 8, 16, 32, 3, "SAME"),
    (1, 13, 7, 1, 1, 3, "SAME"),
    (3, 3, 3, 5, 40, 3, "VALID"),
    (1, 1, 1, 8, 3, 3, "SAME"),
    (2, 9, 11, 33, 70, 3, "VALID"),
    (2, 6, 5, 17, 24, 4, "SAME"),
    (2, 14, 14, 7, 64, 5, "SAME"),
    (5, 5, 8, 64, 9, 5, "VALID"),
    (2, 7, 6, 3, 4, 3, ((4, 1), (0, 5))),
    (1, 40, 37, 2, 33, 5, ((5, 0), (1, 8))),
]
FAMILY = ("forward", "input_gradient", "filter_gradient")

Draw = Callable[[np.random.Generator, tuple[int, ...]], Array]


_threads = shared_among(winograd, "PARALLEL_PRODUCTS", (1, 2, 3))


def windows_of(geometry: tuple[Any, ...]) -> Windows:
    _, height, width, _, _, taps, padding = geometry
    is_named = isinstance(padding, str)
    explicit = ((0, 0), (0, 0)) if is_named else padding
    name = padding if is_named else "EXPLICIT"
    return Layout((1, 1), (1, 1), name, explicit, "NHWC").windows((height, width), (taps, taps))


def normal(generator: np.random.Generator, shape: tuple[int, ...]) -> Array:
    return generator.standard_normal(shape, np.float32)


def arrays(geometry: tuple[Any, ...], draw: Draw = normal, seed: int = 1) -> tuple[Array, ...]:
    """Images, filters and dy."""
    batch, height, width, channels, outputs, taps, _ = geometry
    counts = tuple(window.count for window in windows_of(geometry))
    generator = np.random.default_rng(seed)
    shapes = ((batch, height, width, channels), (taps, taps, channels, outputs))
    return tuple(draw(generator, shape) for shape in (*shapes, (batch, *counts, outputs)))


def run(module: Any, geometry: tuple[Any, ...], given: tuple[Array, ...]) -> list[Array]:
    """The convolution and both gradients, by a module's kernels."""
    images, filters, dy = given
    windows = windows_of(geometry)
    found = []
    for name, inputs, like in (
        ("forward", (images, filters), dy),
        ("input_gradient", (dy, filters), images),
        ("filter_gradient", (images, dy), filters),
    ):
        kernel = getattr(module, name)(FLOAT, images.shape, filters.shape, windows)
        out = np.full_like(like, np.nan)
        assert kernel is not None
        assert kernel(*inputs, out)
        found.append(out)
    return found


def exact(geometry: tuple[Any, ...], given: tuple[Array, ...]) -> list[Array]:
    """The same in float64."""
    images, filters, dy = (each.astype(np.float64) for each in given)
    windows = windows_of(geometry)
    return [
        convolve(np, images, filters, windows),
        input_gradient(np, dy, filters, windows, images.shape[1:3]),
        filter_gradient(np, images, dy, windows),
    ]


def check(geometry: tuple[Any, ...], seed: int = 1) -> None:
    given = arrays(geometry, seed=seed)
    results = zip(run(winograd, geometry, given), exact(geometry, given), strict=True)
    for name, (found, expected) in zip(FAMILY, results, strict=True):
        error = np.abs(found - expected).max() / max(np.abs(expected).max(), 1)
        assert error < 1e-5, (name, geometry)  # the largest of 10,000 random ones was 3.3e-6


@pytest.mark.usefixtures("_threads")
@pytest.mark.parametrize("geometry", GEOMETRIES, ids=str)
def test_convolutions_and_gradients(geometry: tuple[Any, ...]) -> None:
    check(geometry)


@pytest.mark.usefixtures("_threads")
def test_random_geometries() -> None:
    generator = np.random.default_rng(2)
    pick = generator.integers
    for seed in range(20):
        taps = int(pick(3, 6))
        paddings: list[Any] = ["SAME", "VALID"]
        paddings.append(tuple((int(pick(0, taps + 2)), int(pick(0, taps + 2))) for _ in range(2)))
        dims = (int(pick(taps, taps + 14)), int(pick(taps, taps + 14)))
        channels = int(generator.choice([1, 2, 3, 8, 16, 33, 64]))
        outputs = int(generator.choice([1, 3, 8, 10, 16, 24, 33, 70]))
        padding = paddings[int(pick(0, 3))]
        check((int(pick(1, 6)), *dims, channels, outputs, taps, padding), seed)


@pytest.mark.parametrize(("group", "gradient_group"), [(8, 1), (16, 7), (48, 1000)])
def test_groups_of_tiles(group: int, gradient_group: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(winograd, "GROUP", group)
    monkeypatch.setattr(winograd, "GRADIENT_GROUP", gradient_group)
    check((3, 18, 13, 5, 6, 3, "SAME"))


@pytest.mark.usefixtures("_threads")
@pytest.mark.parametrize("most", [0, 24])
def test_panels_of_outputs(most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Simulates filters larger than a cache, with several chunks and groups."""
    monkeypatch.setattr(winograd, "FILTERS_AT_ONCE", 0)
    monkeypatch.setattr(winograd, "TILES_AT_ONCE", 0)
    monkeypatch.setattr(winograd, "PANEL_GROUP", most or 1000)
    monkeypatch.setattr(winograd, "CHUNK", 32)
    monkeypatch.setattr(winograd, "GRADIENT_GROUP", 1000)  # also all tiles at once
    monkeypatch.setattr(winograd, "GRADIENT_CHUNK", 8)
    for geometry in (GEOMETRIES[0], GEOMETRIES[4], GEOMETRIES[6], (3, 18, 13, 70, 48, 3, "VALID")):
        check(geometry)


@pytest.mark.parametrize(
    ("vector_bytes", "tile"), [(64, (8, 2)), (32, (6, 2)), (16, (6, 4)), (16, (6, 2))]
)
def test_vectors_of_other_processors(
    vector_bytes: int, tile: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wider or shorter ones than here, which LLVM splits or combines."""
    other = SimpleNamespace(host=lambda: SimpleNamespace(vector_bytes=vector_bytes))
    monkeypatch.setattr(winograd, "host", other)
    monkeypatch.setattr(winograd, "tile", lambda: tile)
    check((2, 9, 11, 21, 37, 3, "SAME"))
    monkeypatch.setattr(winograd, "FILTERS_AT_ONCE", 0)
    monkeypatch.setattr(winograd, "GRADIENT_GROUP", 1000)
    check((2, 9, 11, 21, 37, 3, "SAME"))


@pytest.mark.parametrize("geometry", [GEOMETRIES[4], GEOMETRIES[6]], ids=str)
def test_results_do_not_depend_on_the_number_of_threads(
    geometry: tuple[Any, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(winograd, "PARALLEL_PRODUCTS", 0)
    given = arrays(geometry)
    found = []
    for count in (1, 2, 3, 5):
        threads.set_count(count)
        found.append(run(winograd, geometry, given))
    threads.set_count(0)
    for other in found[1:]:
        for a, b in zip(found[0], other, strict=True):
            np.testing.assert_array_equal(a, b)


def test_an_image_gives_the_same_in_any_batch() -> None:
    geometry = (5, 11, 9, 16, 20, 3, "SAME")
    images, filters, dy = arrays(geometry)
    whole = run(winograd, geometry, (images, filters, dy))
    for at in range(5):
        part = (images[at : at + 1].copy(), filters, dy[at : at + 1].copy())
        alone = run(winograd, (1, *geometry[1:]), part)
        np.testing.assert_array_equal(alone[0][0], whole[0][at])
        np.testing.assert_array_equal(alone[1][0], whole[1][at])


def positive(generator: np.random.Generator, shape: tuple[int, ...]) -> Array:
    return generator.uniform(0, 1, shape).astype(np.float32)


def bright(generator: np.random.Generator, shape: tuple[int, ...]) -> Array:
    """Every 50th pixel is 10,000 times brighter."""
    spots = np.where(generator.random((*shape[:-1], 1)) < 0.02, 1e4, 1)
    return (generator.standard_normal(shape) * spots).astype(np.float32)


@pytest.mark.parametrize(
    ("draw", "most"),
    # for 3 × 3 and 5 × 5: the bounds of ADR 0064, and some more
    [(normal, (3.5, 5)), (positive, (1.5, 1.5)), (bright, (3.5, 5))],
)
def test_the_error_beside_that_of_sums_over_windows(draw: Draw, most: tuple[float, float]) -> None:
    """Root mean square against float64, relative to the result's."""
    others = positive if draw is positive else normal
    for taps, bound in zip((3, 5), most, strict=True):
        for channels in (16, 96):
            geometry = (2, 20, 20, channels, 32, taps, "SAME")
            given = (arrays(geometry, draw)[0], *arrays(geometry, others)[1:])
            expected = exact(geometry, given)
            ours, theirs = (
                [
                    float(np.sqrt(np.mean((a - b) ** 2) / np.mean(b**2)))
                    for a, b in zip(run(module, geometry, given), expected, strict=True)
                ]
                for module in (winograd, convolution_kernels)
            )
            assert max(ours) < 2e-6
            for name, a, b in zip(FAMILY, ours, theirs, strict=True):
                assert a < bound * b, (name, taps, channels)


def test_what_is_not_finite_stays_in_its_tiles() -> None:
    """They reach all 4 × 4 outputs of each tile that reads them, and no others."""
    geometry = (1, 16, 16, 3, 5, 3, "SAME")
    images, filters, dy = arrays(geometry)
    expected = run(winograd, geometry, (images, filters, dy))[0]
    images[0, 6, 6, 1] = np.inf  # only seen by the tile starting at (4, 4)
    found = run(winograd, geometry, (images, filters, dy))[0]
    inside = found[0, 4:8, 4:8]
    assert not np.isfinite(inside[1:4, 1:4]).any()  # as in sums over windows
    found[0, 4:8, 4:8] = expected[0, 4:8, 4:8]
    np.testing.assert_array_equal(found, expected)


def test_scratch_memory_of_before_does_not_matter() -> None:
    geometry = GEOMETRIES[4]
    given = arrays(geometry)
    expected = run(winograd, geometry, given)
    winograd.scratch.take(1)[:] = 0xFF  # NaN, if read as a float
    for a, b in zip(run(winograd, geometry, given), expected, strict=True):
        np.testing.assert_array_equal(a, b)


def test_arrays_that_do_not_fit_are_refused() -> None:
    geometry = GEOMETRIES[0]
    images, filters, dy = arrays(geometry)
    windows = windows_of(geometry)
    sizes = (FLOAT, images.shape, filters.shape, windows)
    kernels = [getattr(winograd, name)(*sizes) for name in FAMILY]
    given = [(images, filters, dy), (dy, filters, images), (images, dy, filters)]
    for kernel, right in zip(kernels, given, strict=True):
        for at in range(3):
            wrong: list[Array] = list(right)
            wrong[at] = wrong[at][:1]
            before = right[2].copy()
            assert not kernel(*wrong)
            np.testing.assert_array_equal(right[2], before)


def test_what_has_no_kernel() -> None:
    def possible(images: Any, filters: Any, dtype: Any = FLOAT, **geometry: Any) -> bool:
        strides, dilations = geometry.get("strides", (1, 1)), geometry.get("dilations", (1, 1))
        layout = Layout(strides, dilations, "SAME", ((0, 0), (0, 0)), "NHWC")
        windows = layout.windows(images[1:3], filters[:2])
        kernels = (getattr(winograd, name)(dtype, images, filters, windows) for name in FAMILY)
        found = {kernel is not None for kernel in kernels}
        assert found == {winograd.is_possible(dtype, images, filters, windows)}
        return found.pop()

    images = (2, 12, 12, 32)
    assert possible(images, (3, 3, 32, 32))
    assert not possible(images, (3, 3, 32, 32), np.dtype(np.float64))
    assert not possible(images, (3, 3, 32, 32), FLOAT.newbyteorder())
    assert not possible(images, (3, 3, 32, 32), strides=(2, 1))
    assert not possible(images, (3, 3, 32, 32), dilations=(1, 2))
    assert not possible(images, (3, 4, 32, 32))
    assert not possible(images, (2, 2, 32, 32))
    assert not possible(images, (6, 6, 32, 32))
    assert not possible((0, 12, 12, 32), (3, 3, 32, 32))


def test_when_it_pays() -> None:
    def pays(batch: int, dim: int, channels: int, outputs: int, taps: int = 3) -> list[bool]:
        geometry = (batch, dim, dim, channels, outputs, taps, "SAME")
        sizes = ((batch, dim, dim, channels), (taps, taps, channels, outputs))
        windows = windows_of(geometry)
        return [winograd.pays(*sizes, windows, member) for member in range(3)]

    for usual in ((8, 56, 64, 64), (8, 28, 128, 128), (8, 14, 256, 256), (1, 28, 128, 128)):
        assert all(pays(*usual))
    assert all(pays(64, 14, 32, 64, 5))
    assert not any(pays(1, 7, 512, 512))  # more filters than images
    assert all(pays(8, 7, 512, 512))
    assert pays(64, 14, 1024, 1024) == [True, True, False]  # sums of 150 MB, several times
    assert not pays(64, 28, 1, 32)[0]  # nothing to add up over

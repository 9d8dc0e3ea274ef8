"""Colours in machine code against numpy's, bit for bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sparkflow_runtime.codegen.images import colors
from sparkflow_runtime.codegen.images.colors import Task, changed
from sparkflow_runtime.codegen.machine import native, threads
from sparkflow_runtime.ops.image import image_color

pytestmark = pytest.mark.skipif(not native.available(), reason="needs llvmlite")

SPECIAL = [[0, 0, 0], [1, 1, 1], [np.nan, 1, 0], [0.5, 0.5, 0.2], [-1, 2, np.inf], [0, 0, 1]]


def _pixels(dtype: Any) -> Any:
    pixels = np.random.default_rng(8).random((3, 7, 5, 3)).astype(dtype)
    pixels.reshape(-1, 3)[: len(SPECIAL)] = SPECIAL
    return pixels


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_there_and_back(dtype: Any, count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(colors, "_SHARED_PIXELS", 0)
    monkeypatch.setattr(threads, "count", lambda: count)
    pixels = _pixels(dtype)
    with np.errstate(invalid="ignore"):
        hsv = image_color._to_hsv(np, pixels)
        rgb = image_color._to_rgb(np, hsv)
    np.testing.assert_array_equal(changed(Task.TO_HSV, pixels), hsv)
    np.testing.assert_array_equal(changed(Task.TO_RGB, hsv), rgb)


@pytest.mark.parametrize(
    ("op", "number"),
    [
        (image_color.AdjustHue(), 0.1),
        (image_color.AdjustHue(), -0.35),
        (image_color.AdjustSaturation(), 1.3),
        (image_color.AdjustSaturation(), 0.0),
    ],
)
def test_adjustments(op: Any, number: float, monkeypatch: pytest.MonkeyPatch) -> None:
    pixels = _pixels(np.float32)
    found = op.compute(np, pixels, np.float32(number))
    monkeypatch.setattr(image_color, "changed", lambda *_: None)
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(found, op.compute(np, pixels, np.float32(number)))


def test_what_has_no_machine_code() -> None:
    for pixels in (np.zeros((0, 3), np.float32), np.zeros((2, 3), np.float16)):
        assert changed(Task.TO_HSV, pixels) is None
    assert changed(Task.TO_HSV, np.zeros((4, 3), np.float32)[::2]) is None

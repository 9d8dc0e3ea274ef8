"""Crops in machine code against numpy's, through the ops."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from sparkflow_runtime import dtypes
from sparkflow_runtime.codegen.images import cropping
from sparkflow_runtime.codegen.machine import native
from sparkflow_runtime.ops.image import image_boxes
from support.sharing import shared_among

pytestmark = pytest.mark.skipif(not native.available(), reason="needs llvmlite")

GENERATOR = np.random.default_rng(5)
BOXES = GENERATOR.uniform(-0.3, 1.3, (9, 4)).astype(np.float32)
BOXES[3] = np.nan
NUMBERS = GENERATOR.integers(0, 3, 9).astype(np.int32)


_threads = shared_among(cropping, "PARALLEL_ELEMENTS", autouse=True)


@pytest.mark.parametrize("method", ["bilinear", "nearest"])
@pytest.mark.parametrize("channels", [1, 3, 16, 70])
def test_crops_and_their_gradients(
    channels: int, method: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    images = GENERATOR.standard_normal((3, 8, 11, channels)).astype(np.float32)
    images[0, 0, 0] = np.inf
    size = np.array([5, 4], np.int32)

    def results() -> tuple[Any, Any]:
        crops = image_boxes.CropAndResize().compute(
            np, images, BOXES, NUMBERS, size, method=method, extrapolation_value=2.5
        )
        given = np.cos(np.arange(crops.size, dtype=np.float32)).reshape(crops.shape)
        gradient = image_boxes.CropAndResizeGradImage().compute(
            np, given, BOXES, NUMBERS, np.array(images.shape), T=dtypes.float32, method=method
        )
        return crops, gradient

    found = results()
    monkeypatch.setattr(image_boxes, "crop", lambda *_: None)
    monkeypatch.setattr(image_boxes, "spread", lambda *_: False)
    with np.errstate(invalid="ignore"):
        expected = results()
    for ours, theirs in zip(found, expected, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-5)


def test_no_boxes() -> None:
    images = np.zeros((1, 4, 4, 2), np.float32)
    nothing = np.zeros((0, 4), np.float32), np.zeros(0, np.int32), np.array([2, 2], np.int32)
    crops = image_boxes.CropAndResize().compute(
        np, images, *nothing, method="bilinear", extrapolation_value=0.0
    )
    assert crops.shape == (0, 2, 2, 2)

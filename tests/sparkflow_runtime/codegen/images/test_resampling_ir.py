"""The code for vectors of every width, whatever this processor supports."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from sparkflow_runtime.codegen.images import resampling
from sparkflow_runtime.codegen.images.resampling_ir import Form, text
from sparkflow_runtime.codegen.machine import host, native
from sparkflow_runtime.ops.image import image_resize


def _form(**fields: int) -> Form:
    numbers = {"lanes": 16, "channels": 3, "rows": 2, "columns": 2, **fields}
    return Form("float", **numbers)


@pytest.mark.parametrize(
    ("channels", "lanes"), [(1, 1), (2, 2), (3, 4), (5, 8), (16, 16), (17, 16), (100, 16)]
)
def test_vectors_are_no_wider_than_pixels(channels: int, lanes: int) -> None:
    assert _form(channels=channels).pixel_lanes == lanes


def test_few_taps_are_written_out() -> None:
    """Loops are over rows, blocks and vectors of a line, columns, and any number of taps."""
    loops = [text(_form(rows=each, columns=each)).count("_body:") for each in (2, 0)]
    assert loops == [4, 8]


@pytest.mark.skipif(not native.available(), reason="needs llvmlite")
@pytest.mark.parametrize("vector_bytes", [16, 32, 64])
@pytest.mark.parametrize("channels", [1, 3, 7, 40])
def test_every_width_gives_the_same(
    channels: int, vector_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    narrow = dataclasses.replace(host.host(), vector_bytes=vector_bytes)
    monkeypatch.setattr(host, "host", lambda: narrow)
    images = np.random.default_rng(2).standard_normal((2, 5, 6, channels)).astype(np.float32)
    taps = [image_resize._linear(5, 9, False, True), image_resize._area(6, 4, False, False)]
    fill = resampling.bind_sums(images.dtype, 2, channels, *taps)
    assert fill is not None
    result = np.empty((2, 9, 4, channels), np.float32)
    assert fill(images, result)
    expected = image_resize._applied(np, images, taps)
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-6)

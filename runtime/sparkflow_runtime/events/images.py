"""Image summaries: pixels of any range as 8 bits, 8 bits as PNG."""

from __future__ import annotations

import io
from typing import Any, Final

import numpy as np
from PIL import Image

Pixels = np.ndarray[Any, Any]

_DARKEST: Final = 1e-6
"""An image whose maximum is smaller stays black instead of showing rounding errors."""


def as_bytes(image: Pixels, bad_color: Pixels) -> Pixels:
    """Converts pixels of any floating-point range to uint8.

    Images without negative values are scaled so that their largest value becomes 255; those with
    negative values so that 0 becomes 128 and the value of largest magnitude 1 or 255.

    Args:
        image: [height, width, channels] of a floating-point type.
        bad_color: [channels or more] uint8, for pixels that are not finite in some channel.
    """
    good = np.isfinite(image).all(axis=2)
    finite = image[good]
    low, high = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 0.0)
    offset = 0.0
    if low < 0:
        largest = max(abs(low), abs(high))
        scale = 0.0 if largest < _DARKEST else 127.0 / largest
        offset = 128.0
    else:
        scale = 0.0 if high < _DARKEST else 255.0 / high
    result = np.empty(image.shape, np.uint8)
    result[...] = bad_color[: image.shape[2]]
    # TensorFlow keeps the scale in float32 and computes in the image's dtype.
    kind = image.dtype.type
    result[good] = (finite * kind(np.float32(scale)) + kind(offset)).astype(np.uint8)
    return result


def encode_png(pixels: Pixels) -> bytes:
    """Encodes [height, width, channels] uint8 as PNG: 1 grey, 2 grey and alpha, 3 RGB, 4 RGBA."""
    mode = {1: "L", 2: "LA", 3: "RGB", 4: "RGBA"}[pixels.shape[2]]
    plane = np.ascontiguousarray(pixels[:, :, 0] if mode == "L" else pixels)
    stream = io.BytesIO()
    size = (pixels.shape[1], pixels.shape[0])
    Image.frombytes(mode, size, plane.tobytes()).save(stream, "png")
    return stream.getvalue()

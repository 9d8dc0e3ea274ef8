"""PNG, JPEG, GIF and BMP, decoded and encoded by Pillow on the host."""

from __future__ import annotations

import io
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from PIL import Image

from sparkflow_runtime.dtypes import int32, int64, uint8, uint16
from sparkflow_runtime.errors import InvalidArgumentError
from sparkflow_runtime.ops.op import Array, Inference, Op, not_differentiable
from sparkflow_runtime.ops.registry import register
from sparkflow_runtime.ops.signature import (
    Attr,
    bool_attr,
    float_attr,
    int_attr,
    string_attr,
    type_attr,
)
from sparkflow_runtime.ops.static import bracketed
from sparkflow_runtime.shapes import Shape

HostArray = np.ndarray[Any, Any]

_MODES = {1: "L", 2: "LA", 3: "RGB", 4: "RGBA"}
_RED_SHARE, _GREEN_SHARE = 9797, 19234
"""Weights of red and green in the brightness, times 1 << 15 (0.299 and 0.587)."""
_MAX_PIXELS = 1 << 28
"""Larger images are rejected before any allocation."""
_JPEG: dict[str, Attr] = {
    "channels": int_attr(0),
    "ratio": int_attr(1),
    "fancy_upscaling": bool_attr(True),
    "try_recover_truncated": bool_attr(False),
    "acceptable_fraction": float_attr(1.0),
    "dct_method": string_attr(""),
}


def _opened(contents: Array, formats: tuple[str, ...] | None = None) -> Image.Image:
    data = contents.item() if isinstance(contents, np.ndarray) else contents
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            image = Image.open(io.BytesIO(data), formats=formats)
            if image.width * image.height > _MAX_PIXELS:
                raise ValueError(f"{image.width} x {image.height} pixels are too many")
            return image
    except (OSError, SyntaxError, ValueError, Warning, Image.DecompressionBombError) as error:
        raise InvalidArgumentError(
            message=f"Unknown image file format, or broken data. One of JPEG, PNG, GIF, BMP "
            f"required: {error}"
        ) from error


def _pixels(image: Image.Image, channels: int, kind: Any = np.uint8) -> HostArray:
    """Returns [height, width, channels] of an image; 0 for its own number of channels."""
    try:
        if kind is np.uint16 and image.mode.startswith("I"):
            deep = np.asarray(image).astype(np.uint16)
            return np.repeat(deep[:, :, None], max(channels, 1), axis=2)
        if channels == 0:
            with_alpha = "A" in image.mode or "transparency" in image.info
            gray = image.mode in ("1", "L", "LA", "I", "I;16", "F")
            channels = (1 if gray else 3) + with_alpha
        pixels = (
            _brightness(image) if channels == 1 else np.asarray(image.convert(_MODES[channels]))
        )
    except (OSError, SyntaxError, ValueError) as error:
        raise InvalidArgumentError(message=f"Invalid image data: {error}") from error
    pixels = pixels.reshape(*pixels.shape[:2], channels)
    return pixels if kind is np.uint8 else pixels.astype(kind) * kind(257)


def _brightness(image: Image.Image) -> HostArray:
    """Returns the brightness, [height, width]; of coloured PNGs rounded down, as in libpng."""
    if image.format != "PNG" or image.mode not in ("RGB", "RGBA", "P", "PA"):
        return np.asarray(image.convert("L"))
    red, green, blue = np.moveaxis(np.asarray(image.convert("RGB")).astype(np.uint32), -1, 0)
    shares = _RED_SHARE * red + _GREEN_SHARE * green
    shares += ((1 << 15) - _RED_SHARE - _GREEN_SHARE) * blue
    gray = (red == green) & (red == blue)
    brightness: HostArray = np.where(gray, red, shares >> 15).astype(np.uint8)
    return brightness


class _Decode(Op):
    inputs = "contents: string"
    kernels = {"CPU": None}
    gradient = not_differentiable

    def infer(self, node: Inference) -> Sequence[Shape]:
        """(height, width, channels)."""
        node.with_rank(0, 0, "contents")
        channels = node.attrs["channels"]
        if channels not in (0, 1, 3, 4):
            raise InvalidArgumentError(message=f"channels must be 0, 1, 3, or 4, got {channels}")
        return [(None, None, channels or None)]


@register
class DecodePng(_Decode):
    """Decodes a PNG image, or one in another format."""

    outputs = "image: dtype"
    attrs = {"channels": int_attr(0), "dtype": type_attr(frozenset({uint8, uint16}), uint8)}

    def compute(self, xp: Any, contents: Array, *, channels: int, dtype: Any) -> Array:
        """[height, width, channels]."""
        return _pixels(_opened(contents), channels, dtype.as_numpy_dtype)


@register
class DecodeJpeg(_Decode):
    """Decodes a JPEG image, or one in another format."""

    outputs = "image: uint8"
    attrs = _JPEG

    def compute(self, xp: Any, contents: Array, *, channels: int, ratio: int) -> Array:
        """[height, width, channels].

        Raises:
            InvalidArgumentError: The ratio is not 1, 2, 4 or 8.
        """
        if ratio not in (1, 2, 4, 8):
            raise InvalidArgumentError(message=f"ratio must be 1, 2, 4, or 8, got {ratio}")
        image = _opened(contents)
        if ratio > 1:
            image.draft(None, (image.width // ratio, image.height // ratio))
        return _pixels(image, channels)


@register
class DecodeAndCropJpeg(DecodeJpeg):
    """Decodes a window [y, x, height, width] of a JPEG image."""

    inputs = "contents: string, crop_window: int32"

    def compute(  # type: ignore[override]  # one input more
        self, xp: Any, contents: Array, crop_window: Array, *, channels: int, ratio: int
    ) -> Array:
        """[height, width, channels].

        Raises:
            InvalidArgumentError: The window is not inside the image.
        """
        pixels = super().compute(xp, contents, channels=channels, ratio=ratio)
        y, x, height, width = (int(n) for n in crop_window)
        rows, columns = pixels.shape[:2]
        if min(y, x) < 0 or min(height, width) < 1 or y + height > rows or x + width > columns:
            raise InvalidArgumentError(
                message=f"Invalid crop window {[y, x, height, width]} for {rows} x {columns} pixels"
            )
        return pixels[y : y + height, x : x + width]


@register
class DecodeBmp(_Decode):
    """Decodes a BMP image."""

    outputs = "image: uint8"
    attrs = {"channels": int_attr(0)}

    def compute(self, xp: Any, contents: Array, *, channels: int) -> Array:
        """[height, width, channels]."""
        return _pixels(_opened(contents, ("BMP",)), channels)


@register
class DecodeGif(Op):
    """Decodes the frames of a GIF image: [frames, height, width, 3]."""

    inputs = "contents: string"
    outputs = "image: uint8"
    kernels = {"CPU": None}
    gradient = not_differentiable

    def infer(self, node: Inference) -> Sequence[Shape]:
        """(frames, height, width, 3)."""
        node.with_rank(0, 0, "contents")
        return [(None, None, None, 3)]

    def compute(self, xp: Any, contents: Array) -> Array:
        """The frames.

        Raises:
            InvalidArgumentError: It is not a GIF image, or the frames have too many pixels in
                total.
        """
        image = _opened(contents, ("GIF",))
        try:
            count: int = getattr(image, "n_frames", 1)
        except (OSError, SyntaxError, ValueError, EOFError) as error:
            raise InvalidArgumentError(message=f"Invalid image data: {error}") from error
        if count * image.height * image.width > _MAX_PIXELS:
            raise InvalidArgumentError(
                message=f"{count} frames of {image.width} x {image.height} pixels are too many"
            )
        pixels = np.empty((count, image.height, image.width, 3), np.uint8)
        for index in range(count):
            try:
                image.seek(index)
            except (OSError, SyntaxError, ValueError, EOFError) as error:
                raise InvalidArgumentError(message=f"Invalid image data: {error}") from error
            pixels[index] = _pixels(image, 3)
        return pixels


@register
class ExtractJpegShape(Op):
    """Reads [height, width, channels] of a JPEG image, without decoding it."""

    inputs = "contents: string"
    outputs = "image_shape: output_type"
    attrs = {"output_type": type_attr(frozenset({int32, int64}), int32)}
    kernels = {"CPU": None}
    gradient = not_differentiable

    def infer(self, node: Inference) -> Sequence[Shape]:
        """(3,)."""
        node.with_rank(0, 0, "contents")
        return [(3,)]

    def compute(self, xp: Any, contents: Array, *, output_type: Any) -> Array:
        """The three sizes."""
        image = _opened(contents, ("JPEG",))
        sizes = [image.height, image.width, len(image.getbands())]
        return np.array(sizes, output_type.as_numpy_dtype)


def _picture(image: HostArray, allowed: Sequence[int]) -> Image.Image:
    if image.ndim != 3 or image.shape[2] not in allowed:
        raise InvalidArgumentError(
            message=f"image must be [height, width, channels] with channels in {list(allowed)}, "
            f"got shape {bracketed(image.shape)}"
        )
    if image.dtype == np.uint16:
        if image.shape[2] != 1:
            raise InvalidArgumentError(
                message="images of 16 bits must have one channel to be written, "
                f"got shape {bracketed(image.shape)}"
            )
        return Image.fromarray(np.ascontiguousarray(image[:, :, 0]))
    pixels = np.ascontiguousarray(image[:, :, 0] if image.shape[2] == 1 else image)
    return Image.fromarray(pixels)


def _written(picture: Image.Image, kind: str, **options: Any) -> HostArray:
    stream = io.BytesIO()
    picture.save(stream, kind, **options)
    return np.array(stream.getvalue(), object)


@register
class EncodePng(Op):
    """Encodes an image as a PNG file."""

    inputs = "image: T"
    outputs = "contents: string"
    attrs = {"compression": int_attr(-1), "T": type_attr(frozenset({uint8, uint16}), uint8)}
    kernels = {"CPU": None}
    gradient = not_differentiable

    def infer(self, node: Inference) -> Sequence[Shape]:
        """()."""
        node.with_rank(0, 3, "image")
        return [()]

    def compute(self, xp: Any, image: Array, *, compression: int) -> Array:
        """The file's bytes."""
        level = 6 if compression < 0 else compression
        return _written(_picture(image, (1, 2, 3, 4)), "PNG", compress_level=level)


@register
class EncodeJpeg(Op):
    """Encodes an image as a JPEG file."""

    inputs = "image: uint8"
    outputs = "contents: string"
    attrs = {
        "format": string_attr("", frozenset({"", "grayscale", "rgb"})),
        "quality": int_attr(95),
        "progressive": bool_attr(False),
        "optimize_size": bool_attr(False),
        "chroma_downsampling": bool_attr(True),
        "density_unit": string_attr("in", frozenset({"in", "cm"})),
        "x_density": int_attr(300),
        "y_density": int_attr(300),
        "xmp_metadata": string_attr(""),
    }
    kernels = {"CPU": None}
    gradient = not_differentiable

    def infer(self, node: Inference) -> Sequence[Shape]:
        """()."""
        node.with_rank(0, 3, "image")
        return [()]

    def compute(
        self,
        xp: Any,
        image: Array,
        *,
        format: str,
        quality: int,
        progressive: bool,
        optimize_size: bool,
        chroma_downsampling: bool,
        x_density: int,
        y_density: int,
    ) -> Array:
        """The file's bytes.

        Raises:
            InvalidArgumentError: The quality is not in [0, 100].
        """
        if not 0 <= quality <= 100:
            raise InvalidArgumentError(message=f"quality must be in [0,100], got {quality}")
        allowed = {"": (1, 3), "grayscale": (1,), "rgb": (3,)}[format]
        return _written(
            _picture(image, allowed),
            "JPEG",
            quality=quality,
            progressive=progressive,
            optimize=optimize_size,
            subsampling=2 if chroma_downsampling else 0,
            dpi=(x_density, y_density),
        )

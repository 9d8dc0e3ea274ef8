"""Reading and writing image files."""

from __future__ import annotations

from typing import Any

import numpy as np

from sparkflow.graph.scopes import apply_op, convert_to_tensor, graph_of
from sparkflow.graph.tensor import Tensor
from sparkflow.ops.image.color import convert_image_dtype
from sparkflow_runtime.dtypes import as_dtype, int32, uint8


def decode_png(
    contents: Any, channels: int = 0, dtype: Any = uint8, name: str | None = None
) -> Tensor:
    """[height, width, channels] pixels of a PNG file; its own channels for 0."""
    result: Tensor = apply_op(
        "DecodePng", contents, channels=channels, dtype=as_dtype(dtype), name=name
    )
    return result


def decode_jpeg(
    contents: Any,
    channels: int = 0,
    ratio: int = 1,
    fancy_upscaling: bool = True,
    try_recover_truncated: bool = False,
    acceptable_fraction: float = 1,
    dct_method: str = "",
    name: str | None = None,
) -> Tensor:
    """[height, width, channels] pixels of a JPEG file, smaller by `ratio`."""
    result: Tensor = apply_op(
        "DecodeJpeg",
        contents,
        channels=channels,
        ratio=ratio,
        fancy_upscaling=fancy_upscaling,
        try_recover_truncated=try_recover_truncated,
        acceptable_fraction=acceptable_fraction,
        dct_method=dct_method,
        name=name,
    )
    return result


def decode_and_crop_jpeg(
    contents: Any,
    crop_window: Any,
    channels: int = 0,
    ratio: int = 1,
    fancy_upscaling: bool = True,
    try_recover_truncated: bool = False,
    acceptable_fraction: float = 1,
    dct_method: str = "",
    name: str | None = None,
) -> Tensor:
    """The pixels of a JPEG file in the window [y, x, height, width]."""
    result: Tensor = apply_op(
        "DecodeAndCropJpeg",
        contents,
        crop_window,
        channels=channels,
        ratio=ratio,
        fancy_upscaling=fancy_upscaling,
        try_recover_truncated=try_recover_truncated,
        acceptable_fraction=acceptable_fraction,
        dct_method=dct_method,
        name=name,
    )
    return result


def adjust_jpeg_quality(image: Any, jpeg_quality: int, name: str | None = None) -> Tensor:
    """The image as it looks after a JPEG file of this quality, in its own dtype.

    Raises:
        ValueError: The quality is not in [0, 100].
    """
    graph = graph_of((image,))
    with graph.as_default(), graph.name_scope(name or "adjust_jpeg_quality"):
        given = convert_to_tensor(image, name="image")
        pixels = convert_image_dtype(given, uint8)
        channels = pixels.shape.as_list()[-1] or 0
        decoded = decode_jpeg(encode_jpeg(pixels, quality=jpeg_quality), channels)
        return convert_image_dtype(decoded, given.dtype.base)


def random_jpeg_quality(
    image: Any, min_jpeg_quality: int, max_jpeg_quality: int, seed: int | None = None
) -> Tensor:
    """As `adjust_jpeg_quality`, with a quality drawn when the graph is built.

    Raises:
        ValueError: The bounds are not in [0, 100], or the upper one is not the larger.
    """
    for bound in (min_jpeg_quality, max_jpeg_quality):
        if not 0 <= bound <= 100:
            raise ValueError(f"jpeg encoding range must be between 0 and 100, got {bound}")
    if min_jpeg_quality >= max_jpeg_quality:
        raise ValueError("`min_jpeg_quality` must be less than `max_jpeg_quality`.")
    drawn = np.random.RandomState(seed).randint(min_jpeg_quality, max_jpeg_quality)
    return adjust_jpeg_quality(image, int(drawn))


def decode_bmp(contents: Any, channels: int = 0, name: str | None = None) -> Tensor:
    """[height, width, channels] pixels of a BMP file."""
    result: Tensor = apply_op("DecodeBmp", contents, channels=channels, name=name)
    return result


def decode_gif(contents: Any, name: str | None = None) -> Tensor:
    """[frames, height, width, 3] pixels of a GIF file."""
    result: Tensor = apply_op("DecodeGif", contents, name=name)
    return result


def decode_image(
    contents: Any,
    channels: int | None = None,
    dtype: Any = uint8,
    name: str | None = None,
    expand_animations: bool = True,
) -> Tensor:
    """Pixels of a file in any of these formats; of a GIF file its first frame.

    Raises:
        ValueError: `channels` is none of None, 0, 1, 3, 4.
    """
    if channels not in (None, 0, 1, 3, 4):
        raise ValueError("channels must be in (None, 0, 1, 3, 4)")
    graph = graph_of((contents,))
    with graph.as_default(), graph.name_scope(name or "decode_image"):
        pixels: Tensor = apply_op("DecodePng", contents, channels=channels or 0)
        pixels = convert_image_dtype(pixels, dtype)
        pixels._shape = None  # TensorFlow does not tell: files of several frames have rank 4
        return pixels


def encode_png(image: Any, compression: int = -1, name: str | None = None) -> Tensor:
    """A PNG file of [height, width, channels] uint8 or uint16 pixels."""
    result: Tensor = apply_op("EncodePng", image, compression=compression, name=name)
    return result


def encode_jpeg(
    image: Any,
    format: str = "",
    quality: int = 95,
    progressive: bool = False,
    optimize_size: bool = False,
    chroma_downsampling: bool = True,
    density_unit: str = "in",
    x_density: int = 300,
    y_density: int = 300,
    xmp_metadata: str = "",
    name: str | None = None,
) -> Tensor:
    """A JPEG file of [height, width, channels] uint8 pixels."""
    result: Tensor = apply_op(
        "EncodeJpeg",
        image,
        format=format,
        quality=quality,
        progressive=progressive,
        optimize_size=optimize_size,
        chroma_downsampling=chroma_downsampling,
        density_unit=density_unit,
        x_density=x_density,
        y_density=y_density,
        xmp_metadata=xmp_metadata,
        name=name,
    )
    return result


def extract_jpeg_shape(contents: Any, output_type: Any = int32, name: str | None = None) -> Tensor:
    """[height, width, channels] of a JPEG file."""
    result: Tensor = apply_op(
        "ExtractJpegShape", contents, output_type=as_dtype(output_type), name=name
    )
    return result


def is_jpeg(contents: Any, name: str | None = None) -> Tensor:
    """Whether a file begins as JPEG files do."""
    graph = graph_of((contents,))
    with graph.as_default(), graph.name_scope(name or "is_jpeg"):
        start = apply_op("Substr", convert_to_tensor(contents), 0, 3)
        result: Tensor = apply_op("Equal", start, b"\xff\xd8\xff", name="is_jpeg")
        return result

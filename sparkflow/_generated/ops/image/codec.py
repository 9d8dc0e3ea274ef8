"""Reading and writing image files.

Made by `scripts/generate_api.py` from `sparkflow/_api/ops/image/codec.py`.
"""

from __future__ import annotations

from typing import Any

from sparkflow.graph.scopes import apply_op
from sparkflow.graph.tensor import Tensor
from sparkflow_runtime.dtypes import as_dtype
from sparkflow_runtime.dtypes import int32
from sparkflow_runtime.dtypes import uint8

__all__ = [
    "decode_and_crop_jpeg",
    "decode_bmp",
    "decode_gif",
    "decode_jpeg",
    "decode_png",
    "encode_jpeg",
    "encode_png",
    "extract_jpeg_shape",
]


def decode_png(
    contents: Any, channels: int = 0, dtype: Any = uint8, name: str | None = None
) -> Tensor:
    """[height, width, channels] pixels of a PNG file; its own channels for 0.

    Args:
        contents: Scalar of string.
        channels: Channels of the result: 1, 3 or 4; 0 for those of the file.
        dtype: The dtype: uint8 or uint16.
        name: Name of the node.

    Returns:
        A tensor of dtype `dtype`.

    Raises:
        TypeError: The dtype is not one of those above.
        ValueError: The shapes do not fit.
    """
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
    """[height, width, channels] pixels of a JPEG file, smaller by `ratio`.

    Args:
        contents: Scalar of string.
        channels: Channels of the result: 1, 3 or 4; 0 for those of the file.
        ratio: 1, 2, 4 or 8: how many times smaller.
        fancy_upscaling: Accepted, without effect.
        try_recover_truncated: Accepted, without effect.
        acceptable_fraction: Accepted, without effect.
        dct_method: Accepted, without effect.
        name: Name of the node.

    Returns:
        An uint8 tensor.

    Raises:
        TypeError: The dtype is not one of those above.
        ValueError: The shapes do not fit.
    """
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
    """The pixels of a JPEG file in the window [y, x, height, width].

    Args:
        contents: Scalar of string.
        crop_window: Tensor [...] of int32.
        channels: Channels of the result: 1, 3 or 4; 0 for those of the file.
        ratio: 1, 2, 4 or 8: how many times smaller.
        fancy_upscaling: Accepted, without effect.
        try_recover_truncated: Accepted, without effect.
        acceptable_fraction: Accepted, without effect.
        dct_method: Accepted, without effect.
        name: Name of the node.

    Returns:
        An uint8 tensor.

    Raises:
        TypeError: The dtype is not one of those above.
        ValueError: The shapes do not fit.
    """
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


def decode_bmp(contents: Any, channels: int = 0, name: str | None = None) -> Tensor:
    """[height, width, channels] pixels of a BMP file.

    Args:
        contents: Scalar of string.
        channels: Channels of the result: 1, 3 or 4; 0 for those of the file.
        name: Name of the node.

    Returns:
        An uint8 tensor.

    Raises:
        TypeError: The dtype is not one of those above.
        ValueError: The shapes do not fit.
    """
    result: Tensor = apply_op("DecodeBmp", contents, channels=channels, name=name)
    return result


def decode_gif(contents: Any, name: str | None = None) -> Tensor:
    """[frames, height, width, 3] pixels of a GIF file.

    Args:
        contents: Scalar of string.
        name: Name of the node.

    Returns:
        An uint8 tensor.

    Raises:
        TypeError: The dtype is not one of those above.
        ValueError: The shapes do not fit.
    """
    result: Tensor = apply_op("DecodeGif", contents, name=name)
    return result


def encode_png(image: Any, compression: int = -1, name: str | None = None) -> Tensor:
    """A PNG file of [height, width, channels] uint8 or uint16 pixels.

    Args:
        image: Tensor of rank 3 of uint8 or uint16.
        compression: 0 (fast) to 9 (small); -1 for the default.
        name: Name of the node.

    Returns:
        A string tensor.

    Raises:
        TypeError: The dtype is not one of those above.
        ValueError: The shapes do not fit.
    """
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
    """A JPEG file of [height, width, channels] uint8 pixels.

    Args:
        image: Tensor of rank 3 of uint8.
        format: One of ``, `grayscale`, `rgb`.
        quality: 0 to 100.
        progressive: Coarse first, for slow connections.
        optimize_size: Look for a smaller file, which takes longer.
        chroma_downsampling: Keep colours at half the resolution.
        density_unit: One of `cm`, `in`.
        x_density: Pixels per unit, across.
        y_density: Pixels per unit, down.
        xmp_metadata: Accepted, without effect.
        name: Name of the node.

    Returns:
        A string tensor.

    Raises:
        TypeError: The dtype is not one of those above.
        ValueError: The shapes do not fit.
    """
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
    """[height, width, channels] of a JPEG file.

    Args:
        contents: Scalar of string.
        output_type: The dtype: int32 or int64.
        name: Name of the node.

    Returns:
        A tensor of dtype `output_type`.

    Raises:
        TypeError: The dtype is not one of those above.
        ValueError: The shapes do not fit.
    """
    result: Tensor = apply_op(
        "ExtractJpegShape", contents, output_type=as_dtype(output_type), name=name
    )
    return result

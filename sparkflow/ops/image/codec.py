"""Reading and writing image files."""

from __future__ import annotations

from typing import Any

import numpy as np

from sparkflow._api import export
from sparkflow._generated.ops.image.codec import *  # noqa: F403
from sparkflow._generated.ops.image.codec import decode_jpeg, encode_jpeg
from sparkflow.graph.scopes import apply_op, convert_to_tensor, graph_of, output_of
from sparkflow.graph.tensor import Tensor
from sparkflow.ops.image.color import convert_image_dtype
from sparkflow_runtime.dtypes import uint8


@export("image.adjust_jpeg_quality")
def adjust_jpeg_quality(image: Any, jpeg_quality: int, name: str | None = None) -> Tensor:
    """Returns the image after JPEG encoding at this quality and decoding, in its dtype.

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


@export("image.random_jpeg_quality")
def random_jpeg_quality(
    image: Any, min_jpeg_quality: int, max_jpeg_quality: int, seed: int | None = None
) -> Tensor:
    """Like `adjust_jpeg_quality`, with a quality drawn when the graph is built.

    Raises:
        ValueError: The bounds are not in [0, 100], or the upper one is not larger.
    """
    for bound in (min_jpeg_quality, max_jpeg_quality):
        if not 0 <= bound <= 100:
            raise ValueError(f"jpeg encoding range must be between 0 and 100, got {bound}")
    if min_jpeg_quality >= max_jpeg_quality:
        raise ValueError("`min_jpeg_quality` must be less than `max_jpeg_quality`.")
    drawn = np.random.RandomState(seed).randint(min_jpeg_quality, max_jpeg_quality)
    return adjust_jpeg_quality(image, int(drawn))


@export("image.decode_image", "io.decode_image")
def decode_image(
    contents: Any,
    channels: int | None = None,
    dtype: Any = uint8,
    name: str | None = None,
    expand_animations: bool = True,
) -> Tensor:
    """Decodes a file in any of these formats to pixels; of a GIF file the first frame.

    Raises:
        ValueError: `channels` is not None, 0, 1, 3 or 4.
    """
    if channels not in (None, 0, 1, 3, 4):
        raise ValueError("channels must be in (None, 0, 1, 3, 4)")
    graph = graph_of((contents,))
    with graph.as_default(), graph.name_scope(name or "decode_image"):
        pixels: Tensor = apply_op("DecodePng", contents, channels=channels or 0)
        pixels = convert_image_dtype(pixels, dtype)
        pixels._shape = None  # unknown, as in TensorFlow: files with several frames have rank 4
        return pixels


@export("image.is_jpeg", "io.is_jpeg")
def is_jpeg(contents: Any, name: str | None = None) -> Tensor:
    """Whether a file begins like a JPEG file."""
    graph = graph_of((contents,))
    with graph.as_default(), graph.name_scope(name or "is_jpeg"):
        start = apply_op("Substr", convert_to_tensor(contents), 0, 3)
        return output_of("Equal", start, b"\xff\xd8\xff", name="is_jpeg")

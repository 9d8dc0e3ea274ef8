"""Resizing, cropping, padding, rotating and mirroring images.

Images are [height, width, channels], or [batch, height, width, channels].
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from sparkflow._api import export
from sparkflow._generated.ops.image.geometry import *  # noqa: F403
from sparkflow._generated.ops.image.geometry import (
    resize_area,
    resize_bicubic,
    resize_bilinear,
    resize_nearest_neighbor,
)
from sparkflow.graph.constant_value import constant_value
from sparkflow.graph.operators import Symbolic
from sparkflow.graph.scopes import convert_to_tensor, graph_of, output_of
from sparkflow.graph.tensor import Tensor
from sparkflow.ops.control.cond import cond, switch_case
from sparkflow.ops.control.debugging import Assert
from sparkflow.ops.control.ordering import with_dependencies
from sparkflow.ops.elementwise import elementwise
from sparkflow.ops.random.random import random_uniform
from sparkflow.ops.reduction.reduction import reduce_max
from sparkflow.ops.renamed_arguments import either
from sparkflow.ops.shape import arrays
from sparkflow_runtime.dtypes import float32, float64, int32

_TOO_LARGE: Final = "{} must be >= target + offset."


@export("image.ResizeMethod")
class ResizeMethod:
    """How `resize_images` computes pixels."""

    BILINEAR = 0
    NEAREST_NEIGHBOR = 1
    BICUBIC = 2
    AREA = 3


@export("image.resize_images", "image.resize")
def resize_images(
    images: Any,
    size: Any,
    method: Any = ResizeMethod.BILINEAR,
    align_corners: bool = False,
    preserve_aspect_ratio: bool = False,
    name: str | None = None,
) -> Tensor:
    """Resizes images.

    Args:
        images: One image or a batch.
        size: [height, width] int32.
        method: One of `ResizeMethod`.
        align_corners: Whether the corner pixels keep their positions.
        preserve_aspect_ratio: Use the largest size within `size` that keeps the aspect ratio.
        name: Name of the scope.

    Returns:
        float32; the images' dtype for `NEAREST_NEIGHBOR`, and if the size is unchanged.

    Raises:
        ValueError: The rank is not 3 or 4, the size is not a vector of 2, or the method is unknown.
    """
    graph = graph_of((images, size))
    with graph.as_default(), graph.name_scope(name or "resize"):
        given, single = _batched(images, "images")
        wanted = convert_to_tensor(size, int32, name="size")
        if not wanted.shape.is_compatible_with([2]):
            raise ValueError("'size' must be a 1-D Tensor of 2 elements: new_height, new_width")
        if preserve_aspect_ratio:
            wanted = _within(given, wanted)
        functions: dict[Any, Any] = {
            ResizeMethod.BILINEAR: resize_bilinear,
            ResizeMethod.NEAREST_NEIGHBOR: resize_nearest_neighbor,
            ResizeMethod.BICUBIC: resize_bicubic,
            ResizeMethod.AREA: resize_area,
        }
        known = constant_value(wanted)
        here = given.shape.as_list()[1:3]
        if known is not None and None not in here and known.tolist() == here:
            return convert_to_tensor(images)
        if method not in functions:
            raise ValueError("Resize method is not implemented.")
        result: Tensor = functions[method](given, wanted, align_corners=align_corners)
        if known is not None:
            result.set_shape([given.shape[0], *known.tolist(), given.shape[3]])
        return arrays.squeeze(result, [0]) if single else result


def _batched(images: Any, name: str) -> tuple[Tensor, bool]:
    """Returns images as a batch, and whether they were one image.

    Raises:
        ValueError: The rank is not 3 or 4, or unknown.
    """
    given = convert_to_tensor(images, name=name)
    rank = given.shape.ndims
    if rank is None:
        raise ValueError(f"'{name}' contains no shape.")
    if rank not in (3, 4):
        raise ValueError(f"'{name}' must have either 3 or 4 dimensions.")
    return (arrays.expand_dims(given, 0), True) if rank == 3 else (given, False)


def _batch_of(image: Any) -> tuple[Tensor, bool]:
    """Like `_batched`; an unknown rank, as of `decode_image`, means one image."""
    given = convert_to_tensor(image, name="image")
    if given.shape.ndims is not None:
        return _batched(given, "image")
    batch = arrays.expand_dims(given, 0)
    batch.set_shape([1, None, None, None])
    return batch, True


def _within(images: Tensor, wanted: Tensor) -> Tensor:
    sizes = elementwise.cast(arrays.shape(images)[1:3], float32)
    ratios = elementwise.cast(wanted, float32) / sizes
    smallest = elementwise.minimum(ratios[0], ratios[1])
    return elementwise.cast(elementwise.round(sizes * smallest), int32)


@export("image.crop_to_bounding_box")
def crop_to_bounding_box(
    image: Any, offset_height: Any, offset_width: Any, target_height: Any, target_width: Any
) -> Tensor:
    """Crops an image, or a batch, to a box given by offsets and sizes.

    Raises:
        ValueError: The box is not within the image.
    """
    graph = graph_of((image,))
    with graph.as_default(), graph.name_scope("crop_to_bounding_box"):
        given, single = _batch_of(image)
        rules = [
            (offset_height >= 0, "offset_height must be >= 0."),
            (offset_width >= 0, "offset_width must be >= 0."),
            (target_height > 0, "target_height must be > 0."),
            (target_width > 0, "target_width must be > 0."),
            (offset_height + target_height <= _size(given, 1), _TOO_LARGE.format("height")),
            (offset_width + target_width <= _size(given, 2), _TOO_LARGE.format("width")),
        ]
        given = _checked(given, rules)
        result = given[
            :,
            offset_height : offset_height + target_height,
            offset_width : offset_width + target_width,
            :,
        ]
        result.set_shape([None, *_sizes(target_height, target_width), None])
        return arrays.squeeze(result, [0]) if single else result


def _size(images: Tensor, axis: int) -> Any:
    """Returns one of the images' sizes: a number if it is known, else a tensor."""
    known = images.shape.as_list()[axis]
    return arrays.shape(images)[axis] if known is None else known


def _checked(images: Tensor, rules: Sequence[tuple[Any, str]]) -> Tensor:
    """Returns the images, as soon as the rules that only a step can check hold.

    Args:
        images: The images.
        rules: Conditions, truth values or scalar tensors, each with what is wrong otherwise.

    Raises:
        ValueError: A condition that is known already does not hold.
    """
    checks = []
    for holds, message in rules:
        if isinstance(holds, Symbolic):
            checks.append(Assert(holds, [message]))
        elif not holds:
            raise ValueError(message)
    return with_dependencies(checks, images) if checks else images


def _sizes(*targets: Any) -> list[int | None]:
    return [each if isinstance(each, int) else None for each in targets]


@export("image.pad_to_bounding_box")
def pad_to_bounding_box(
    image: Any, offset_height: Any, offset_width: Any, target_height: Any, target_width: Any
) -> Tensor:
    """Pads an image, or a batch, with zeros; it begins at the offsets in the target.

    Raises:
        ValueError: It does not fit.
    """
    graph = graph_of((image,))
    with graph.as_default(), graph.name_scope("pad_to_bounding_box"):
        given, single = _batch_of(image)
        after = [
            target - offset - _size(given, axis)
            for target, offset, axis in (
                (target_height, offset_height, 1),
                (target_width, offset_width, 2),
            )
        ]
        rules = [
            (offset_height >= 0, "offset_height must be >= 0"),
            (offset_width >= 0, "offset_width must be >= 0"),
            (after[0] >= 0, "height must be <= target - offset"),
            (after[1] >= 0, "width must be <= target - offset"),
        ]
        given = _checked(given, rules)
        widths = [0, 0, offset_height, after[0], offset_width, after[1], 0, 0]
        pairs = arrays.reshape(arrays.stack(widths), [4, 2])
        result = arrays.pad(given, pairs)
        result.set_shape([given.shape[0], *_sizes(target_height, target_width), given.shape[3]])
        return arrays.squeeze(result, [0]) if single else result


@export("image.resize_image_with_crop_or_pad", "image.resize_with_crop_or_pad")
def resize_image_with_crop_or_pad(image: Any, target_height: Any, target_width: Any) -> Tensor:
    """Centrally crops, or pads with zeros, an image or a batch to a size.

    The size is two integers or scalar tensors.

    Raises:
        ValueError: The size is not positive, or the rank is not 3 or 4.
    """
    graph = graph_of((image,))
    with graph.as_default(), graph.name_scope("resize_image_with_crop_or_pad"):
        given, single = _batch_of(image)
        for target in (target_height, target_width):
            if not isinstance(target, Symbolic) and target <= 0:
                raise ValueError("target_height and target_width must be > 0.")
        cut: list[Any] = []
        padded: list[Any] = []
        for axis, target in ((1, target_height), (2, target_width)):
            size = _size(given, axis)
            if isinstance(size, int) and not isinstance(target, Symbolic):
                cut.append((max((size - target) // 2, 0), min(size, target)))
                padded.append(max((target - size) // 2, 0))
            else:
                excess = elementwise.maximum((size - target) // 2, 0)
                cut.append((excess, elementwise.minimum(size, target)))
                padded.append(elementwise.maximum((target - size) // 2, 0))
        (top, rows), (left, columns) = cut
        cropped = given[:, top : top + rows, left : left + columns, :]
        result = pad_to_bounding_box(cropped, padded[0], padded[1], target_height, target_width)
        return arrays.squeeze(result, [0]) if single else result


resize_with_crop_or_pad = resize_image_with_crop_or_pad


@export("image.central_crop")
def central_crop(image: Any, central_fraction: float) -> Tensor:
    """Crops the central part of an image, or a batch, to a fraction of height and width.

    Raises:
        ValueError: The fraction is not in (0, 1].
    """
    if not 0.0 < central_fraction <= 1.0:
        raise ValueError("central_fraction must be within (0, 1]")
    given = convert_to_tensor(image, name="image")
    if central_fraction == 1.0:
        return given
    graph = given.graph
    with graph.as_default(), graph.name_scope("central_crop"):
        batch, single = _batched(given, "image")
        ends = []
        for axis in (1, 2):
            size = _size(batch, axis)
            if isinstance(size, int):
                start: Any = int((size - size * central_fraction) / 2)
            else:
                exact = elementwise.cast(size, float64)
                start = elementwise.cast((exact - exact * central_fraction) / 2, int32)
            ends.append((start, size - start))
        (top, bottom), (left, right) = ends
        result = batch[:, top:bottom, left:right, :]
        return arrays.squeeze(result, [0]) if single else result


@export("image.crop_and_resize")
def crop_and_resize(
    image: Any,
    boxes: Any,
    box_ind: Any = None,
    crop_size: Any = None,
    method: str = "bilinear",
    extrapolation_value: float = 0,
    name: str | None = None,
    box_indices: Any = None,
) -> Tensor:
    """Crops boxes from images and resizes each to `crop_size`.

    Args:
        image: [batch, height, width, depth].
        boxes: [boxes, 4] float32: y1, x1, y2, x2 as fractions of the size.
        box_ind: [boxes] int32, the image of each box.
        crop_size: [height, width] int32.
        method: `bilinear` or `nearest`.
        extrapolation_value: The value outside of images.
        name: Name of the node.
        box_indices: The newer name of `box_ind`.

    Returns:
        [boxes, height, width, depth] float32.
    """
    return output_of(
        "CropAndResize",
        image,
        boxes,
        either("box_indices", box_indices, "box_ind", box_ind),
        crop_size,
        method=method,
        extrapolation_value=extrapolation_value,
        name=name,
    )


@export("image.flip_left_right")
def flip_left_right(image: Any) -> Tensor:
    """Mirrors an image, or a batch, left to right."""
    return _flipped(image, 1, "flip_left_right")


@export("image.flip_up_down")
def flip_up_down(image: Any) -> Tensor:
    """Flips an image, or a batch, upside down."""
    return _flipped(image, 0, "flip_up_down")


def _flipped(image: Any, axis: int, name: str) -> Tensor:
    graph = graph_of((image,))
    with graph.as_default(), graph.name_scope(name):
        given = convert_to_tensor(image, name="image")
        result = arrays.reverse(given, [axis + _flip_rank(given) - 3])
        result.set_shape(given.shape if given.shape.ndims else [None] * 3)
        return result


def _flip_rank(image: Tensor) -> int:
    rank = 3 if image.shape.ndims is None else image.shape.ndims
    if rank not in (3, 4):
        raise ValueError(f"'image' must have either 3 or 4 dimensions, got {image.shape}")
    return rank


@export("image.random_flip_left_right")
def random_flip_left_right(image: Any, seed: int | None = None) -> Tensor:
    """Mirrors an image, or each image of a batch, with probability 1/2."""
    return _maybe_flipped(image, 1, seed, "random_flip_left_right")


@export("image.random_flip_up_down")
def random_flip_up_down(image: Any, seed: int | None = None) -> Tensor:
    """Flips an image, or each image of a batch, upside down with probability 1/2."""
    return _maybe_flipped(image, 0, seed, "random_flip_up_down")


def _maybe_flipped(image: Any, axis: int, seed: int | None, name: str) -> Tensor:
    graph = graph_of((image,))
    with graph.as_default(), graph.name_scope(name):
        given = convert_to_tensor(image, name="image")
        if _flip_rank(given) == 3:
            chance = random_uniform([], 0, 1.0, seed=seed)
            result: Tensor = cond(
                chance < 0.5, lambda: arrays.reverse(given, [axis]), lambda: given
            )
            result.set_shape(given.shape if given.shape.ndims else [None] * 3)
            return result
        chances = random_uniform([arrays.shape(given)[0]], 0, 1.0, seed=seed)
        flips = elementwise.cast(
            elementwise.round(arrays.reshape(chances, [-1, 1, 1, 1])), given.dtype.base
        )
        one = np.ones((), given.dtype.base.as_numpy_dtype)
        return flips * arrays.reverse(given, [axis + 1]) + (one - flips) * given


@export("image.transpose_image", "image.transpose")
def transpose_image(image: Any, name: str | None = None) -> Tensor:
    """Transposes rows and columns of an image, or a batch."""
    graph = graph_of((image,))
    with graph.as_default(), graph.name_scope(name or "transpose"):
        given, single = _batch_of(image)
        result = arrays.transpose(given, [0, 2, 1, 3])
        return arrays.squeeze(result, [0]) if single else result


transpose = transpose_image


@export("image.rot90")
def rot90(image: Any, k: Any = 1, name: str | None = None) -> Tensor:
    """Rotates an image, or a batch, `k` times by 90° counter-clockwise; `k` may be a tensor."""
    graph = graph_of((image,))
    with graph.as_default(), graph.name_scope(name or "rot90"):
        given, single = _batch_of(image)
        turns = [
            lambda: given,
            lambda: arrays.transpose(arrays.reverse(given, [2]), [0, 2, 1, 3]),
            lambda: arrays.reverse(given, [1, 2]),
            lambda: arrays.reverse(arrays.transpose(given, [0, 2, 1, 3]), [2]),
        ]
        if isinstance(k, Symbolic):
            turned = switch_case(elementwise.floormod(elementwise.cast(k, int32), 4), turns)
        else:
            turned = turns[int(k) % 4]()
        return arrays.squeeze(turned, [0]) if single else turned


@export("image.resize_image_with_pad")
def resize_image_with_pad(
    image: Any,
    target_height: int,
    target_width: int,
    method: Any = ResizeMethod.BILINEAR,
    align_corners: bool = False,
) -> Tensor:
    """Resizes an image, or a batch, with its aspect ratio to fit the target; pads with zeros.

    Raises:
        ValueError: The size is not positive, or the rank is not 3 or 4.
    """
    graph = graph_of((image,))
    with graph.as_default(), graph.name_scope("resize_image_with_pad"):
        given, single = _batch_of(image)
        if target_height <= 0 or target_width <= 0:
            raise ValueError("target_height and target_width must be > 0.")
        height, width = _size(given, 1), _size(given, 2)
        top: Any
        left: Any
        if isinstance(height, int) and isinstance(width, int):
            ratio = max(width / target_width, height / target_height)
            size: Any = [int(height / ratio), int(width / ratio)]
            top = max(0, int((target_height - height / ratio) / 2))
            left = max(0, int((target_width - width / ratio) / 2))
        else:
            exact = elementwise.cast(arrays.stack([height, width]), float32)
            targets = np.array([target_height, target_width], np.float32)
            shrunk = exact / reduce_max(exact / targets)
            size = elementwise.cast(elementwise.floor(shrunk), int32)
            margins = elementwise.cast(elementwise.floor((targets - shrunk) / 2), int32)
            top, left = arrays.unstack(elementwise.maximum(margins, 0))
        resized = resize_images(given, size, method, align_corners)
        result = pad_to_bounding_box(resized, top, left, target_height, target_width)
        return arrays.squeeze(result, [0]) if single else result

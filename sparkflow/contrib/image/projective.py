"""Images under projective transforms."""

from __future__ import annotations

from typing import Any, Final

import sparkflow as tf
from sparkflow.contrib.image.transforms import (
    angles_to_projective_transforms,
    translations_to_projective_transforms,
)

_DTYPES: Final = ("uint8", "int32", "int64", "float16", "float32", "float64")


def rotate(
    images: Any, angles: Any, interpolation: str = "NEAREST", name: str | None = None
) -> Any:
    """Returns images rotated about their middle; 0 where nothing of them comes to lie.

    Args:
        images: As for `transform`.
        angles: Radians, counterclockwise: a number, or one for each image.
        interpolation: As for `transform`.
        name: Name of the scope.

    Raises:
        TypeError, ValueError: As for `transform`.
    """
    with tf.name_scope(name, "rotate"):
        given = tf.convert_to_tensor(images)
        height, width = (tf.cast(each, tf.float32) for each in _size(_batch(given)))
        transforms = angles_to_projective_transforms(angles, height, width)
        return transform(given, transforms, interpolation)


def translate(
    images: Any, translations: Any, interpolation: str = "NEAREST", name: str | None = None
) -> Any:
    """Returns images moved to the right and down; 0 where nothing of them comes to lie.

    Args:
        images: As for `transform`.
        translations: Pixels, `[dx, dy]` or `[n, 2]`.
        interpolation: As for `transform`.
        name: Name of the scope.

    Raises:
        TypeError, ValueError: As for `transform`.
    """
    with tf.name_scope(name, "translate"):
        transforms = translations_to_projective_transforms(translations)
        return transform(images, transforms, interpolation)


def transform(
    images: Any,
    transforms: Any,
    interpolation: str = "NEAREST",
    output_shape: Any = None,
    name: str | None = None,
) -> Any:
    """Returns images under projective transforms; 0 where these point outside of them.

    Gradients are those of the images only.

    Args:
        images: `[height, width]`, `[height, width, channels]` or `[n, height, width, channels]` of
            uint8, int32, int64 or floats.
        transforms: `[8]`, or `[n, 8]`; see `sparkflow.contrib.image.transforms`.
        interpolation: "NEAREST" or "BILINEAR".
        output_shape: Height and width of the result; those of the images when None.
        name: Name of the scope.

    Raises:
        TypeError: Images are of another dtype or another number of dimensions.
        ValueError: Another interpolation, or another output shape.
    """
    with tf.name_scope(name, "transform"):
        given = tf.convert_to_tensor(images)
        if given.dtype.base_dtype.name not in _DTYPES:
            raise TypeError(f"Invalid dtype {given.dtype}. Images may be of {', '.join(_DTYPES)}.")
        if interpolation not in ("NEAREST", "BILINEAR"):
            raise ValueError(f'interpolation must be "NEAREST" or "BILINEAR". Got: {interpolation}')
        batch = _batch(given)
        size = tf.stack(_size(batch)) if output_shape is None else _checked(output_shape)
        rows = tf.convert_to_tensor(transforms, tf.float32)
        if rows.shape.ndims not in (1, 2):
            raise TypeError(f"Transforms should have rank 1 or 2, but got rank {rows.shape.ndims}")
        # A transform for all images becomes one for each.
        rows = tf.stop_gradient(tf.reshape(rows, [-1, 8]) + tf.zeros([tf.shape(batch)[0], 1]))
        y, x = _sources(rows, size)
        read = _nearest if interpolation == "NEAREST" else _bilinear
        found = read(batch, y, x)
        fixed = given if output_shape is None else None
        return _as_given(found, given, fixed, tf.contrib.util.constant_value(size))


def _batch(images: Any) -> Any:
    """Returns `[n, height, width, channels]`.

    Raises:
        TypeError: There is another number of dimensions.
    """
    rank = images.shape.ndims
    if rank == 2:
        return images[None, :, :, None]
    if rank == 3:
        return images[None]
    if rank == 4:
        return images
    raise TypeError(f"Images should have rank between 2 and 4. Got: {images.shape}")


def _size(batch: Any) -> list[Any]:
    """Returns height and width: numbers where they are known."""
    known = batch.shape.as_list()[1:3]
    dynamic = tf.shape(batch)
    return [dynamic[1 + axis] if size is None else size for axis, size in enumerate(known)]


def _checked(output_shape: Any) -> Any:
    size = tf.convert_to_tensor(output_shape, tf.int32)
    if not size.shape.is_compatible_with([2]):
        raise ValueError(f"output_shape must be height and width. Got: {output_shape}")
    return size


def _as_given(found: Any, given: Any, same: Any, size: Any) -> Any:
    """Returns the result with the images' dimensions, and with the shape that is known."""
    rank = given.shape.ndims
    if rank == 2:
        found = found[0, :, :, 0]
    elif rank == 3:
        found = found[0]
    if same is not None:
        found.set_shape(same.shape)
    elif size is not None:
        first = [None] if rank == 4 else []
        found.set_shape([*first, *size.tolist(), *([None] if rank > 2 else [])])
    return found


def _sources(transforms: Any, size: Any) -> tuple[Any, Any]:
    """Returns where each pixel of the result comes from: y and x, `[n, height, width]`.

    Far outside where the denominator is 0.
    """
    x = tf.cast(tf.range(size[1]), tf.float32)[None, None, :]
    y = tf.cast(tf.range(size[0]), tf.float32)[None, :, None]
    a0, a1, a2, b0, b1, b2, c0, c1 = (each[:, None, None] for each in tf.unstack(transforms, 8, 1))
    k = c0 * x + c1 * y + 1.0
    nowhere = tf.fill(tf.shape(k), -2.0)
    is_zero = tf.equal(k, 0.0)
    divisor = tf.where(is_zero, tf.ones_like(k), k)
    return (
        tf.where(is_zero, nowhere, (b0 * x + b1 * y + b2) / divisor),
        tf.where(is_zero, nowhere, (a0 * x + a1 * y + a2) / divisor),
    )


def _nearest(batch: Any, y: Any, x: Any) -> Any:
    # Halves are rounded away from 0, as C++ does.
    return _pixels(batch, *(tf.sign(each) * tf.floor(tf.abs(each) + 0.5) for each in (y, x)))


def _bilinear(batch: Any, y: Any, x: Any) -> Any:
    top, left = tf.floor(y), tf.floor(x)
    whole = tf.cast(batch, tf.float64 if batch.dtype.base_dtype == tf.float64 else tf.float32)
    down, right = (tf.cast(each, whole.dtype)[..., None] for each in (y - top, x - left))
    above = (1.0 - right) * _pixels(whole, top, left) + right * _pixels(whole, top, left + 1.0)
    below = (1.0 - right) * _pixels(whole, top + 1.0, left) + right * _pixels(
        whole, top + 1.0, left + 1.0
    )
    return tf.cast((1.0 - down) * above + down * below, batch.dtype)


def _pixels(batch: Any, y: Any, x: Any) -> Any:
    """Returns the pixels at whole positions: `[n, height, width, channels]`; 0 outside."""
    count, height, width, channels = tf.unstack(tf.shape(batch), 4)
    bottom, right = (tf.cast(each - 1, tf.float32) for each in (height, width))
    inside = (y >= 0.0) & (y <= bottom) & (x >= 0.0) & (x <= right)
    row, column = (
        tf.cast(tf.clip_by_value(each, 0.0, most), tf.int32)
        for each, most in ((y, bottom), (x, right))
    )
    first = tf.range(count)[:, None, None] * height
    places = (first + row) * width + column
    found = tf.gather(tf.reshape(batch, tf.stack([-1, channels])), places)
    return tf.where(
        tf.broadcast_to(inside[..., None], tf.shape(found)), found, tf.zeros_like(found)
    )

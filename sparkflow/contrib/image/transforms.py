"""Projective transforms: rows of 8 numbers, and matrices.

A transform `[a0, a1, a2, b0, b1, b2, c0, c1]` maps the point `(x, y)` of the output to
`((a0 x + a1 y + a2) / k, (b0 x + b1 y + b2) / k)` of the input, where `k = c0 x + c1 y + 1`.
"""

from __future__ import annotations

from typing import Any

import sparkflow as tf


def angles_to_projective_transforms(
    angles: Any, image_height: Any, image_width: Any, name: str | None = None
) -> Any:
    """Returns transforms that rotate images about their middle: `[n, 8]`.

    Args:
        angles: Radians, counterclockwise: a number, or `[n]`.
        image_height: A float32 scalar.
        image_width: A float32 scalar.
        name: Name of the scope.

    Raises:
        TypeError: There is no such number of dimensions.
    """
    with tf.name_scope(name, "angles_to_projective_transforms"):
        angles = _listed(tf.convert_to_tensor(angles, tf.float32), 0, "Angles")
        right, down = image_width - 1.0, image_height - 1.0
        cos, sin = tf.cos(angles), tf.sin(angles)
        zeros = tf.zeros_like(angles)
        x_offset = (right - (cos * right - sin * down)) / 2.0
        y_offset = (down - (sin * right + cos * down)) / 2.0
        return tf.stack([cos, -sin, x_offset, sin, cos, y_offset, zeros, zeros], axis=1)


def translations_to_projective_transforms(translations: Any, name: str | None = None) -> Any:
    """Returns transforms that move images: `[n, 8]`.

    Args:
        translations: To the right and down, in pixels: `[2]`, or `[n, 2]`.
        name: Name of the scope.

    Raises:
        TypeError: There is no such number of dimensions.
    """
    with tf.name_scope(name, "translations_to_projective_transforms"):
        moved = _listed(tf.convert_to_tensor(translations, tf.float32), 1, "Translations")
        dx, dy = tf.unstack(moved, num=2, axis=1)
        ones, zeros = tf.ones_like(dx), tf.zeros_like(dx)
        return tf.stack([ones, zeros, -dx, zeros, ones, -dy, zeros, zeros], axis=1)


def compose_transforms(*transforms: Any) -> Any:
    """Returns the transforms that do the same as several, one after another: `[n, 8]`.

    Args:
        *transforms: Each `[8]` or `[n, 8]`.

    Raises:
        ValueError: None is given.
    """
    if not transforms:
        raise ValueError("compose_transforms cannot compose an empty list")
    with tf.name_scope("compose_transforms"):
        composed = flat_transforms_to_matrices(transforms[0])
        for each in transforms[1:]:
            composed = tf.matmul(composed, flat_transforms_to_matrices(each))
        return matrices_to_flat_transforms(composed)


def flat_transforms_to_matrices(transforms: Any) -> Any:
    """Returns the matrices of transforms: `[n, 3, 3]`.

    Args:
        transforms: `[8]` or `[n, 8]`.

    Raises:
        TypeError: There is no such number of dimensions.
    """
    with tf.name_scope("flat_transforms_to_matrices"):
        rows = _listed(tf.convert_to_tensor(transforms, tf.float32), 1, "Transforms")
        return tf.reshape(tf.concat([rows, tf.ones_like(rows[:, :1])], axis=1), [-1, 3, 3])


def matrices_to_flat_transforms(transform_matrices: Any) -> Any:
    """Returns the transforms of matrices: `[n, 8]`. The last element of a matrix must not be 0.

    Args:
        transform_matrices: `[3, 3]` or `[n, 3, 3]`.

    Raises:
        TypeError: There is no such number of dimensions.
    """
    with tf.name_scope("matrices_to_flat_transforms"):
        given = tf.convert_to_tensor(transform_matrices, tf.float32)
        matrices = _listed(given, 2, "Matrices")
        rows = tf.reshape(matrices, [-1, 9])
        return rows[:, :8] / rows[:, 8:]


def _listed(given: Any, rank: int, what: str) -> Any:
    """Returns a tensor of one dimension more than `rank`.

    Raises:
        TypeError: It has neither `rank` dimensions nor one more.
    """
    if given.shape.ndims == rank:
        return given[None]
    if given.shape.ndims != rank + 1:
        raise TypeError(f"{what} should have rank {rank} or {rank + 1}, but got {given.shape}")
    return given

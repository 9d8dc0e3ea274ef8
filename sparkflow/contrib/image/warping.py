"""`dense_image_warp`: images whose pixels each come from a place of their own."""

from __future__ import annotations

from typing import Any

import sparkflow as tf


def dense_image_warp(image: Any, flow: Any, name: str = "dense_image_warp") -> Any:
    """Returns images whose pixel `(y, x)` is that at `(y, x) - flow[y, x]`, interpolated.

    Beyond the border are the pixels of the border. Images and flow have gradients.

    Args:
        image: `[n, height, width, channels]` floats, at least 2 × 2.
        flow: `[n, height, width, 2]` floats: down and right, in pixels.
        name: Name of the scope.

    Raises:
        InvalidArgumentError: While it runs: images are smaller.
    """
    with tf.name_scope(name):
        image, flow = tf.convert_to_tensor(image), tf.convert_to_tensor(flow)
        count, height, width, channels = tf.unstack(tf.shape(image), 4)
        y = tf.cast(tf.range(height), flow.dtype)[None, :, None] - flow[..., 0]
        x = tf.cast(tf.range(width), flow.dtype)[None, None, :] - flow[..., 1]
        with tf.control_dependencies(
            [tf.assert_greater_equal(tf.minimum(height, width), 2, message="images of 2 x 2")]
        ):
            row, down = _between(y, height)
            column, right = _between(x, width)
        flat = tf.reshape(image, tf.stack([-1, channels]))
        first = tf.range(count)[:, None, None] * height

        def pixels(dy: int, dx: int) -> Any:
            return tf.gather(flat, (first + row + dy) * width + column + dx)

        down, right = (tf.cast(each, image.dtype)[..., None] for each in (down, right))
        above = pixels(0, 0) + right * (pixels(0, 1) - pixels(0, 0))
        below = pixels(1, 0) + right * (pixels(1, 1) - pixels(1, 0))
        found = above + down * (below - above)
        found.set_shape(image.shape)
        return found


def _between(position: Any, size: Any) -> tuple[Any, Any]:
    """Returns the pixel before a position, and how far it is from there, 0 to 1."""
    most = tf.cast(size - 2, position.dtype)
    before = tf.clip_by_value(tf.floor(position), 0.0, most)
    return tf.cast(before, tf.int32), tf.clip_by_value(position - before, 0.0, 1.0)

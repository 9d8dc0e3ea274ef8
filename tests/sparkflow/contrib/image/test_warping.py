"""`dense_image_warp`, compared with a loop over pixels."""

import numpy as np
import pytest

import sparkflow as tf

RANDOM = np.random.RandomState(0)
IMAGES = RANDOM.rand(2, 5, 6, 3)
FLOW = RANDOM.randn(2, 5, 6, 2) * 2


def by_pixels(pictures, flow):
    found = np.zeros_like(pictures)
    _, height, width, _ = pictures.shape
    for n, i, j in np.ndindex(pictures.shape[:3]):
        y, x = np.clip([i - flow[n, i, j, 0], j - flow[n, i, j, 1]], 0, [height - 1, width - 1])
        top, left = min(int(y), height - 2), min(int(x), width - 2)
        down, right = y - top, x - left
        above = (1 - right) * pictures[n, top, left] + right * pictures[n, top, left + 1]
        below = (1 - right) * pictures[n, top + 1, left] + right * pictures[n, top + 1, left + 1]
        found[n, i, j] = (1 - down) * above + down * below
    return found


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_each_pixel_comes_from_where_the_flow_says(dtype):
    x = tf.placeholder(dtype, [None, None, None, 3])
    warped = tf.contrib.image.dense_image_warp(x, FLOW.astype(dtype))
    with tf.Session() as session:
        found = session.run(warped, {x: IMAGES})
    np.testing.assert_allclose(found, by_pixels(IMAGES, FLOW), atol=1e-5)


def test_images_and_flow_have_gradients():
    pictures, flow = tf.constant(IMAGES), tf.constant(FLOW)
    warped = tf.contrib.image.dense_image_warp(pictures, flow)
    with tf.Session():
        for given, value in ((pictures, IMAGES), (flow, FLOW)):
            error = tf.test.compute_gradient_error(
                given, value.shape, warped, IMAGES.shape, value, delta=1e-5
            )
            assert error < 1e-5


def test_images_of_one_pixel_are_refused():
    x = tf.placeholder(tf.float32, [None, None, None, 1])
    warped = tf.contrib.image.dense_image_warp(x, tf.zeros([1, 1, 4, 2]))
    with (
        tf.Session() as session,
        pytest.raises(tf.errors.InvalidArgumentError, match="2 x 2"),
    ):
        session.run(warped, {x: np.zeros((1, 1, 4, 1))})

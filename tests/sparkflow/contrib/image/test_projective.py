"""Images under transforms, compared with loops over pixels."""

import numpy as np
import pytest

import sparkflow as tf

image = tf.contrib.image
RANDOM = np.random.RandomState(0)
IMAGES = RANDOM.rand(3, 7, 9, 2)
SMALL = np.array([0.3, 0.3, 2, 0.3, 0.3, 2, 0.02, 0.02])
TRANSFORMS = np.float32([1, 0, 0, 0, 1, 0, 0, 0] + RANDOM.randn(3, 8) * SMALL)


def pixel(picture, y, x):
    height, width, _ = picture.shape
    inside = 0 <= y < height and 0 <= x < width
    return picture[int(y), int(x)] if inside else np.zeros(picture.shape[2])


def interpolated(picture, y, x, mode):
    if mode == "NEAREST":
        return pixel(picture, *(np.sign(each) * np.floor(abs(each) + 0.5) for each in (y, x)))
    top, left = np.floor(y), np.floor(x)
    return sum(
        abs(1 - dy - (y - top)) * abs(1 - dx - (x - left)) * pixel(picture, top + dy, left + dx)
        for dy in (0, 1)
        for dx in (0, 1)
    )


def by_pixels(pictures, transforms, mode, shape):
    found = np.zeros((len(pictures), *shape, pictures.shape[-1]))
    for n, (a0, a1, a2, b0, b1, b2, c0, c1) in enumerate(transforms):
        for y, x in np.ndindex(*shape):
            k = c0 * x + c1 * y + np.float32(1)
            if k != 0:
                source = (b0 * x + b1 * y + b2) / k, (a0 * x + a1 * y + a2) / k
                found[n, y, x] = interpolated(pictures[n], *source, mode)
    return found


@pytest.mark.parametrize("mode", ["NEAREST", "BILINEAR"])
@pytest.mark.parametrize("shape", [None, (5, 12)])
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "uint8", "int32", "int64"])
def test_each_pixel_comes_from_its_place(mode, shape, dtype):
    pictures = (IMAGES * (1 if "float" in dtype else 200)).astype(dtype)
    found = image.transform(pictures, TRANSFORMS, mode, shape)
    assert found.shape.as_list()[1:3] == list(shape or (7, 9))
    with tf.Session() as session:
        values = session.run(found)
    expected = by_pixels(pictures.astype(np.float64), TRANSFORMS, mode, shape or (7, 9))
    assert values.dtype == dtype
    if "float" in dtype:
        np.testing.assert_allclose(values, expected, atol=2e-3 if dtype == "float16" else 2e-5)
    else:
        assert np.abs(values - np.floor(expected + 1e-4)).max() <= (mode == "BILINEAR")


@pytest.mark.parametrize("shape", [(6, 6), (6, 6, 3), (2, 6, 6, 3)])
def test_a_quarter_turn_and_back(shape):
    given = RANDOM.rand(*shape).astype(np.float32)
    x = tf.placeholder(tf.float32, [None] * len(shape))
    with tf.Session() as session:
        found = session.run(image.rotate(x, np.pi / 2, "BILINEAR"), {x: given})
        back = session.run(image.rotate(x, [-np.pi / 2], "BILINEAR"), {x: found})
    axes = (1, 2) if len(shape) == 4 else (0, 1)
    np.testing.assert_allclose(found, np.rot90(given, 1, axes), atol=1e-5)
    np.testing.assert_allclose(back, given, atol=1e-5)


def test_images_move_right_and_down():
    with tf.Session() as session:
        moved = session.run(image.translate(IMAGES, [2.0, -1.0]))
        each = session.run(image.translate(IMAGES, [[2, -1], [0, 0], [9, 0]]))
    np.testing.assert_array_equal(moved[:, :-1, 2:], IMAGES[:, 1:, :-2])
    assert not moved[:, -1].any()
    assert not moved[:, :, :2].any()
    np.testing.assert_array_equal(each[0], moved[0])
    np.testing.assert_array_equal(each[1], IMAGES[1])
    assert not each[2].any()


@pytest.mark.parametrize("mode", ["NEAREST", "BILINEAR"])
def test_gradients_are_those_of_the_images(mode):
    pictures, transforms = tf.constant(IMAGES), tf.constant(TRANSFORMS)
    weights = RANDOM.rand(3, 5, 6, 2)
    loss = tf.reduce_sum(image.transform(pictures, transforms, mode, [5, 6]) * weights)
    by_images, by_transforms = tf.gradients(loss, [pictures, transforms])
    assert by_transforms is None
    direction = RANDOM.rand(*IMAGES.shape)
    with tf.Session() as session:
        slope = (session.run(by_images) * direction).sum()
        ahead, behind = (
            session.run(loss, {pictures: IMAGES + sign * direction}) for sign in (1, -1)
        )
    assert slope == pytest.approx((ahead - behind) / 2, rel=1e-6)


def test_what_cannot_be_transformed_is_refused():
    with pytest.raises(TypeError, match="rank between 2 and 4"):
        image.rotate(np.zeros(3, np.float32), 1.0)
    with pytest.raises(TypeError, match="Invalid dtype"):
        image.rotate(tf.zeros([3, 3], tf.complex64), 1.0)
    with pytest.raises(ValueError, match="BICUBIC"):
        image.rotate(IMAGES, 1.0, "BICUBIC")
    with pytest.raises(ValueError, match="height and width"):
        image.transform(IMAGES, TRANSFORMS, output_shape=[1, 2, 3])
    with pytest.raises(TypeError, match="rank 1 or 2"):
        image.transform(IMAGES, TRANSFORMS[None])

"""Boxes that do not fit are refused: at once if sizes are known, else by the step."""

import numpy as np
import pytest

import sparkflow as tf

IMAGE = np.arange(11 * 13 * 3, dtype=np.uint8).reshape(11, 13, 3)
INSIDE = [(2, 3, 4, 5), (0, 0, 11, 13), (10, 12, 1, 1)]
OUTSIDE = [(2, 3, 10, 5), (2, 3, 4, 11), (-1, 0, 2, 2), (0, -1, 2, 2), (0, 0, 0, 2), (0, 0, 2, -1)]


@pytest.mark.parametrize("known", ["all", "box", "none"])
@pytest.mark.parametrize("box", INSIDE + OUTSIDE)
def test_crops(box: tuple[int, int, int, int], known: str) -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        image = tf.constant(IMAGE) if known == "all" else tf.placeholder(tf.uint8, [None, None, 3])
        given = [tf.placeholder(tf.int32, []) for _ in box] if known == "none" else box
        feeds = {} if known == "all" else {image: IMAGE}
        if known == "none":
            feeds |= dict(zip(given, box, strict=True))

        def cropped() -> np.ndarray:
            return session.run(tf.image.crop_to_bounding_box(image, *given), feeds)

        top, left, height, width = box
        if box in INSIDE:
            np.testing.assert_array_equal(cropped(), IMAGE[top : top + height, left : left + width])
        else:
            with pytest.raises((ValueError, tf.errors.InvalidArgumentError), match="must be"):
                cropped()


@pytest.mark.parametrize("is_known", [True, False])
def test_padding_does_not_cut(is_known: bool) -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        image = tf.constant(IMAGE) if is_known else tf.placeholder(tf.uint8, [None, None, 3])
        feeds = {} if is_known else {image: IMAGE}
        found = session.run(tf.image.pad_to_bounding_box(image, 1, 2, 13, 15), feeds)
        np.testing.assert_array_equal(found, np.pad(IMAGE, ((1, 1), (2, 0), (0, 0))))
        with pytest.raises((ValueError, tf.errors.InvalidArgumentError), match="height must be"):
            session.run(tf.image.pad_to_bounding_box(image, 1, 2, 11, 15), feeds)

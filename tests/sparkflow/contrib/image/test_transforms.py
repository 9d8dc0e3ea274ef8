"""Transforms as rows and as matrices."""

import numpy as np
import pytest

import sparkflow as tf

image = tf.contrib.image
RANDOM = np.random.RandomState(0)


def value(tensor):
    with tf.Session() as session:
        return session.run(tensor)


def test_composed_transforms_do_what_each_does_after_the_other():
    pictures = RANDOM.rand(1, 5, 5, 1).astype(np.float32)
    turn = image.angles_to_projective_transforms(np.pi / 2, 5.0, 5.0)
    move = image.translations_to_projective_transforms([1.0, 2.0])
    both = image.transform(pictures, image.compose_transforms(turn, move))
    after = image.transform(image.transform(pictures, turn), move)
    np.testing.assert_allclose(*value([both, after]), atol=1e-5)
    with pytest.raises(ValueError, match="empty list"):
        image.compose_transforms()


def test_matrices_are_scaled_to_end_with_1():
    rows = RANDOM.rand(4, 8).astype(np.float32)
    matrices = value(image.flat_transforms_to_matrices(rows))
    np.testing.assert_array_equal(matrices.reshape(4, 9)[:, :8], rows)
    assert (matrices[:, 2, 2] == 1).all()
    back = value(image.matrices_to_flat_transforms(3 * matrices))
    np.testing.assert_allclose(back, rows, rtol=1e-6)
    assert value(image.matrices_to_flat_transforms(matrices[0])).shape == (1, 8)


def test_an_angle_keeps_the_middle_where_it_is():
    rows = value(image.angles_to_projective_transforms([0.3, 2.0], 7.0, 9.0))
    middle = np.float32([4, 3, 1])
    np.testing.assert_allclose(rows[:, :3] @ middle, [4, 4], rtol=1e-5)
    np.testing.assert_allclose(rows[:, 3:6] @ middle, [3, 3], rtol=1e-5)


@pytest.mark.parametrize(
    "convert",
    [
        lambda: image.angles_to_projective_transforms([[1.0]], 1.0, 1.0),
        lambda: image.translations_to_projective_transforms(1.0),
        lambda: image.flat_transforms_to_matrices([[[1.0] * 8]]),
        lambda: image.matrices_to_flat_transforms([1.0]),
    ],
)
def test_other_numbers_of_dimensions_are_refused(convert):
    with pytest.raises(TypeError, match="should have rank"):
        convert()

"""DrawBoundingBoxes(V2), ExtractGlimpse, SampleDistortedBoundingBoxV2 and selected boxes.

The ops are DrawBoundingBoxes, DrawBoundingBoxesV2, ExtractGlimpse, NonMaxSuppressionV5 and
CombinedNonMaxSuppression; more tests of them are in compatibility/test_networks.py.
"""

import numpy as np
import pytest

import sparkflow as tf

BOX = [[[0.25, 0.0, 0.75, 1.0]]]


@pytest.fixture(autouse=True)
def session():
    with tf.Graph().as_default(), tf.Session() as session:
        yield session


def test_boxes_are_drawn_in_the_colours_given():
    images = tf.zeros([1, 5, 5, 3])
    drawn = tf.image.draw_bounding_boxes(images, BOX, colors=[[0.1, 0.2, 0.3]]).eval()[0]
    assert (drawn[1] == np.float32([0.1, 0.2, 0.3])).all()
    assert not drawn[0].any()
    assert not drawn[2, 1:4].any()
    default = tf.image.draw_bounding_boxes(images, BOX)
    assert default.op.type == "DrawBoundingBoxes"
    assert default.eval()[0, 1, 0].tolist() == [1, 1, 0]
    with pytest.raises(tf.errors.InvalidArgumentError, match="Channel depth should be"):
        tf.image.draw_bounding_boxes(tf.zeros([1, 5, 5, 2]), BOX).eval()


def test_boxes_outside_are_cut():
    drawn = tf.image.draw_bounding_boxes(tf.zeros([1, 4, 4, 1]), [[[-1.0, 0.0, 0.4, 5.0]]]).eval()
    assert drawn[0, :, :, 0].tolist() == [[1, 0, 0, 0], [1, 1, 1, 1], [0] * 4, [0] * 4]


def test_glimpses_outside_hold_noise():
    x = np.arange(16, dtype=np.float32).reshape(1, 4, 4, 1)
    corner = tf.image.extract_glimpse(x, [2, 2], [[1.0, 2.0]], centered=False, normalized=False)
    assert corner.eval().ravel().tolist() == [6, 7, 10, 11]
    half = tf.image.extract_glimpse(x, [2, 2], [[-1.0, 0.0]], centered=False, normalized=False)
    for kept in (half, tf.image.extract_glimpse(x, [2, 2], [[-1.0, 0.0]], False, False, False)):
        assert kept.eval()[0, 1, :, 0].tolist() == [0, 1]


def test_windows_need_boxes_unless_the_image_will_do():
    empty = np.zeros((1, 0, 4), np.float32)
    with pytest.raises(tf.errors.InvalidArgumentError, match="No bounding boxes provided"):
        tf.image.sample_distorted_bounding_box([4, 4, 1], empty).begin.eval()
    whole = tf.image.sample_distorted_bounding_box(
        [4, 4, 1], empty, use_image_if_no_bounding_boxes=True, area_range=(2.0, 3.0)
    )
    assert whole.bboxes.eval().ravel().tolist() == [0, 0, 1, 1]


def test_results_are_padded_if_asked(session):
    boxes = np.array([[[[0, 0, 1, 2]], [[0, 0, 1, 2]]]], np.float32)
    scores = np.array([[[0.9, 0.1], [0.8, 0.2]]], np.float32)
    found = tf.image.combined_non_max_suppression(boxes, scores, 1, 9, pad_per_class=True)
    assert found.nmsed_scores.shape.as_list() == [1, 2]
    values = session.run(found)
    assert values.nmsed_boxes.max() == 1
    assert values.nmsed_classes.tolist() == [[0, 1]]
    np.testing.assert_allclose(values.nmsed_scores, [[0.9, 0.2]])
    assert values.valid_detections.tolist() == [2]

import io

import numpy as np
import pytest
from PIL import Image

import sparkflow as tf


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as graph:
        yield graph


def values_of(tensor):
    with tf.Session() as session:
        return tf.Summary.FromString(session.run(tensor)).value


def test_scalar_has_the_tag_of_its_scope_and_goes_into_the_collection(graph):
    with tf.name_scope("outer"):
        loss = tf.summary.scalar("my loss", tf.constant(2.5))
    (value,) = values_of(loss)
    assert (value.tag, value.simple_value) == ("outer/my_loss", 2.5)
    assert loss.op.type == "ScalarSummary"
    assert loss.name == "outer/my_loss:0"
    assert tf.get_collection(tf.GraphKeys.SUMMARIES) == [loss]


def test_family_stands_before_the_scope_and_before_the_tag():
    with tf.name_scope("outer"):
        loss = tf.summary.scalar("loss", 1.0, family="fam")
    assert loss.op.name == "outer/fam/loss"
    assert values_of(loss)[0].tag == "fam/outer/fam/loss"


def test_own_collections_replace_the_usual_one():
    loss = tf.summary.scalar("loss", 1.0, collections=["mine"])
    assert tf.get_collection("mine") == [loss]
    assert tf.get_collection(tf.GraphKeys.SUMMARIES) == []
    assert tf.summary.merge_all() is None


def test_merge_all_joins_what_is_in_the_collection():
    tf.summary.scalar("a", 1.0)
    tf.summary.histogram("b", [1.0, 2.0])
    merged = tf.summary.merge_all()
    assert merged.op.name == "Merge/MergeSummary"
    assert [value.tag for value in values_of(merged)] == ["a", "b"]
    assert [v.tag for v in values_of(tf.summary.merge_all(scope="b"))] == ["b"]


def test_merge_refuses_a_tag_that_is_there_twice():
    merged = tf.merge_summary([tf.scalar_summary("q", 1.0), tf.scalar_summary("q", 2.0)])
    with pytest.raises(tf.errors.InvalidArgumentError, match="Duplicate tag q found in summary"):
        values_of(merged)


def test_merge_of_nothing_is_refused():
    with pytest.raises(ValueError, match="shorter than minimum length 1"):
        tf.summary.merge([])


def test_image_is_scaled_and_encoded_as_png():
    image = np.array([[[0.0], [0.5]], [[1.0], [0.25]]], np.float32)
    first, second = values_of(tf.summary.image("i", np.stack([image, image * 3]), max_outputs=2))
    assert (first.tag, second.tag) == ("i/image/0", "i/image/1")
    assert (first.image.height, first.image.width, first.image.colorspace) == (2, 2, 1)
    pixels = np.array(Image.open(io.BytesIO(first.image.encoded_image_string)))
    np.testing.assert_array_equal(pixels, [[0, 127], [255, 63]])
    assert second.image.encoded_image_string == first.image.encoded_image_string


def test_audio_is_a_wave_file():
    (value,) = values_of(tf.summary.audio("a", [[0.0, 0.5, -1.0, 2.0]], 8000.0, max_outputs=1))
    assert value.tag == "a/audio"
    assert (value.audio.length_frames, value.audio.num_channels) == (4, 1)
    samples = np.frombuffer(value.audio.encoded_audio_string[44:], "<i2")
    assert samples.tolist() == [0, 16384, -32768, 32767]


def test_text_names_its_plugin():
    text = tf.summary.text("t", tf.constant(["x", "y"]))
    (value,) = values_of(text)
    assert text.op.type == "TensorSummaryV2"
    assert value.metadata.plugin_data.plugin_name == "text"
    assert list(value.tensor.string_val) == [b"x", b"y"]
    with pytest.raises(ValueError, match="to have dtype string, got <dtype: 'float32'>"):
        tf.summary.text("t", tf.constant(1.0))


def test_tensor_summary_keeps_the_metadata_it_was_given():
    metadata = tf.SummaryMetadata(display_name="shown")
    summary = tf.summary.tensor_summary(
        "t", tf.constant([1.0]), summary_description="why", summary_metadata=metadata
    )
    (value,) = values_of(summary)
    assert (value.metadata.display_name, value.metadata.summary_description) == ("shown", "why")
    assert metadata == tf.SummaryMetadata(display_name="shown")


def test_description_of_an_early_tensor_summary():
    node = tf.NodeDef(op="TensorSummary")
    node.attr["description"].s = b'{"typeHint": "hist"}'
    assert tf.summary.get_summary_description(node).type_hint == "hist"
    with pytest.raises(ValueError, match="Can't get_summary_description on Add"):
        tf.summary.get_summary_description(tf.NodeDef(op="Add"))


@pytest.mark.parametrize(
    ("add", "op_type", "tags"),
    [
        (lambda: tf.scalar_summary(["a b", "c"], [1.0, 2.0]), "ScalarSummary", ["a b", "c"]),
        (lambda: tf.histogram_summary("h", [1.0]), "HistogramSummary", ["h"]),
        (lambda: tf.image_summary("i", np.ones((1, 2, 2, 1))), "ImageSummary", ["i/image/0"]),
        (lambda: tf.audio_summary("a", [[0.0]], 8000.0, 1), "AudioSummaryV2", ["a/audio"]),
    ],
)
def test_names_of_tensorflow_0_take_tags_as_they_are(add, op_type, tags):
    with tf.name_scope("outer"):
        summary = add()
    assert summary.op.name == f"outer/{op_type}"
    assert [value.tag for value in values_of(tf.merge_all_summaries())] == tags

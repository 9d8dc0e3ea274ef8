"""Code points of strings, against Python's own codecs."""

import pytest

import sparkflow as tf

TEXTS = ["aé", "", "日本語", "🎉!"]


def run(make):
    with tf.Graph().as_default(), tf.Session() as session:
        return session.run(make())


@pytest.mark.parametrize("encoding", ["UTF-8", "UTF-16-BE", "UTF-32-BE"])
def test_decoding_gives_the_code_points(encoding):
    encoded = [each.encode(encoding) for each in TEXTS]
    found = run(lambda: tf.strings.unicode_decode(encoded, encoding))
    assert found.to_list() == [[ord(char) for char in each] for each in TEXTS]


def test_offsets_are_where_characters_begin():
    codes, places = run(lambda: tf.strings.unicode_decode_with_offsets("aé日", "UTF-8"))
    assert codes.tolist() == [ord(char) for char in "aé日"]
    assert places.tolist() == [0, 1, 3]


def test_characters_of_several_strings_are_ragged():
    chars, places = run(lambda: tf.strings.unicode_split_with_offsets(TEXTS, "UTF-8"))
    assert chars.to_list() == [[char.encode() for char in each] for each in TEXTS]
    assert places.to_list() == [[0, 1], [], [0, 3, 6], [0, 4]]


@pytest.mark.parametrize("encoding", ["UTF-8", "UTF-16-BE", "UTF-32-BE"])
def test_encoding_is_the_way_back(encoding):
    codes = [[ord(char) for char in text] for text in ("aé", "日本")]
    found = run(lambda: tf.strings.unicode_encode(codes, encoding))
    assert [each.decode(encoding) for each in found] == ["aé", "日本"]


def test_a_scalar_of_code_points_is_refused():
    with tf.Graph().as_default(), pytest.raises(ValueError, match="above 0"):
        tf.strings.unicode_encode(65, "UTF-8")

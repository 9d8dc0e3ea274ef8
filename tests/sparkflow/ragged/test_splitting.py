"""Splitting strings, against Python's own `split` and bytes."""

import pytest

import sparkflow as tf

TEXTS = ["a b  c", "", "one", " x y "]


def rows(sparse):
    found = [[] for _ in range(sparse.dense_shape[0])]
    for (row, _), value in zip(sparse.indices, sparse.values, strict=True):
        found[row].append(value.decode())
    return found


def run(make):
    with tf.Graph().as_default(), tf.Session() as session:
        return session.run(make())


def test_split_at_white_space_is_pythons():
    assert rows(run(lambda: tf.strings.split(TEXTS))) == [each.split() for each in TEXTS]


def test_split_at_a_separator_keeps_empty_parts():
    found = rows(run(lambda: tf.strings.split(["a,,b", "c"], ",")))
    assert found == [["a", "", "b"], ["c"]]
    assert rows(run(lambda: tf.strings.split(["a,b,c"], ",", maxsplit=1))) == [["a", "b,c"]]


def test_rows_can_be_ragged():
    found = run(lambda: tf.strings.split(TEXTS, result_type="RaggedTensor"))
    assert found.to_list() == [[part.encode() for part in each.split()] for each in TEXTS]


def test_string_split_takes_any_character_of_a_delimiter():
    found = rows(run(lambda: tf.string_split(["a;b,c", ",d"], ";,", skip_empty=False)))
    assert found == [["a", "b", "c"], ["", "d"]]
    assert rows(run(lambda: tf.string_split([",d"], ","))) == [["d"]]


def test_bytes_of_one_string_and_of_several():
    assert run(lambda: tf.strings.bytes_split("añ")).tolist() == [b"a", b"\xc3", b"\xb1"]
    assert run(lambda: tf.strings.bytes_split(["ab", ""])).to_list() == [[b"a", b"b"], []]


def test_other_results_and_ranks_are_refused():
    with tf.Graph().as_default():
        with pytest.raises(ValueError, match="result_type"):
            tf.strings.split(["a"], result_type="list")
        with pytest.raises(ValueError, match="reshape"):
            tf.strings.bytes_split([["a"]])

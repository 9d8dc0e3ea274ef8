import pytest

import sparkflow as tf

fc = tf.feature_column


def test_columns_of_a_feature_share_its_configuration():
    number = fc.numeric_column("n")
    columns = [
        number,
        fc.bucketized_column(number, [0.0]),
        fc.indicator_column(fc.categorical_column_with_hash_bucket("w", 10)),
        fc.embedding_column(fc.categorical_column_with_vocabulary_list("w", ["a"]), 2),
    ]
    assert fc.make_parse_example_spec(columns) == {
        "n": tf.FixedLenFeature((1,), tf.float32),
        "w": tf.VarLenFeature(tf.string),
    }


def test_a_feature_is_parsed_in_one_way():
    columns = [fc.numeric_column("x"), fc.categorical_column_with_identity("x", 3)]
    with pytest.raises(ValueError, match="different parse_spec for key x"):
        fc.make_parse_example_spec(columns)


def test_only_columns_are_taken():
    with pytest.raises(ValueError, match=r"must be FeatureColumn instances. Given: x"):
        fc.make_parse_example_spec(["x"])


def test_examples_are_parsed_by_it():
    weighted = fc.weighted_categorical_column(fc.categorical_column_with_hash_bucket("w", 10), "f")
    spec = fc.make_parse_example_spec([fc.numeric_column("n"), weighted])
    example = tf.train.Example()
    example.features.feature["n"].float_list.value.append(2.5)
    example.features.feature["w"].bytes_list.value.extend([b"a", b"b"])
    example.features.feature["f"].float_list.value.extend([0.25, 0.75])
    with tf.Graph().as_default(), tf.Session() as session:
        parsed = session.run(tf.parse_example([example.SerializeToString()], spec))
    assert parsed["n"].tolist() == [[2.5]]
    assert parsed["w"].values.tolist() == [b"a", b"b"]
    assert parsed["f"].values.tolist() == [0.25, 0.75]

import pytest

import sparkflow as tf
from sparkflow.feature_column.column import Features

fc = tf.feature_column


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as made:
        yield made


def ids(column, features):
    with tf.Session() as session:
        found = session.run(column.id_weights(Features(features)).ids)
    return [
        found.values[found.indices[:, 0] == row].tolist() for row in range(found.dense_shape[0])
    ]


def test_equal_combinations_have_one_category_and_others_mostly_not():
    column = fc.crossed_column(["a", "b"], 10_000)
    features = {"a": [["x"], ["x"], ["y"], ["x"]], "b": [["1"], ["2"], ["1"], ["1"]]}
    first, second, third, fourth = ids(column, features)
    assert first == fourth
    assert len({*first, *second, *third}) == 3
    assert all(0 <= each < 10_000 for each in (*first, *second, *third))


def test_several_words_are_all_combined():
    column = fc.crossed_column(["a", "b"], 10_000)
    (found,) = ids(column, {"a": [["x", "y"]], "b": [["1", "2"]]})
    assert len(set(found)) == 4


def test_the_key_of_the_hash_decides():
    features = {"a": [["x"]], "b": [["1"]]}
    found = [ids(fc.crossed_column(["a", "b"], 10_000, key), features) for key in (None, 1, 2, 1)]
    assert found[1] == found[3]
    assert found[0] != found[1] != found[2]


def test_categories_of_columns_are_crossed_by_their_numbers():
    buckets = fc.bucketized_column(fc.numeric_column("n"), [0.0])
    column = fc.crossed_column([buckets, "a"], 10_000)
    below, above, lower = ids(column, {"n": [[-1.0], [1.0], [-5.0]], "a": [["x"], ["x"], ["x"]]})
    assert below == lower
    assert below != above


def test_crosses_of_crosses_are_taken_apart():
    inner = fc.crossed_column(["b", "c"], 10)
    column = fc.crossed_column(["a", inner], 10_000)
    assert column.name == "a_X_b_X_c"
    assert column.leaves == ["a", "b", "c"]
    assert column.parse_example_spec.keys() == {"a", "b", "c"}
    features = {"a": [["x"]], "b": [["y"]], "c": [["z"]]}
    assert ids(column, features) == ids(fc.crossed_column(["a", "b", "c"], 10_000), features)


@pytest.mark.parametrize(
    ("keys", "size", "text"),
    [
        (["a", "b"], 0, "hash_bucket_size must be > 1"),
        (["a"], 10, "length > 1"),
        (["a", 3], 10, "Unsupported key type"),
    ],
)
def test_what_cannot_be_is_refused(keys, size, text):
    with pytest.raises(ValueError, match=text):
        fc.crossed_column(keys, size)


def test_hashes_are_not_hashed_again_and_weights_are_not_crossed():
    hashed = fc.categorical_column_with_hash_bucket("b", 10)
    with pytest.raises(ValueError, match="increase probability of collision"):
        fc.crossed_column(["a", hashed], 10)
    identity = fc.categorical_column_with_identity("b", 10)
    column = fc.crossed_column(["a", fc.weighted_categorical_column(identity, "w")], 10)
    with pytest.raises(ValueError, match="does not support weight_tensor"):
        ids(column, {"a": [["x"]], "b": [[1]], "w": [[0.5]]})

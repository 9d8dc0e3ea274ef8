from dataclasses import dataclass

import pytest

import sparkflow as tf
from sparkflow.feature_column.column import FeatureColumn, Features, sparse_input


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as made:
        yield made


@dataclass(frozen=True)
class Doubled(FeatureColumn):
    key: str

    @property
    def name(self):
        return f"{self.key}_doubled"

    def transform(self, features):
        MADE.append(self)
        return features.get(self.key) * 2


MADE = []


def test_what_columns_make_is_made_once():
    MADE.clear()
    features = Features({"x": [[1.0], [2.0]]})
    assert features.get(Doubled("x")) is features.get(Doubled("x"))
    assert [Doubled("x")] == MADE


def test_features_get_a_second_dimension():
    features = Features({"x": [1.0, 2.0], "y": [[1.0, 2.0]]})
    assert features.get("x").shape.as_list() == [2, 1]
    assert features.get("y").shape.as_list() == [1, 2]
    sparse = tf.SparseTensor([[0], [2]], ["a", "b"], [3])
    assert Features({"s": sparse}).get("s").shape.as_list() == [3, 1]


def test_of_an_unknown_rank_it_is_decided_when_it_runs():
    x = tf.placeholder(tf.float32)
    wide = Features({"x": x}).get("x")
    with tf.Session() as session:
        assert session.run(wide, {x: [1.0, 2.0]}).shape == (2, 1)
        assert session.run(wide, {x: [[1.0, 2.0]]}).shape == (1, 2)


@pytest.mark.parametrize(
    ("key", "kind", "text"),
    [
        ("missing", ValueError, "Feature missing is not in features"),
        (3, TypeError, 'must be either a "str" or "FeatureColumn"'),
        ("scalar", ValueError, "cannot have rank 0"),
    ],
)
def test_what_is_no_feature_is_refused(key, kind, text):
    with pytest.raises(kind, match=text):
        Features({"scalar": 1.0}).get(key)


@pytest.mark.parametrize(
    ("dense", "values", "places"),
    [
        ([["a", ""], ["", "b"]], [b"a", b"b"], [[0, 0], [1, 1]]),
        ([[1, -1], [0, 2]], [1, 0, 2], [[0, 0], [1, 0], [1, 1]]),
    ],
)
def test_nothing_stands_for_nothing(dense, values, places):
    with tf.Session() as session:
        found = session.run(sparse_input(tf.constant(dense)))
    assert found.values.tolist() == values
    assert found.indices.tolist() == places
    assert found.dense_shape.tolist() == [2, 2]

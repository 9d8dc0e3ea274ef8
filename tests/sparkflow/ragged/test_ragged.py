"""Ragged tensors against TensorFlow's results, in sessions, loops of feeds, eager execution."""

# ruff: noqa: S102, S307  (the code that is run is our own golden files)

import json
from pathlib import Path

import numpy as np
import pytest

import sparkflow as tf
from sparkflow.graph.default_stack import default_graphs
from sparkflow_runtime.testing.local_cluster import LocalCluster

GOLDEN = json.loads(
    (Path(__file__).parents[2] / "golden" / "front_end" / "ragged.json").read_text()
)


@pytest.fixture
def session():
    with tf.Graph().as_default(), tf.Session() as made:
        yield made


def described(value):
    if hasattr(value, "to_list"):
        return ["ragged", str(value.dtype), plain(value.to_list())]
    if isinstance(value, list | tuple):
        kind = type(value).__name__ if hasattr(value, "_fields") else "list"
        return [kind, *[described(each) for each in value]]
    array = np.asarray(value)
    return [str(array.dtype), list(array.shape), plain(array.tolist())]


def plain(value):
    if isinstance(value, list):
        return [plain(each) for each in value]
    return value.decode() if isinstance(value, bytes) else value


def close(value):
    """Converts numbers for comparison: the last digits of floats may differ."""
    if isinstance(value, list):
        return [close(each) for each in value]
    return pytest.approx(value, rel=1e-5, nan_ok=True) if isinstance(value, float) else value


@pytest.mark.parametrize("entry", GOLDEN["entries"], ids=lambda entry: entry["expression"])
def test_computes_what_tensorflow_computes(session, entry):
    names = {"tf": tf, "np": np}
    exec(GOLDEN["preamble"], names)
    found = eval(entry["expression"], names)
    if isinstance(found, int) or (isinstance(found, list) and not hasattr(found[0], "op")):
        assert found == entry["value"]
        return
    value = found if isinstance(found, tf.ragged.RaggedTensorValue) else session.run(found)
    assert described(value) == close(entry["value"])


def test_are_fed_and_fetched_again_and_again(session):
    x = tf.ragged.placeholder(tf.float32, 2)
    sums = tf.reduce_sum(x, axis=2)
    for rows in ([[[1.0, 2.0], []], [[3.0]]], [[], [[4.0]]], [[[5.0]]]):
        fed = tf.ragged.constant_value(rows, dtype=np.float32, ragged_rank=2)
        back, summed = session.run([x, sums], {x: fed})
        assert back.to_list() == rows
        assert summed.to_list() == [[sum(each) for each in row] for row in rows]
    with pytest.raises(ValueError, match="A RaggedTensor of ragged_rank 2 is fed"):
        session.run(sums, {x: np.zeros([2, 2])})


def test_run_on_another_server():
    with LocalCluster(num_ps=0, num_workers=1) as cluster, tf.Graph().as_default():
        rows = tf.ragged.constant([[1, 2], [], [3]])
        with tf.Session(cluster.target("worker", 0)) as session:
            assert session.run(rows + 1).to_list() == [[2, 3], [], [4]]
            assert session.run(rows.to_tensor()).tolist() == [[1, 2], [0, 0], [3, 0]]


def test_a_variable_learns_from_ragged_ids(session):
    table = tf.get_variable("table", [4, 2], initializer=tf.zeros_initializer())
    ids = tf.ragged.placeholder(tf.int64, 1)
    found = tf.nn.embedding_lookup(table, ids)
    loss = tf.reduce_sum(tf.square(tf.reduce_mean(found, axis=1) - 1.0))
    train = tf.train.GradientDescentOptimizer(0.1).minimize(loss)
    session.run(tf.global_variables_initializer())
    feed = {ids: tf.ragged.constant_value([[0, 1], [3]])}
    first = session.run(loss, feed)
    for _ in range(100):
        session.run(train, feed)
    assert session.run(loss, feed) < 0.05 * first
    assert session.run(table)[2].tolist() == [0, 0]


def test_rows_that_differ_are_refused_when_they_run(session):
    one, other = tf.ragged.constant([[1, 2], [3]]), tf.ragged.constant([[1], [2, 3]])
    with pytest.raises(tf.errors.InvalidArgumentError, match="identical ragged splits"):
        session.run(one + other)


@pytest.mark.usefixtures("session")
def test_wrong_uses_say_what_is_wrong():
    rows = tf.ragged.constant([[1, 2], [3]])
    with pytest.raises(ValueError, match="Cannot index into an inner ragged dimension"):
        _ = rows[:, 0]
    with pytest.raises(TypeError, match=r"ReverseV2 does not take ragged tensors. Use to_tensor"):
        tf.reverse(rows, [1])
    with pytest.raises(TypeError, match="Failed to convert object of type"):
        tf.convert_to_tensor(rows)
    with pytest.raises(ValueError, match="same nesting depth"):
        tf.ragged.constant([[1, 2], 3], ragged_rank=1)
    with pytest.raises(ValueError, match="is not broadcast to a ragged tensor"):
        _ = rows + tf.zeros([2, 2], tf.int32)
    with pytest.raises(ValueError, match="`lengths` or `padding`, but not both"):
        tf.RaggedTensor.from_tensor([[1]], lengths=[1], padding=0)
    with pytest.raises(ValueError, match="row_splits tensor may not be empty"):
        tf.RaggedTensor.from_row_splits([1], np.zeros(0, np.int64))
    with pytest.raises(ValueError, match="only supported in eager mode"):
        rows.to_list()


@pytest.mark.usefixtures("session")
def test_are_described():
    rows = tf.ragged.constant([[1, 2], [3]])
    spec = tf.type_spec_from_value(rows)
    assert spec == tf.RaggedTensorSpec([2, None], tf.int32, 1)
    assert spec.value_type is tf.RaggedTensor
    assert tf.RaggedTensorSpec([None, None], tf.int32).is_compatible_with(rows)
    assert not tf.RaggedTensorSpec([None, None], tf.float32).is_compatible_with(rows)
    assert not tf.RaggedTensorSpec([None, None, None], tf.int32, 2).is_compatible_with(rows)
    with pytest.raises(ValueError, match="must be less than rank"):
        tf.RaggedTensorSpec([None, None], tf.int32, 2)


def test_no_rows_at_all(session):
    empty = tf.RaggedTensor.from_row_splits(np.zeros([0], np.float32), [0])
    assert session.run(empty).to_list() == []
    assert session.run(empty.to_tensor()).shape == (0, 0)
    assert session.run(tf.reduce_sum(empty, axis=1)).shape == (0,)
    assert session.run(tf.concat([empty, empty], 0)).to_list() == []
    assert session.run(empty + 1.0).to_list() == []


@pytest.fixture
def _eager():
    kept, default_graphs.implicit = default_graphs.implicit, None
    tf.enable_eager_execution()
    try:
        yield
    finally:
        tf.disable_eager_execution()
        default_graphs.implicit = kept


@pytest.mark.usefixtures("_eager")
def test_are_lists_in_eager_execution():
    rows = tf.ragged.constant([[1, 2], [], [3]])
    assert (rows * 2).to_list() == [[2, 4], [], [6]]
    assert [each.tolist() for each in rows.numpy()] == [[1, 2], [], [3]]
    assert rows[:, :1].to_list() == [[1], [], [3]]
    assert repr(rows) == "<tf.RaggedTensor [[1, 2], [], [3]]>"


def test_a_placeholder_without_value_shape_becomes_dense(session):
    fed = tf.ragged.placeholder(tf.int32, 1)
    value = tf.ragged.constant_value([[1], [2, 3]])
    assert session.run(fed.to_tensor(), {fed: value}).tolist() == [[1, 0], [2, 3]]

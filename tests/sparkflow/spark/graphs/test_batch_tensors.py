"""Every kind of input in the graphs, against numpy: trained, evaluated and predicted."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import sparkflow as tf
from sparkflow.spark.cluster_layout import ClusterLayout
from sparkflow.spark.data.schema.row_format import EVAL_DATA, TRAIN_DATA, Input, RowFormat
from sparkflow.spark.graphs.batch_tensors import feed_features
from sparkflow.spark.graphs.evaluation import build_evaluation_graph
from sparkflow.spark.graphs.inference_graph import build_inference_graph
from sparkflow.spark.graphs.model_fn import ModelInputs
from sparkflow.spark.graphs.training_graph import build_training_graph
from sparkflow.spark.params.config import FitConfig
from sparkflow_runtime.errors import OutOfRangeError
from sparkflow_runtime.master.driver import DriverMaster
from sparkflow_runtime.testing.local_cluster import LocalCluster

SIZE = 50
WORDS = ["a", "b", "c"]
ROWS = RowFormat(
    (
        Input("image", "dense", "float32", (2, 2, 1)),
        Input("age", "dense", "int64", ()),
        Input("city name", "dense", "string", ()),
        Input("counts", "sparse", "float32", (SIZE,)),
        Input("ids", "ragged", "int64", ()),
        Input("words", "ragged", "string", ()),
        Input("amounts", "ragged", "float32", ()),
    ),
    Input("label", "dense", "float32", (2,)),
    Input("weight", "dense", "float32", ()),
    named=True,
)
IMAGES = np.arange(12, dtype=np.float32).reshape(3, 2, 2, 1)
AGES = np.array([3, 1, 2])
CITIES = np.array([b"x", b"yy", b"x"], object)
COUNTS = np.zeros((3, SIZE), np.float32)
COUNTS[0, [1, 7]] = [2.0, 3.0]
COUNTS[2, 49] = 4.0
IDS: list[list[int]] = [[4, 1], [], [0, 0, 2]]
TEXTS: list[list[str]] = [["a"], ["b", "a", "z"], []]
AMOUNTS: list[list[float]] = [[], [0.5, 1.5], [2.0]]
LABELS = np.array([[1, 0], [2, 1], [0, 3]], np.float32)
WEIGHTS = np.array([1.0, 0.5, 2.0], np.float32)


def ragged(rows: list[list[Any]], kind: Any) -> list[npt.NDArray[Any]]:
    """Indices, values and dense shape."""
    places = [(row, place) for row, items in enumerate(rows) for place in range(len(items))]
    values = [item for items in rows for item in items]
    longest = max(map(len, rows))
    return [
        np.array(places, np.int64).reshape(-1, 2),
        np.array(values, kind),
        np.array([len(rows), longest], np.int64),
    ]


def parts() -> dict[str, list[npt.NDArray[Any]]]:
    """The tensors of each input."""
    rows, places = np.nonzero(COUNTS)
    return {
        "image": [IMAGES],
        "age": [AGES],
        "city name": [CITIES],
        "counts": [
            np.stack([rows, places], 1).astype(np.int64),
            COUNTS[rows, places],
            np.array([3, SIZE], np.int64),
        ],
        "ids": ragged(IDS, np.int64),
        "words": ragged([[each.encode() for each in row] for row in TEXTS], object),
        "amounts": ragged(AMOUNTS, np.float32),
    }


def model_fn(features: Any, labels: Any, mode: str, weights: Any) -> Any:
    """Uses every input once: a sum per row, in two outputs."""
    assert set(features) == {each.name for each in ROWS.features}
    assert features["image"].shape.as_list() == [None, 2, 2, 1]
    assert features["age"].dtype == tf.int64
    assert features["counts"].get_shape().as_list() == [None, SIZE]
    assert features["words"].get_shape().as_list() == [None, None]
    table = tf.lookup.index_table_from_tensor(WORDS, num_oov_buckets=1)
    words = features["words"]
    numbers = tf.SparseTensor(words.indices, table.lookup(words.values), words.dense_shape)
    embedding = tf.get_variable("embedding", [5, 2], initializer=tf.ones_initializer())
    kernel = tf.get_variable("kernel", [SIZE, 2], initializer=tf.constant_initializer(0.5))
    spelled = tf.get_variable("spelled", [4, 2], initializer=tf.constant_initializer(0.25))
    output = (
        tf.reduce_sum(features["image"], [1, 2])
        + tf.cast(tf.expand_dims(features["age"], 1), tf.float32)
        + tf.cast(tf.expand_dims(tf.equal(features["city name"], "yy"), 1), tf.float32)
        + tf.sparse_tensor_dense_matmul(features["counts"], kernel)
        + tf.nn.safe_embedding_lookup_sparse(embedding, features["ids"], None, combiner="sum")
        + tf.nn.safe_embedding_lookup_sparse(spelled, numbers, None, combiner="sum")
        + tf.sparse_reduce_sum(features["amounts"], 1, keepdims=True)
    )
    if mode == tf.estimator.ModeKeys.PREDICT:
        assert labels is weights is None
        return tf.estimator.EstimatorSpec(mode, {"output": output})
    assert labels.shape.as_list() == [None, 2]
    loss = tf.losses.mean_squared_error(labels, output, tf.expand_dims(weights, 1))
    train_op = tf.train.GradientDescentOptimizer(0.01).minimize(loss)
    return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)


def output() -> npt.NDArray[Any]:
    """The output of the untrained model."""
    total = IMAGES.sum((1, 2, 3)) + AGES + (CITIES == b"yy") + COUNTS.sum(1) * 0.5
    total = total + [len(row) for row in IDS] + [0.25 * len(row) for row in TEXTS]
    total = total + [sum(row) for row in AMOUNTS]
    return np.repeat(total[:, None], 2, axis=1)


class Once:
    """A source with one batch of the rows above."""

    def __init__(self) -> None:
        tensors = [each for given in parts().values() for each in given]
        extra = len(ROWS.components) - len(tensors) - 3  # waited_s
        scalars = [np.float32(0.5)] * extra + [np.float32(3.0)]
        self._batches = iter([(*tensors, LABELS, WEIGHTS, *map(np.asarray, scalars))])

    def next_batch(self) -> tuple[npt.NDArray[Any], ...]:
        for batch in self._batches:
            return batch
        raise OutOfRangeError(message="End")

    def close(self) -> None:
        self._batches = iter(())


@pytest.fixture
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster(num_ps=1, num_workers=1, token="t") as made:
        yield made


def test_every_kind_of_input_trains_and_evaluates(cluster: LocalCluster) -> None:
    inputs = ModelInputs(ROWS, {}, seed=0)
    layout = ClusterLayout(1, 1)
    training = build_training_graph(model_fn, inputs, layout, FitConfig(sync_mode="async"))
    evaluation = build_evaluation_graph(model_fn, inputs, layout, training)
    for name in (TRAIN_DATA, EVAL_DATA):
        cluster.server("worker", 0).resources.put("", name, Once())
    driver = DriverMaster(cluster.cluster, "t")
    error = output() - LABELS
    # As in tf.losses: divided by the number of elements with a non-zero weight.
    loss = (WEIGHTS[:, None] * error**2).sum() / error.size
    try:
        session = driver.create_session(evaluation.replica(0, 1))
        trainer = driver.create_session(training.replica(0, 1))
        trainer.run([], {}, list(training.initializers))
        session.run([], {}, [evaluation.reset])
        session.run([], {}, list(evaluation.session_initializers))
        session.run([], {}, [evaluation.update])
        (found,) = session.run([evaluation.values["loss"]], {}, [])
        np.testing.assert_allclose(found, loss, rtol=1e-5)
        trainer.run([], {}, list(training.session_initializers))
        fetches = [training.loss, training.weight, training.waited_s]
        found = trainer.run(fetches, {}, [training.train_op])
        np.testing.assert_allclose(found[0], loss, rtol=1e-5)
        assert found[1] == 3.0
        kernel, embedding = trainer.run(["kernel:0", "embedding:0"], {}, [])
    finally:
        driver.close()
    slope = 2 * WEIGHTS[:, None] * error / error.size
    np.testing.assert_allclose(kernel, 0.5 - 0.01 * COUNTS.T @ slope, rtol=1e-4)
    wanted = np.ones((5, 2))
    for row, ids in enumerate(IDS):
        for each in ids:
            wanted[each] -= 0.01 * slope[row]
    np.testing.assert_allclose(embedding, wanted, rtol=1e-4)


def test_every_kind_of_input_predicts() -> None:
    inference = build_inference_graph(model_fn, ModelInputs(ROWS, {}, seed=0))
    assert inference.signature.named
    graph = tf.Graph()
    with graph.as_default():
        tf.import_graph_def(inference.graph_def, name="")
        feeds = {
            tensor: value
            for each in inference.signature.inputs
            for tensor, value in zip(each.tensors, parts()[each.name], strict=True)
        }
        values = {"embedding": 1.0, "kernel": 0.5, "spelled": 0.25}
        with tf.Session(graph=graph) as session:
            for name, value in values.items():
                variable = graph.get_tensor_by_name(f"{name}:0")
                session.run(tf.assign(variable, tf.fill(variable.shape, value)))
            session.run([graph.get_operation_by_name(n) for n in inference.signature.initializers])
            found = session.run(inference.signature.outputs[0].tensor, feeds)
    np.testing.assert_allclose(found, output(), rtol=1e-5)


def test_placeholders_have_names_that_graphs_can_have() -> None:
    rows = RowFormat((Input("größe (cm)", "ragged", "float32", ()),), None, None, named=True)
    with tf.Graph().as_default():
        batch, (fed,) = feed_features(rows)
        assert list(batch.features) == ["größe (cm)"]
        assert fed.tensors[1] == "features/gr__e__cm_/values:0"
        only = RowFormat((Input("features", "sparse", "float32", (9,)),), None, None, named=False)
        batch, (fed,) = feed_features(only)
        assert isinstance(batch.features, tf.SparseTensor)
        assert fed.tensors[0].endswith("/indices:0")

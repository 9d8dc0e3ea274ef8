"""Evaluation on two workers and two parameter servers, in threads of this process."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import sparkflow as tf
from sparkflow.spark.cluster_layout import ClusterLayout
from sparkflow.spark.data.schema.row_format import EVAL_DATA, Input, RowFormat
from sparkflow.spark.graphs.evaluation import EvaluationGraph, build_evaluation_graph
from sparkflow.spark.graphs.model_fn import ModelInputs
from sparkflow.spark.graphs.training_graph import TrainingGraph, build_training_graph
from sparkflow.spark.params.config import FitConfig
from sparkflow_runtime.errors import OutOfRangeError
from sparkflow_runtime.master.driver import DriverMaster, DriverSession
from sparkflow_runtime.testing.local_cluster import LocalCluster

ROWS = RowFormat(
    (Input("features", "dense", "float32", (3,)),),
    Input("label", "dense", "int64", ()),
    None,
    False,
)
INPUTS = ModelInputs(ROWS, params={}, seed=1)
LAYOUT = ClusterLayout(num_ps=2, num_workers=2)
Batch = tuple[npt.NDArray[Any], ...]


def model_fn(features: Any, labels: Any, mode: str) -> Any:
    """Two classes, with a table and, in both modes, metrics of the same names."""
    table = tf.lookup.StaticHashTable(
        tf.lookup.KeyValueTensorInitializer(
            tf.constant([0, 1], tf.int64), tf.constant([1, 0], tf.int64)
        ),
        -1,
    )
    swapped = table.lookup(labels)
    logits = tf.layers.dense(features, 2, name="layer")
    loss = tf.reduce_mean(
        tf.nn.sparse_softmax_cross_entropy_with_logits(labels=swapped, logits=logits)
    )
    classes = tf.argmax(logits, 1)
    if mode == tf.estimator.ModeKeys.TRAIN:
        tf.metrics.auc(labels, tf.nn.softmax(logits)[:, 1], num_thresholds=7, name="auc")
        train_op = tf.train.AdamOptimizer().minimize(loss)
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=train_op)
    metrics = {
        "accuracy": tf.metrics.accuracy(swapped, classes),
        # A different shape than in TRAIN: they must be separate variables.
        "auc": tf.metrics.auc(labels, tf.nn.softmax(logits)[:, 1], num_thresholds=9, name="auc"),
        "mean_label": tf.metrics.mean(labels),
    }
    return tf.estimator.EstimatorSpec(mode, loss=loss, eval_metric_ops=metrics)


class Batches:
    """A source with these batches."""

    def __init__(self, batches: list[Batch]) -> None:
        self._batches = iter(batches)

    def next_batch(self) -> Batch:
        for batch in self._batches:
            return batch
        raise OutOfRangeError(message="End")

    def close(self) -> None:
        self._batches = iter(())


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster(num_ps=2, num_workers=2, token="t") as made:
        yield made


@pytest.fixture
def driver(cluster: LocalCluster) -> Iterator[DriverMaster]:
    made = DriverMaster(cluster.cluster, "t")
    yield made
    made.close()
    for server in cluster.servers:
        server.resources.clear()


def batches(features: npt.NDArray[Any], labels: npt.NDArray[Any], size: int) -> list[Batch]:
    found = []
    for start in range(0, len(features), size):
        part = slice(start, start + size)
        rows = len(features[part])
        tail = [np.float32(0.0)] * (len(ROWS.components) - 3)  # waited_s
        found.append((features[part], labels[part], *tail, np.array(rows, np.float32)))
    return [tuple(np.asarray(each) for each in batch) for batch in found]


def sessions(driver: DriverMaster, graph: TrainingGraph | EvaluationGraph) -> list[DriverSession]:
    return [
        driver.create_session(
            graph.replica(worker, 2), device_filters=["/job:ps", f"/job:worker/task:{worker}"]
        )
        for worker in range(2)
    ]


def evaluated(
    cluster: LocalCluster,
    opened: list[DriverSession],
    graph: EvaluationGraph,
    shares: list[list[Batch]],
) -> dict[str, Any]:
    opened[0].run([], {}, [graph.reset])
    for worker, (session, share) in enumerate(zip(opened, shares, strict=True)):
        cluster.server("worker", worker).resources.put("", EVAL_DATA, Batches(share))
        session.run([], {}, list(graph.session_initializers))
        for _ in share:
            session.run([], {}, [graph.update])
    values = opened[0].run(list(graph.values.values()), {}, [])
    return dict(zip(graph.values, values, strict=True))


def test_all_workers_rows_are_counted_together(cluster: LocalCluster, driver: DriverMaster) -> None:
    training = build_training_graph(model_fn, INPUTS, LAYOUT, FitConfig(sync_mode="async"))
    graph = build_evaluation_graph(model_fn, INPUTS, LAYOUT, training)
    assert set(graph.values) == {"loss", "accuracy", "auc", "mean_label"}
    assert graph.variables == ("layer/kernel", "layer/bias")
    (first, second) = sessions(driver, training)
    first.run([], {}, list(training.initializers))
    kernel, bias = second.run(["layer/kernel:0", "layer/bias:0"], {}, [])

    generator = np.random.default_rng(3)
    features = generator.normal(size=(25, 3)).astype(np.float32)
    labels = generator.integers(0, 2, 25)
    shares = [batches(features[:19], labels[:19], 8), batches(features[19:], labels[19:], 8)]
    opened = sessions(driver, graph)
    found = evaluated(cluster, opened, graph, shares)

    logits = features @ kernel + bias
    wanted = logits - np.log(np.exp(logits).sum(1, keepdims=True))
    np.testing.assert_allclose(found["loss"], -wanted[np.arange(25), 1 - labels].mean(), rtol=1e-5)
    assert np.ndim(found["auc"]) == 0

    # The second evaluation does not include the first.
    shares = [batches(features[:3], labels[:3], 2), []]
    found = evaluated(cluster, opened, graph, shares)
    right = logits[:3].argmax(1) == 1 - labels[:3]
    np.testing.assert_allclose(found["accuracy"], right.mean(), rtol=1e-6)
    np.testing.assert_allclose(found["mean_label"], labels[:3].mean(), rtol=1e-6)


def test_variables_are_where_training_has_them() -> None:
    training = build_training_graph(model_fn, INPUTS, LAYOUT, FitConfig(sync_mode="async"))
    graph = build_evaluation_graph(model_fn, INPUTS, LAYOUT, training)
    devices = [
        {node.name: node.device for node in each.graph_def.node} for each in (training, graph)
    ]
    for name in graph.variables:
        assert devices[0][name] == devices[1][name]
    assert devices[1]["mean_loss/total"].startswith("/job:ps/task:")


def test_metrics_of_a_job_without_parameter_servers_meet_on_the_first_worker() -> None:
    layout = ClusterLayout(0, 2)
    training = build_training_graph(model_fn, INPUTS, layout, FitConfig(sync_mode="async"))
    graph = build_evaluation_graph(model_fn, INPUTS, layout, training)
    devices = {node.name: node.device for node in graph.graph_def.node}
    assert devices["mean_loss/total"] == devices["accuracy/total"] == "/job:worker/task:0"
    assert "task" not in devices["layer/kernel"]


def test_what_cannot_be_evaluated() -> None:
    training = build_training_graph(model_fn, INPUTS, LAYOUT, FitConfig(sync_mode="async"))

    def taken(features: Any, mode: str) -> Any:
        loss = tf.reduce_mean(tf.layers.dense(features, 2, name="layer"))
        return tf.estimator.EstimatorSpec(
            mode, loss=loss, eval_metric_ops={"loss": tf.metrics.mean(loss)}
        )

    def other(features: Any, mode: str) -> Any:
        loss = tf.reduce_mean(tf.layers.dense(features, 2, name="other"))
        return tf.estimator.EstimatorSpec(mode, loss=loss)

    def no_loss(features: Any, mode: str) -> Any:
        return tf.estimator.EstimatorSpec(mode, predictions={"x": features})

    for function, text in [
        (taken, "a metric called 'loss' in mode 'eval'"),
        (other, "variables other/bias, other/kernel in mode EVAL but not in mode TRAIN"),
        (no_loss, "loss"),
    ]:
        with pytest.raises(ValueError, match=text):
            build_evaluation_graph(function, INPUTS, LAYOUT, training)

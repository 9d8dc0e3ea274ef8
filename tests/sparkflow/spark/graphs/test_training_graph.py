"""From `model_fn` to graphs, without Spark."""

from collections.abc import Callable
from typing import Any

import pytest

import sparkflow as tf
from sparkflow.spark.cluster_layout import ClusterLayout
from sparkflow.spark.data.schema.row_format import Input, RowFormat
from sparkflow.spark.graphs.inference_graph import build_inference_graph, require_same_variables
from sparkflow.spark.graphs.model_fn import ModelInputs
from sparkflow.spark.graphs.training_graph import build_training_graph
from sparkflow.spark.params.config import FitConfig
from sparkflow_runtime.ops import registry

ROWS = RowFormat(
    (Input("features", "dense", "float32", (4,)),),
    Input("label", "dense", "int64", ()),
    None,
    False,
)
INPUTS = ModelInputs(ROWS, params={"units": 3}, seed=7)
ASYNC, SYNC = FitConfig(sync_mode="async"), FitConfig(sync_mode="sync")
ONE_PS = ClusterLayout(num_ps=1, num_workers=2)


def model_fn(features: Any, labels: Any, mode: str, params: dict[str, Any]) -> Any:
    """A layer of `units` classes."""
    assert features.shape.as_list() == [None, 4]
    assert features.dtype == tf.float32
    logits = tf.layers.dense(features, params["units"], name="layer")
    if mode == tf.estimator.ModeKeys.PREDICT:
        assert labels is None
        return tf.estimator.EstimatorSpec(mode, predictions={"logits": logits})
    assert labels.dtype == tf.int64
    assert labels.shape.as_list() == [None]
    loss = tf.reduce_mean(
        tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
    )
    step = tf.train.get_or_create_global_step()
    return tf.estimator.EstimatorSpec(
        mode, loss=loss, train_op=tf.train.AdamOptimizer().minimize(loss, global_step=step)
    )


def test_computation_is_on_the_worker_and_variables_on_parameter_servers() -> None:
    graph = build_training_graph(model_fn, INPUTS, ClusterLayout(2, 2), ASYNC)
    devices = {node.name: node.device for node in graph.graph_def.node}
    assert devices["layer/kernel"] == "/job:ps/task:0"
    assert devices["layer/kernel/Adam"] == "/job:ps/task:0"
    # The kernel is larger than all others together, so these are on the other server.
    assert devices["layer/bias"] == devices["global_step"] == "/job:ps/task:1"
    assert {devices[name.partition(":")[0]] for name in (graph.loss, graph.weight)} == {
        "/job:worker"
    }
    assert {"layer/kernel", "layer/bias", "global_step", "layer/kernel/Adam"} <= set(
        graph.variables
    )
    assert graph.replica(0, 2) == graph.graph_def


def test_replicas_of_a_synchronous_graph_differ_in_their_numbers() -> None:
    graph = build_training_graph(model_fn, INPUTS, ONE_PS, SYNC)
    first, second = graph.replica(0, 2), graph.replica(1, 2)
    different = {a.op for a, b in zip(first.node, second.node, strict=True) if a != b}
    assert {"GradientRoundsMeet", "GradientRoundsRelease", "RandomUniform"} <= different
    by_replica = {op.op_type for op in registry.all_ops() if "replica" in op.attrs}
    assert different <= by_replica | {"RandomUniform"}
    counts = [n.attr["num_replicas"].i for n in first.node if n.op == "GradientRounds"]
    assert counts == [2]


def test_the_inference_graph_has_the_same_variables() -> None:
    training = build_training_graph(model_fn, INPUTS, ONE_PS, ASYNC)
    inference = build_inference_graph(model_fn, INPUTS)
    assert inference.variables == ("layer/kernel", "layer/bias")
    (output,) = inference.signature.outputs
    assert (output.name, output.dtype, output.shape) == ("logits", "float32", (3,))
    require_same_variables(training, inference)


def test_other_variables_in_predict_mode_are_refused() -> None:
    def forgetful(features: Any, labels: Any, mode: str) -> Any:
        logits = tf.layers.dense(features, 3, name=mode)
        loss = tf.reduce_mean(logits)
        train_op = tf.train.GradientDescentOptimizer(1.0).minimize(loss)
        return tf.estimator.EstimatorSpec(mode, {"logits": logits}, loss, train_op)

    training = build_training_graph(forgetful, INPUTS, ONE_PS, ASYNC)
    inference = build_inference_graph(forgetful, INPUTS)
    with pytest.raises(ValueError, match="variables infer/bias, infer/kernel in mode PREDICT but"):
        require_same_variables(training, inference)


def test_model_fn_gets_only_the_arguments_it_takes() -> None:
    def encoder(features: Any, mode: str) -> Any:
        code = tf.layers.dense(features, 1, name="code")
        loss = tf.reduce_mean(tf.square(code))
        train_op = tf.train.GradientDescentOptimizer(1.0).minimize(loss)
        return tf.estimator.EstimatorSpec(mode, {"code": code}, loss, train_op)

    def anything(features: Any, **others: Any) -> Any:
        assert sorted(others) == ["labels", "mode", "params", "weights"]
        return encoder(features, others["mode"])

    for function in (encoder, anything):
        build_training_graph(function, INPUTS, ONE_PS, ASYNC)
        assert build_inference_graph(function, INPUTS).variables == ("code/kernel", "code/bias")


@pytest.mark.parametrize(
    ("function", "kind", "text"),
    [
        (lambda features: None, TypeError, "must return a tf.estimator.EstimatorSpec, .* NoneType"),
        (
            lambda features: tf.estimator.EstimatorSpec("infer", {"x": tf.constant(1.0)}),
            ValueError,
            r"The prediction 'x' has shape \(\); it must have one row per row",
        ),
        (
            lambda features: tf.estimator.EstimatorSpec(
                "infer", {"x": tf.reshape(features, [2, 2])}
            ),
            ValueError,
            r"has shape \(2, 2\)",
        ),
        (
            lambda features: tf.estimator.EstimatorSpec("eval", loss=tf.reduce_sum(features)),
            ValueError,
            "called in mode 'infer' and returned a spec of mode 'eval'",
        ),
    ],
)
def test_wrong_specs(function: Callable[..., Any], kind: type[Exception], text: str) -> None:
    with pytest.raises(kind, match=text):
        build_inference_graph(function, INPUTS)


def test_sync_mode_needs_an_optimizer() -> None:
    def by_hand(features: Any, mode: str) -> Any:
        weight = tf.get_variable("w", [], initializer=tf.zeros_initializer())
        return tf.estimator.EstimatorSpec(
            mode, loss=tf.reduce_sum(features), train_op=tf.assign_add(weight, 1.0)
        )

    with pytest.raises(ValueError, match="syncMode='sync' the train_op must come from"):
        build_training_graph(by_hand, INPUTS, ONE_PS, SYNC)

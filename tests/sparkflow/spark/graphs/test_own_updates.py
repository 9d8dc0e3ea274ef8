"""Updates that no optimizer made, where workers train in step."""

import logging
from collections.abc import Callable
from typing import Any

import pytest

import sparkflow as tf
from sparkflow.spark.cluster_layout import ClusterLayout
from sparkflow.spark.data.schema.row_format import Input, RowFormat
from sparkflow.spark.graphs.model_fn import ModelInputs
from sparkflow.spark.graphs.training_graph import build_training_graph
from sparkflow.spark.params.config import FitConfig

ROWS = RowFormat(
    (Input("features", "dense", "float32", (4,)),),
    Input("label", "dense", "float32", ()),
    None,
    False,
)
INPUTS = ModelInputs(ROWS, params={}, seed=7)
MODES = ["sync", "ssp", "allreduce"]
Update = Callable[[Any, Any, Any], Any]


def build(update: Update, mode: str) -> None:
    def model_fn(features: Any, labels: Any, mode: str, params: dict[str, Any]) -> Any:
        v, w = (tf.get_variable(name, [4]) for name in "vw")
        tf.get_variable("counter", [], trainable=False)
        loss = tf.reduce_mean(tf.square(tf.reduce_sum(features * v * w, axis=1) - labels))
        return tf.estimator.EstimatorSpec(mode, loss=loss, train_op=update(loss, v, w))

    layout = ClusterLayout(0 if mode == "allreduce" else 1, 2)
    build_training_graph(model_fn, INPUTS, layout, FitConfig(sync_mode=mode))


def by_hand(loss: Any, variable: Any) -> Any:
    gradient: Any = tf.gradients(loss, [variable])[0]
    return tf.assign_sub(variable, 0.1 * gradient)


def sgd(loss: Any, *variables: Any) -> Any:
    return tf.train.GradientDescentOptimizer(0.1).minimize(loss, var_list=list(variables))


def unused(loss: Any, v: Any, w: Any) -> Any:
    sgd(loss, v, w)
    return tf.group(by_hand(loss, v), by_hand(loss, w))


def counting(loss: Any, v: Any, w: Any) -> Any:
    with tf.variable_scope("", reuse=True):
        counter = tf.get_variable("counter", [])
    with tf.control_dependencies([sgd(loss, v, w)]):
        return tf.assign_add(counter, 1.0)


def two_optimizers(loss: Any, v: Any, w: Any) -> Any:
    one = tf.train.AdamOptimizer(0.1)
    other = tf.train.GradientDescentOptimizer(0.1)
    return tf.group(one.minimize(loss, var_list=[v]), other.minimize(loss, var_list=[w]))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    "update", [unused, lambda loss, v, w: tf.group(by_hand(loss, v), by_hand(loss, w))]
)
def test_a_step_without_an_optimizer_is_refused(update: Update, mode: str) -> None:
    with pytest.raises(ValueError, match="must come from an optimizer's minimize"):
        build(update, mode)


@pytest.mark.parametrize("mode", MODES)
def test_a_variable_that_is_changed_beside_the_optimizer_is_named(
    mode: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        build(lambda loss, v, w: tf.group(sgd(loss, v), by_hand(loss, w)), mode)
    (record,) = caplog.records
    assert "changes the trainable variable w, but not by an optimizer's" in record.getMessage()


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("update", [sgd, counting, two_optimizers])
def test_nothing_is_said_of_others(
    update: Update, mode: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        build(update, mode)
    assert not caplog.records

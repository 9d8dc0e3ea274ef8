"""Heads and networks without Spark: losses, weights, penalties and predictions against numpy."""

from typing import Any

import numpy as np
import pytest

import sparkflow as tf
from sparkflow.estimator.canned.models import linear_logits
from sparkflow.spark.data.schema.row_format import Input, RowFormat
from sparkflow.spark.estimators.feature_columns import InputColumns, require_numbers
from sparkflow.spark.estimators.heads import Objective, classifier_model_fn, regressor_model_fn
from sparkflow.spark.estimators.ready import SparkDNNClassifier, deep_network
from sparkflow.spark.estimators.statistics import Moments

X = np.array([[1.0, 2.0], [3.0, -1.0], [0.0, 0.5]], np.float32)
WEIGHTS = np.array([1.0, 3.0, 0.0], np.float32)


def descent(rate: float) -> Any:
    return lambda loss: tf.train.GradientDescentOptimizer(rate).minimize(loss)


def constant_logits(values: Any) -> Any:
    return lambda features, mode: tf.constant(values, tf.float32)


def run(model_fn: Any, mode: str, labels: Any = None, weights: Any = None) -> Any:
    """Returns the values of a spec's fetches, after its step if there is one."""
    with tf.Graph().as_default(), tf.Session() as session:
        given = None if labels is None else tf.constant(labels)
        spec = model_fn(
            tf.constant(X), given, mode, None if weights is None else tf.constant(weights)
        )
        session.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
        if mode == "infer":
            return session.run(spec.predictions)
        loss = session.run(spec.loss)
        if mode == "train":
            session.run(spec.train_op)
            return loss, {v.op.name: session.run(v) for v in tf.trainable_variables()}
        session.run([update for _, update in spec.eval_metric_ops.values()])
        return loss, {name: session.run(value) for name, (value, _) in spec.eval_metric_ops.items()}


def test_a_weighted_loss_is_the_mean_of_the_rows_not_of_the_weights() -> None:
    logits = np.array([2.0, -1.0, 0.5])
    objective = Objective(descent(0.1), mean_weight=2.0)
    model_fn = classifier_model_fn(constant_logits(logits), 2, objective)
    loss, metrics = run(model_fn, "eval", np.array([1.0, 1.0, 0.0], np.float32), WEIGHTS)
    expected = np.log1p(np.exp([-2.0, 1.0, 0.5]))
    assert loss == pytest.approx(np.sum(expected * WEIGHTS / 2.0) / 3, rel=1e-6)
    assert metrics["accuracy"] == pytest.approx(1 / 4)
    assert metrics["average_loss"] == pytest.approx(np.average(expected, weights=WEIGHTS), rel=1e-6)


@pytest.mark.parametrize("logits", [[[1.0, 3.0], [2.0, 0.0], [0.0, 0.0]], [2.0, -2.0, 0.0]])
def test_two_logits_are_a_choice_and_one_is_that_of_class_1(logits: Any) -> None:
    model_fn = classifier_model_fn(constant_logits(logits), 2, Objective(descent(0.1)))
    loss, metrics = run(model_fn, "eval", [1, 0, 1])
    p = 1 / (1 + np.exp([-2.0, 2.0, 0.0]))
    assert loss == pytest.approx(-np.mean(np.log([p[0], 1 - p[1], p[2]])), rel=1e-6)
    assert metrics["accuracy"] == pytest.approx(2 / 3)
    found = run(model_fn, "infer")
    probability = found["probability"]
    np.testing.assert_allclose(
        probability if probability.ndim == 1 else probability[:, 1], p, rtol=1e-6
    )
    np.testing.assert_array_equal(found["prediction"], [1, 0, 0])
    np.testing.assert_array_equal(found["rawPrediction"], logits)


def test_many_classes() -> None:
    logits = np.array([[1.0, 2.0, 0.0], [0.0, 0.0, 5.0], [1.0, 0.0, 0.0]])
    model_fn = classifier_model_fn(constant_logits(logits), 3, Objective(descent(0.1)))
    loss, metrics = run(model_fn, "eval", [1, 2, 2])
    p = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    assert loss == pytest.approx(-np.mean(np.log(p[[0, 1, 2], [1, 2, 2]])), rel=1e-6)
    assert metrics["accuracy"] == pytest.approx(2 / 3)
    found = run(model_fn, "infer")
    np.testing.assert_allclose(found["probability"], p, rtol=1e-6)
    np.testing.assert_array_equal(found["prediction"], [1, 2, 0])


@pytest.mark.parametrize(
    ("logits", "classes", "message"),
    [
        (np.zeros((3, 2)), 3, r"num_classes=3 the network must return \[batch, 3\]; it returned"),
        (np.zeros((3, 3)), 2, r"\[batch, 1\] or \[batch, 2\] or \[batch\]; it returned"),
        (np.zeros(3), 3, r"must return \[batch, 3\]; it returned"),
    ],
)
def test_logits_of_another_shape_are_refused(logits: Any, classes: int, message: str) -> None:
    model_fn = classifier_model_fn(constant_logits(logits), classes, Objective(descent(0.1)))
    with pytest.raises(ValueError, match=message):
        run(model_fn, "infer")


def test_a_regression_learns_in_a_unit_of_its_own_and_answers_in_the_labels() -> None:
    unit = Moments(np.array([100.0], np.float32), np.array([10.0], np.float32))
    model_fn = regressor_model_fn(constant_logits([0.5, -1.0, 0.0]), Objective(descent(0.1)), unit)
    labels = np.array([110.0, 90.0, 95.0], np.float32)
    np.testing.assert_allclose(run(model_fn, "infer")["prediction"], [105, 90, 100])
    loss, metrics = run(model_fn, "eval", labels)
    assert loss == pytest.approx(np.mean([0.25, 0.0, 0.25]))
    assert metrics["rmse"] == pytest.approx(np.sqrt(np.mean([25, 0, 25])))
    assert metrics["mae"] == pytest.approx(10 / 3)
    assert metrics["average_loss"] == pytest.approx(50 / 3)
    with pytest.raises(ValueError, match=r"For a regression the network must return \[batch, 1\]"):
        run(regressor_model_fn(constant_logits(np.zeros((3, 2))), Objective(descent(0.1))), "infer")


def _format(*inputs: Input, named: bool) -> RowFormat:
    return RowFormat(inputs, Input("label", "dense", "float32", ()), None, named)


def test_a_step_goes_down_the_penalized_loss() -> None:
    start = np.array([[1.0], [-2.0]], np.float32)

    def linear(features: Any, mode: str) -> Any:
        weights = tf.get_variable("w", initializer=start)
        bias = tf.get_variable("b", initializer=np.array([0.5], np.float32))
        return tf.matmul(features, weights) + bias

    objective = Objective(descent(1.0), reg_param=0.3, elastic_net_param=0.25)
    labels = np.array([1.0, 2.0, 3.0], np.float32)
    _, found = run(regressor_model_fn(linear, objective), "train", labels)
    error = X @ start[:, 0] + 0.5 - labels
    gradient = 2 * X.T @ error / 3 + 0.3 * (0.25 * np.sign(start) + 0.75 * start)[:, 0]
    np.testing.assert_allclose(found["w"][:, 0], start[:, 0] - gradient, rtol=1e-5)
    np.testing.assert_allclose(found["b"], 0.5 - 2 * error.mean(), rtol=1e-5)


def test_penalties_and_updates_of_the_network_take_part() -> None:
    def network(features: Any, mode: str) -> Any:
        weights = tf.get_variable("w", initializer=np.zeros((2, 1), np.float32))
        counter = tf.get_variable("n", initializer=0.0)  # trained only by its penalty
        tf.add_to_collection(tf.GraphKeys.REGULARIZATION_LOSSES, 4.0 * counter)
        moving = tf.get_variable("moving", initializer=1.0, trainable=False)
        tf.add_to_collection(tf.GraphKeys.UPDATE_OPS, tf.assign_add(moving, 2.0))
        return tf.matmul(features, weights) + tf.stop_gradient(moving)

    _, found = run(
        regressor_model_fn(network, Objective(descent(0.5))), "train", np.zeros(3, np.float32)
    )
    assert found["n"] == -2.0


def test_inputs_of_all_kinds_reach_the_networks() -> None:
    """Unusual names, scalars, images and sparse vectors; standardized as specified."""
    row_format = _format(
        Input("a b", "dense", "float32", ()),
        Input("a_b", "dense", "float32", (1, 2)),
        Input("words", "sparse", "float32", (4,)),
        named=True,
    )
    moments = {
        "a b": Moments(np.array([2.0], np.float32), np.array([4.0], np.float32)),
        "words": Moments(np.zeros(4, np.float32), np.array([1, 2, 4, 8], np.float32)),
    }
    inputs = InputColumns(row_format, moments)
    columns = [inputs.numbers(each, None) for each in row_format.features]
    with tf.Graph().as_default(), tf.Session() as session:
        words = tf.SparseTensor(
            tf.constant([[0, 1], [0, 3], [2, 0]], tf.int64),
            tf.constant([2.0, 8.0, 5.0]),
            tf.constant([3, 4], tf.int64),
        )
        given = {
            "a b": tf.constant([2.0, 6.0, 10.0]),
            "a_b": tf.constant(X[:, None]),
            "words": words,
        }
        logits = linear_logits(inputs.features(given), columns, 1, "sum", None)
        session.run(tf.global_variables_initializer())
        names = sorted(v.op.name for v in tf.trainable_variables())
        for variable in tf.trainable_variables():
            value = np.arange(1.0, 1 + variable.shape.num_elements(), dtype=np.float32)
            session.run(variable.assign(value.reshape(variable.shape.as_list())))
        found = session.run(logits)[:, 0]
        deep = deep_network(
            SparkDNNClassifier(), inputs, [inputs.numbers(e, 5) for e in row_format.features], 2
        )
        assert deep(given, "train").shape.as_list() == [3, 2]
    assert names == [
        "linear/linear_model/a_b/weights",
        "linear/linear_model/a_b_/weights",
        "linear/linear_model/bias_weights",
        "linear/linear_model/words/weights",
    ]
    sparse = [1 * 2 + 1 * 4, 0, 5]
    np.testing.assert_allclose(
        found, [1 + v + x[0] + 2 * x[1] + s for v, x, s in zip([0, 1, 2], X, sparse, strict=True)]
    )


def test_texts_are_sent_to_the_wide_and_deep_network() -> None:
    with pytest.raises(TypeError, match="'words' are texts, and SparkDNNClassifier takes numbers"):
        require_numbers([Input("words", "dense", "string", ())], "SparkDNNClassifier")
    with pytest.raises(TypeError, match=r"'ids' are lists of any length.*StringIndexer"):
        require_numbers([Input("ids", "ragged", "int64", ())], "SparkDNNClassifier")

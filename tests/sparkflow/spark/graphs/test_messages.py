"""What users are told if their model_fn is wrong: (program, helpful words)."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import sparkflow as tf
from sparkflow.spark.cluster_layout import ClusterLayout
from sparkflow.spark.data.schema.row_format import Input, RowFormat
from sparkflow.spark.graphs.evaluation import build_evaluation_graph
from sparkflow.spark.graphs.inference_graph import build_inference_graph, require_same_variables
from sparkflow.spark.graphs.model_fn import ModelInputs
from sparkflow.spark.graphs.training_graph import build_training_graph
from sparkflow.spark.params.config import FitConfig

ROWS = RowFormat(
    (Input("features", "dense", "float32", (3,)),),
    Input("label", "dense", "float32", ()),
    None,
    False,
)
Body = Callable[[Any, Any, str], Any]
spec = tf.estimator.EstimatorSpec


def out(features: Any) -> Any:
    return tf.squeeze(tf.layers.dense(features, 1, name="out"), 1)


def step(loss: Any) -> Any:
    return tf.train.GradientDescentOptimizer(0.1).minimize(loss)


def build(body: Body, label: str = "float32") -> None:
    """Does all that `fit` does with a model_fn before the first job, with labels of a dtype."""

    def model_fn(features: Any, labels: Any, mode: str, weights: Any) -> Any:
        return body(features, labels, mode)

    layout = ClusterLayout.of(1, 1, "async")
    rows = replace(ROWS, label=Input("label", "dense", label, ()))
    inputs = ModelInputs(rows, {}, 1)
    training = build_training_graph(model_fn, inputs, layout, FitConfig())
    build_evaluation_graph(model_fn, inputs, layout, training)
    require_same_variables(training, build_inference_graph(model_fn, inputs))


def uses_labels(features: Any, labels: Any, mode: str) -> Any:
    prediction = out(features)
    loss = tf.reduce_mean(tf.square(prediction - labels))
    return spec(mode, loss=loss, train_op=step(loss), predictions=prediction)


def one_hot(features: Any, labels: Any, mode: str) -> Any:
    tf.one_hot(tf.cast(labels, tf.int32), 3)
    return good(features, labels, mode)


def shape_of(features: Any, labels: Any, mode: str) -> Any:
    assert labels.shape.ndims == 1
    return good(features, labels, mode)


def good(features: Any, labels: Any, mode: str, **more: Any) -> Any:
    prediction = out(features)
    loss = tf.reduce_mean(tf.square(prediction))
    given = {"loss": loss, "train_op": step(loss), "predictions": prediction}
    return spec(mode, **{**given, **{k: v(prediction) for k, v in more.items()}})


def but(**more: Any) -> Body:
    """The valid model, except for some arguments of its EstimatorSpec, made of the prediction."""
    return lambda features, labels, mode: good(features, labels, mode, **more)


def by_mode(features: Any, labels: Any, mode: str) -> Any:
    tf.layers.dense(features, 1, name=f"only_in_{mode}")
    return good(features, labels, mode)


with tf.Graph().as_default():
    OUTSIDE = tf.Variable(1.0).value()


CASES: dict[str, tuple[Body, type[Exception], str]] = {
    "labels in PREDICT": (uses_labels, ValueError, "PREDICT.*labels is None.*if mode =="),
    "cast of labels": (one_hot, ValueError, "PREDICT.*labels is None.*if mode =="),
    "shape of labels": (shape_of, AttributeError, "PREDICT.*labels is None.*if mode =="),
    "no loss": (but(loss=lambda p: None), ValueError, r"Missing loss\..*EstimatorSpec\(mode, loss"),
    "no train_op": (but(train_op=lambda p: None), ValueError, r"Missing train_op\..*minimize"),
    "no predictions": (
        but(predictions=lambda p: None),
        ValueError,
        r"Missing predictions\..*predictions={",
    ),
    "vector loss": (but(loss=tf.square), ValueError, r"Loss must be scalar.*tf\.reduce_mean"),
    "a number as loss": (but(loss=lambda p: 1.0), TypeError, "loss must be Tensor, given: 1.0"),
    "an optimizer": (
        but(train_op=lambda p: tf.train.AdamOptimizer()),
        TypeError,
        "train_op must be.*call its minimize",
    ),
    "a list": (but(predictions=lambda p: [p]), TypeError, "predictions={'prediction'"),
    "a scalar": (
        but(predictions=lambda p: {"a": tf.reduce_mean(p)}),
        ValueError,
        "'a' has shape .* one row per row",
    ),
    "a metric": (
        but(eval_metric_ops=lambda p: {"a": tf.reduce_mean(p)}),
        TypeError,
        r"must be \(metric_value, update_op\) tuples.*key: a",
    ),
    "a metric called loss": (
        but(eval_metric_ops=lambda p: {"loss": tf.metrics.mean(p)}),
        ValueError,
        "this name is taken",
    ),
    "nothing": (lambda f, la, m: None, TypeError, "is there a return.*EstimatorSpec"),
    "a tuple": (lambda f, la, m: (out(f), 1), TypeError, "returned tuple.*loss=loss, train_op"),
    "a dictionary": (lambda f, la, m: {"loss": 1}, TypeError, "returned dict"),
    "the loss alone": (lambda f, la, m: tf.reduce_mean(out(f)), TypeError, "returned Tensor"),
    "another mode": (
        lambda f, la, m: good(f, la, "eval"),
        ValueError,
        "mode 'train' and returned a spec of mode 'eval': give EstimatorSpec the mode",
    ),
    "other variables": (by_mode, ValueError, "only_in_eval/bias, .*not in mode TRAIN"),
    "numpy": (but(loss=lambda p: np.mean(p)), NotImplementedError, r"np\.mean.*tf\.reduce_mean"),
    "numpy in numpy": (
        but(loss=lambda p: np.sqrt(np.abs(p))),
        NotImplementedError,
        r"np\.abs.*tf\.abs",
    ),
    "keras": (
        lambda f, la, m: tf.keras.layers.Dense(1)(f),
        AttributeError,
        r"tf\.keras is no part.*tf\.layers",
    ),
    "float of a tensor": (
        but(loss=lambda p: float(tf.reduce_mean(p))),
        TypeError,
        r"float\(\) needs the value of Tensor Mean.*session\.run\(x\).*tf\.cast",
    ),
    "int of a tensor": (
        but(loss=lambda p: int(tf.size(p))),
        TypeError,
        r"int\(\) needs the value of Tensor Size.*session\.run\(x\).*tf\.cast",
    ),
    "numpy of a tensor": (
        but(loss=lambda p: p.numpy()),
        AttributeError,
        r"numpy\(\) needs the value of Tensor.*session\.run\(x\)",
    ),
    "a variable from outside": (
        lambda f, la, m: good(f + OUTSIDE, la, m),
        ValueError,
        "must be from the same graph.*make all variables and tensors inside",
    ),
    "a misspelt name beside absent ones": (
        lambda f, la, m: tf.random.uniformm(f),
        AttributeError,
        r"Did you mean tf\.random\.uniform\? If not: use tf\.random\.stateless",
    ),
    "a misspelt op": (
        lambda f, la, m: tf.reducemean(f),
        AttributeError,
        r"Did you mean tf\.reduce_mean\?",
    ),
    "a misspelt optimizer": (
        but(train_op=lambda p: tf.train.AdamOptimiser()),
        AttributeError,
        r"Did you mean tf\.train\.AdamOptimizer",
    ),
    "a layer of Keras' name": (
        lambda f, la, m: tf.train.Adam(),
        AttributeError,
        r"Did you mean tf\.train\.AdamOptimizer",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_who_errs_is_told_what_to_do(name: str) -> None:
    body, kind, words = CASES[name]
    with pytest.raises(kind, match=f"(?s){words}"):
        build(body)


LABELS: dict[str, tuple[str, Callable[[Any, Any], Any], str]] = {
    "integers as numbers": ("int64", lambda p, y: p - y, "labels is int64.*tf.float32"),
    "the other way": ("int64", lambda p, y: y - p, "labels is int64.*tf.float32"),
    "in an op of numbers": ("int64", lambda p, y: tf.log(y) + p, "labels is int64.*tf.float32"),
    "their column": ("int64", lambda p, y: p - y[:, None], "labels is int64.*tf.float32"),
    "numbers as classes": (
        "float32",
        lambda p, y: tf.losses.sparse_softmax_cross_entropy(y, tf.stack([p, p], 1)),
        "labels is float32.*tf.int64",
    ),
    "numbers as places": ("float32", lambda p, y: tf.one_hot(y, 3), "labels is float32.*tf.int64"),
}


@pytest.mark.parametrize("name", LABELS)
def test_labels_of_another_kind_are_named(name: str) -> None:
    label, loss, words = LABELS[name]

    def body(features: Any, labels: Any, mode: str) -> Any:
        prediction = out(features)
        if mode == "infer":
            return spec(mode, predictions=prediction)
        return spec(mode, loss=tf.reduce_mean(loss(prediction, labels)), train_op=tf.no_op())

    with pytest.raises((TypeError, ValueError), match=f"(?s){words}"):
        build(body, label)


def test_other_errors_of_types_do_not_speak_of_labels() -> None:
    def body(features: Any, labels: Any, mode: str) -> Any:
        tf.nn.embedding_lookup(tf.zeros([3, 2]), features)

    with pytest.raises(TypeError) as caught:
        build(body, "int64")
    assert "label column" not in str(caught.value)


def test_a_model_that_is_right_is_built(caplog: pytest.LogCaptureFixture) -> None:
    build(good)
    assert caplog.text == ""


LOSSES: dict[str, tuple[Callable[[Any, Any], Any], bool]] = {
    "difference": (lambda p, y: p - y, True),
    "the other way": (lambda p, y: tf.squared_difference(y, p), True),
    "accuracy": (lambda p, y: p * tf.cast(tf.equal(tf.round(p), y), tf.float32), True),
    "squeezed": (lambda p, y: p[:, 0] - y, False),
    "expanded": (lambda p, y: p - y[:, None], False),
    "a bias": (lambda p, y: p - tf.zeros([10]) + tf.expand_dims(y, 1), False),
    "pairs": (lambda p, y: (y[:, None] - y[None, :]) + tf.reduce_mean(p), False),
}


@pytest.mark.parametrize("name", LOSSES)
def test_columns_beside_lines_are_warned_of(name: str, caplog: pytest.LogCaptureFixture) -> None:
    difference, warns = LOSSES[name]

    def body(features: Any, labels: Any, mode: str) -> Any:
        column = tf.layers.dense(features, 1, name="column")
        loss = None
        if mode != "infer":
            loss = tf.reduce_mean(tf.square(difference(column, labels)))
        update = step(loss) if mode == "train" else None
        return spec(mode, loss=loss, train_op=update, predictions=column)

    with caplog.at_level(logging.WARNING):
        build(body)
    assert ("each row meets all the others" in caplog.text) == warns
    if warns:
        assert "(?, 1)" in caplog.text
        assert "next_batch:1 (?,)" in caplog.text
        assert "test_messages.py:" in caplog.text


@pytest.mark.parametrize("loss", ["mean_squared_error", "absolute_difference", "log_loss"])
def test_losses_refuse_them(loss: str) -> None:
    words = r"\(\?,\) and \(\?, 1\)|\(\?, 1\) and \(\?,\)"
    with tf.Graph().as_default():
        line, column = (tf.placeholder(tf.float32, shape) for shape in ([None], [None, 1]))
        with pytest.raises(ValueError, match=words):
            getattr(tf.losses, loss)(line, column)

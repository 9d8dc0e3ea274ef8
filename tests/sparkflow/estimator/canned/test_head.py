"""What all heads do: losses of one's own, names of metrics, training."""

import numpy as np
import pytest

import sparkflow as tf
from sparkflow.contrib import estimator as contrib
from support.heads import evaluated


def test_names_probabilities_and_losses_of_ones_own():
    def loss_fn(labels, logits, features):
        return features["x"] * tf.abs(tf.cast(labels, tf.float32) - logits)

    logits = np.float32([[2.0], [-1.0]])
    head = contrib.binary_classification_head(thresholds=[0.9], loss_fn=loss_fn, name="mine")
    loss, metrics = evaluated(
        head, logits, lambda: tf.constant([1, 0]), {"x": np.float32([[1], [3]])}
    )
    assert loss == 2.0
    assert metrics["average_loss/mine"] == 2.0
    assert metrics["recall/positive_threshold_0.900000/mine"] == 0.0
    assert all(key.endswith("/mine") for key in metrics)


@pytest.mark.parametrize("by", ["optimizer", "function"])
def test_a_head_trains_a_model_of_ones_own(by):
    head = contrib.multi_class_head(3)
    x = np.eye(3, dtype=np.float32)
    with tf.Graph().as_default():
        step = tf.train.get_or_create_global_step()
        logits = tf.layers.dense(tf.constant(x), 3)
        optimizer = tf.train.GradientDescentOptimizer(1.0)
        given = {
            "optimizer": {"optimizer": optimizer},
            "function": {"train_op_fn": lambda loss: optimizer.minimize(loss, global_step=step)},
        }[by]
        penalty = [tf.constant(5.0)]
        labels = tf.constant([2, 0, 1])
        spec = head.create_estimator_spec(
            {}, "train", logits, labels, regularization_losses=penalty, **given
        )
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            for _ in range(60):
                loss, _ = session.run([spec.loss, spec.train_op])
            assert session.run(step) == 60
    assert 5 < loss < 5.2


def test_training_needs_one_way_to_make_a_step():
    head = contrib.regression_head()
    with tf.Graph().as_default(), pytest.raises(ValueError, match="cannot both be None"):
        head.create_estimator_spec({}, "train", tf.zeros([2, 1]), tf.zeros([2]))
    with tf.Graph().as_default(), pytest.raises(ValueError, match="must not both be set"):
        head.create_estimator_spec(
            {},
            "train",
            tf.zeros([2, 1]),
            tf.zeros([2]),
            optimizer=tf.train.GradientDescentOptimizer(1.0),
            train_op_fn=tf.no_op,
        )


@pytest.mark.parametrize("reduction", [tf.losses.Reduction.SUM, tf.losses.Reduction.MEAN])
def test_penalties_are_told_apart(reduction):
    head = contrib.regression_head(loss_reduction=reduction, name="mine")
    with tf.Graph().as_default(), tf.Session() as session:
        tf.train.get_or_create_global_step()
        penalties = [tf.constant(5.0), tf.constant(2.0)]
        given = (tf.constant([[2.0]]), tf.constant([4.0]))
        spec = head.create_estimator_spec({}, "eval", *given, regularization_losses=penalties)
        session.run(tf.local_variables_initializer())
        session.run([pair[1] for pair in spec.eval_metric_ops.values()])
        metrics = session.run({key: pair[0] for key, pair in spec.eval_metric_ops.items()})
        assert session.run(spec.loss) == 11.0
        assert metrics["regularization_loss/mine"] == 7.0
        assert metrics["average_loss/mine"] == 4.0
        head.create_estimator_spec(
            {}, "train", *given, train_op_fn=tf.identity, regularization_losses=penalties
        )
        summary = tf.Summary.FromString(session.run(tf.summary.merge_all()))
    told = {value.tag: value.simple_value for value in summary.value}
    expected = 4.0 if reduction == tf.losses.Reduction.SUM else None
    assert told.pop("average_loss/mine", None) == expected
    assert told == {"loss/mine": 11.0, "regularization_loss/mine": 7.0}

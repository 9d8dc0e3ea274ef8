"""Training steps as programs build them: each returns a loss and what a step runs.

All take features [n, 3] and labels [n], and use the optimizers, conditions, updates in addition to
the optimizer's and orders between them that programs written for TensorFlow 1 have.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import pytest

import sparkflow as tf

Program = Callable[[Any, Any], tuple[Any, Any]]
PROGRAMS: Final[dict[str, Program]] = {}
RANDOM: Final = {"dropout", "dropout_in_a_loop"}
"""They draw different numbers on every worker."""
SKIPPING: Final = {"update_in_a_branch", "update_in_nested_branches", "update_in_a_case"}
"""They make no update in some steps. With backup workers, such a step may come first."""

_BY_DAY: Final = (
    "batch_norm",
    "dropout",
    "averages_after",
    "two_optimizers",
    "update_in_a_branch",
    "update_in_nested_branches",
    "embedding",
)


def by_day() -> list[Any]:
    """Names of all programs for `pytest.mark.parametrize`; most run only in nightly tests."""
    return [
        name if name in _BY_DAY else pytest.param(name, marks=pytest.mark.nightly)
        for name in PROGRAMS
    ]


def program(function: Program) -> Program:
    PROGRAMS[function.__name__] = function
    return function


def linear(x: Any, name: str = "dense") -> Any:
    with tf.variable_scope(name):
        first = tf.random_normal_initializer(seed=4)
        kernel = tf.get_variable("kernel", [x.shape[1], 1], initializer=first)
        bias = tf.get_variable("bias", [1], initializer=tf.zeros_initializer())
    return tf.squeeze(tf.matmul(x, kernel) + bias, 1)


def error(prediction: Any, y: Any) -> Any:
    return tf.reduce_mean(tf.square(prediction - y))


def step() -> Any:
    return tf.train.get_or_create_global_step()


def momentum() -> Any:
    return tf.train.MomentumOptimizer(0.05, 0.9)


def untrained(name: str, first: float = 0.0) -> Any:
    return tf.get_variable(name, [], initializer=tf.constant_initializer(first), trainable=False)


def after_updates(loss: Any) -> Any:
    with tf.control_dependencies(tf.get_collection(tf.GraphKeys.UPDATE_OPS)):
        return loss, momentum().minimize(loss, step())


@program
def batch_norm(x: Any, y: Any) -> Any:
    normal = tf.layers.batch_normalization(x, training=True, momentum=0.9)
    return after_updates(error(linear(normal), y))


@program
def fused_batch_norm(x: Any, y: Any) -> Any:
    images = tf.reshape(x, [-1, 1, 1, 3])
    normal = tf.layers.batch_normalization(images, training=True, momentum=0.9, fused=True)
    return after_updates(error(linear(tf.reshape(normal, [-1, 3])), y))


@program
def batch_norm_of_contrib(x: Any, y: Any) -> Any:
    loss = error(linear(tf.contrib.layers.batch_norm(x, is_training=True, decay=0.9)), y)
    return loss, tf.contrib.layers.optimize_loss(loss, step(), 0.05, "Adam", clip_gradients=1.0)


@program
def dropout(x: Any, y: Any) -> Any:
    loss = error(linear(tf.nn.dropout(x, rate=0.3, seed=7)), y)
    with tf.control_dependencies([x]):
        return loss, momentum().minimize(loss, step())


@program
def dropout_in_a_loop(x: Any, y: Any) -> Any:
    def turn(i: Any, total: Any) -> Any:
        return i + 1, total + tf.nn.dropout(x, rate=0.5, seed=7) / 3.0

    _, total = tf.while_loop(lambda i, _: i < 3, turn, (0, tf.zeros_like(x)))
    loss = error(linear(total), y)
    return loss, momentum().minimize(loss, step())


@program
def streaming_metric(x: Any, y: Any) -> Any:
    prediction = linear(x)
    loss = error(prediction, y)
    _, update = tf.metrics.mean_absolute_error(y, prediction)
    with tf.control_dependencies([update]):
        return loss, momentum().minimize(loss, step())


@program
def averages_after(x: Any, y: Any) -> Any:
    loss = error(linear(x), y)
    averages = tf.train.ExponentialMovingAverage(0.9, step())
    with tf.control_dependencies([momentum().minimize(loss, step())]):
        return loss, averages.apply(tf.trainable_variables())


@program
def average_of_the_loss_before(x: Any, y: Any) -> Any:
    loss = error(linear(x), y)
    averages = tf.train.ExponentialMovingAverage(0.9)
    with tf.control_dependencies([averages.apply([loss])]):
        return loss, momentum().minimize(loss, step())


@program
def assign_before(x: Any, y: Any) -> Any:
    loss = error(linear(x), y)
    with tf.control_dependencies([tf.assign_add(untrained("seen"), tf.reduce_sum(x))]):
        return loss, tf.train.AdamOptimizer(0.05).minimize(loss, step())


@program
def assign_after(x: Any, y: Any) -> Any:
    scale = untrained("scale", 2.0)
    loss = error(linear(x) * scale, y)
    with tf.control_dependencies([momentum().minimize(loss, step())]):
        return loss, tf.assign_add(untrained("seen"), tf.reduce_sum(x)).op


@program
def two_optimizers(x: Any, y: Any) -> Any:
    loss = error(linear(x, "a") + linear(x * x, "b"), y)
    adam = tf.train.AdamOptimizer(0.05)
    first = adam.minimize(loss, step(), var_list=tf.trainable_variables("a"))
    second = momentum().minimize(loss, var_list=tf.trainable_variables("b"))
    return loss, tf.group(first, second)


@program
def one_optimizer_after_the_other(x: Any, y: Any) -> Any:
    loss = error(linear(x, "a") + linear(x * x, "b"), y)
    adam = tf.train.AdamOptimizer(0.05)
    first = adam.minimize(loss, step(), var_list=tf.trainable_variables("a"))
    with tf.control_dependencies([first]):
        return loss, momentum().minimize(loss, var_list=tf.trainable_variables("b"))


@program
def two_losses(x: Any, y: Any) -> Any:
    one, two = error(linear(x, "a"), y), error(linear(x, "b"), -y)
    with tf.control_dependencies([two]):
        first = momentum().minimize(one, step())
    return one + two, tf.group(first, tf.train.FtrlOptimizer(0.1).minimize(two))


@program
def update_in_a_branch(x: Any, y: Any) -> Any:
    loss, count = error(linear(x), y), step()
    optimizer = tf.train.AdamOptimizer(0.05)
    some = tf.reduce_sum(x) > 0
    return loss, tf.cond(some, lambda: optimizer.minimize(loss, count), tf.no_op)


@program
def an_update_in_each_branch(x: Any, y: Any) -> Any:
    loss, count = error(linear(x), y), step()
    one, other = momentum(), tf.train.GradientDescentOptimizer(0.01)
    pairs = one.compute_gradients(loss)
    with tf.control_dependencies([tf.identity(x)]):
        return loss, tf.cond(
            tf.reduce_sum(x) > 0,
            lambda: one.apply_gradients(pairs, count),
            lambda: other.minimize(loss, count),
        )


@program
def update_in_nested_branches(x: Any, y: Any) -> Any:
    ids = tf.cast(tf.abs(x[:, 0]) * 2, tf.int64) % 7
    table = tf.get_variable("table", [7, 3], initializer=tf.ones_initializer())
    loss, count = error(linear(x * tf.gather(table, ids)), y), step()

    def when_positive() -> Any:
        optimizer = momentum()
        return tf.cond(x[0, 0] > 0, lambda: optimizer.minimize(loss, count), tf.no_op)

    return loss, tf.cond(x[0, 1] > -0.5, when_positive, tf.no_op)


@program
def update_in_a_case(x: Any, y: Any) -> Any:
    loss, count = error(linear(x), y), step()
    rates = [0.01, 0.05]
    updates = [
        lambda rate=rate: tf.train.GradientDescentOptimizer(rate).minimize(loss, count)
        for rate in rates
    ]
    index = tf.cast(tf.reduce_sum(x) > 0, tf.int32) + tf.cast(x[0, 0] > 0, tf.int32)
    return loss, tf.switch_case(index, updates, default=tf.no_op)


@program
def checks(x: Any, y: Any) -> Any:
    loss = error(linear(x), y)
    finite = tf.Assert(tf.is_finite(loss), [loss])
    with tf.control_dependencies([finite, tf.assert_equal(tf.shape(x)[0], tf.shape(y)[0])]):
        return loss, momentum().minimize(tf.Print(loss, [loss], first_n=0), step())


@program
def decayed_rate(x: Any, y: Any) -> Any:
    loss = error(linear(x), y)
    rate = tf.train.exponential_decay(0.1, step(), 2, 0.5, staircase=True)
    with tf.control_dependencies([tf.identity(x)]):
        return loss, tf.train.MomentumOptimizer(rate, 0.9).minimize(loss, step())


@program
def local_variable(x: Any, y: Any) -> Any:
    local = [tf.GraphKeys.LOCAL_VARIABLES]
    mine = tf.Variable(lambda: tf.zeros([]), trainable=False, collections=local, name="mine")
    loss = error(linear(x), y)
    with tf.control_dependencies([tf.assign_add(mine, loss)]):
        train_op = momentum().minimize(loss, step())
    with tf.control_dependencies([train_op]):
        return loss, tf.group(train_op, tf.assign_add(mine, 1.0).op)


@program
def clipped(x: Any, y: Any) -> Any:
    loss = error(linear(x), y)
    optimizer = tf.train.AdamOptimizer(0.05)
    gradients, variables = zip(*optimizer.compute_gradients(loss), strict=True)
    gradients, norm = tf.clip_by_global_norm(gradients, 0.5)
    with tf.control_dependencies([tf.check_numerics(norm, "norm")]):
        return loss, optimizer.apply_gradients(zip(gradients, variables, strict=True), step())


@program
def embedding(x: Any, y: Any) -> Any:
    ids = tf.cast(tf.abs(x[:, 0]) * 2, tf.int64) % 7
    table = tf.get_variable("table", [7, 2], initializer=tf.random_normal_initializer(seed=1))
    loss = error(linear(tf.nn.embedding_lookup(table, ids)), y)
    with tf.control_dependencies([tf.identity(ids)]):
        return loss, tf.train.AdagradOptimizer(0.1).minimize(loss, step())


@program
def all_after_the_batch(x: Any, y: Any) -> Any:
    with tf.control_dependencies([x]):
        loss = error(linear(x), y)
        return loss, tf.train.AdamOptimizer(0.05).minimize(loss, step())

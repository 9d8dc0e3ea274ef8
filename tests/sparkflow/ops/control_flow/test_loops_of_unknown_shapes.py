"""Loops over placeholders of unknown sizes run in machine code, as those of known sizes do."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import sparkflow as tf
from sparkflow_runtime.codegen.machine import native

pytestmark = pytest.mark.skipif(not native.available(), reason="needs llvmlite")

Build = Callable[[Any, Any], Any]
"""Returns a number to differentiate, of [batch, time, 3] float32 and [batch] lengths."""


def cells(kind: str) -> Any:
    """Returns a recurrent cell of a few units."""
    if kind == "stack":
        return tf.nn.rnn_cell.MultiRNNCell([tf.nn.rnn_cell.GRUCell(4), tf.nn.rnn_cell.LSTMCell(5)])
    made = {"gru": tf.nn.rnn_cell.GRUCell, "lstm": tf.nn.rnn_cell.LSTMCell}
    return made.get(kind, tf.nn.rnn_cell.BasicRNNCell)(4)


def recurrent(kind: str, has_lengths: bool, reads: str) -> Build:
    def build(x: Any, lengths: Any) -> Any:
        outputs, state = tf.nn.dynamic_rnn(
            cells(kind), x, lengths if has_lengths else None, dtype=tf.float32
        )
        leaves = [tf.reduce_sum(each) for each in tf.contrib.framework.nest.flatten(state)]
        read = {
            "state": tf.add_n(leaves),
            "last": tf.reduce_sum(outputs[:, -1]),
            "all": tf.reduce_mean(tf.square(outputs)),
        }
        return read[reads]

    return build


def both_ways(x: Any, lengths: Any) -> Any:
    cell = tf.nn.rnn_cell.LSTMCell
    outputs, _ = tf.nn.bidirectional_dynamic_rnn(cell(4), cell(4), x, lengths, dtype=tf.float32)
    return tf.reduce_sum(tf.reduce_max(tf.concat(outputs, 2), 1))


def scanned(x: Any, _: Any) -> Any:
    w = tf.get_variable("w", initializer=np.full((3, 3), 0.2, np.float32))
    rows = tf.transpose(x, [1, 0, 2])
    found = tf.scan(lambda a, b: tf.tanh(tf.matmul(a, w) + b), rows, tf.zeros_like(rows[0]))
    return tf.reduce_sum(found)


def mapped(x: Any, _: Any) -> Any:
    w = tf.get_variable("w", initializer=np.full((3, 3), 0.2, np.float32))
    return tf.reduce_sum(tf.map_fn(lambda row: tf.tanh(tf.matmul(row, w)), x))


def grown(x: Any, _: Any) -> Any:
    """A list of unknown element shape that is written, and read, by the turns."""
    w = tf.get_variable("w", initializer=np.full((3, 3), 0.2, np.float32))
    count = tf.shape(x)[1]
    array = tf.TensorArray(tf.float32, count, clear_after_read=False, infer_shape=False)
    array = array.write(0, x[:, 0])

    def turn(i: Any, written: Any) -> Any:
        return i + 1, written.write(i, tf.tanh(tf.matmul(written.read(i - 1), w) + x[:, i]))

    _, array = tf.while_loop(lambda i, _: i < count, turn, (1, array))
    return tf.reduce_sum(array.stack())


def normalized(z: Any) -> Any:
    """Computes the differences from the mean twice, which become one."""
    mean = tf.reduce_mean(z, 1, keepdims=True)
    return (z - mean) * tf.rsqrt(tf.reduce_mean(tf.square(z - mean), 1, keepdims=True) + 1e-3)


def moments(z: Any) -> Any:
    mean, variance = tf.nn.moments(z, [1], keep_dims=True)
    return (z - mean) / tf.sqrt(variance + 1e-3)


def attended(z: Any) -> Any:
    weights = tf.nn.softmax(tf.matmul(z, z, transpose_b=True))
    return tf.matmul(weights, z)


def gated(z: Any) -> Any:
    a, b, c = tf.split(tf.concat([z, z[:, :3], tf.zeros_like(z)], 1), 3, 1)
    return tf.where(a > b, a * tf.sigmoid(b), c + b)


def step_of(change: Callable[[Any], Any]) -> Build:
    """A loop whose state is a product and an input, changed."""

    def build(x: Any, _: Any) -> Any:
        w = tf.get_variable(
            "w", initializer=np.linspace(-0.5, 0.5, 9, dtype=np.float32).reshape(3, 3)
        )
        rows = tf.transpose(x, [1, 0, 2])
        count = tf.shape(rows)[0]
        inputs = tf.TensorArray(tf.float32, count).unstack(rows)

        def turn(t: Any, h: Any) -> Any:
            return t + 1, change(tf.matmul(h, w) + inputs.read(t))

        start = tf.zeros([tf.shape(x)[0], 3])
        _, last = tf.while_loop(lambda t, _: t < count, turn, (0, start))
        return tf.reduce_mean(tf.square(last - 0.3))

    return build


CHANGES: dict[str, Callable[[Any], Any]] = {
    "differences computed twice": normalized,
    "moments": moments,
    "l2_normalize": lambda z: tf.nn.l2_normalize(z, 1),
    "softmax": tf.nn.softmax,
    "log_softmax": tf.nn.log_softmax,
    "logsumexp": lambda z: z - tf.reduce_logsumexp(z, 1, keepdims=True),
    "largest": lambda z: tf.tanh(z - tf.reduce_max(z, 1, keepdims=True)),
    "attention": attended,
    "split and where": gated,
    "bias and relu": lambda z: tf.nn.relu(tf.nn.bias_add(z, tf.constant([0.1, 0.2, 0.3]))),
    "of its own shape": lambda z: tf.tanh(z) * tf.ones(tf.shape(z)),
    "reshaped": lambda z: tf.reshape(tf.sin(tf.reshape(z, [-1])), tf.shape(z)),
    "tiled": lambda z: tf.tanh(z + tf.tile(z[:, :1], [1, 3])),
    "the mean of the batch": lambda z: tf.tanh(z - tf.reduce_mean(z, 0)),
}

BUILDS: dict[str, Build] = {
    **{f"a turn of {name}": step_of(change) for name, change in CHANGES.items()},
    **{
        f"{kind}{' of lengths' if has_lengths else ''}, {reads}": recurrent(
            kind, has_lengths, reads
        )
        for kind in ("plain", "gru", "lstm", "stack")
        for has_lengths in (False, True)
        for reads in ("state", "last", "all")
    },
    "both ways": both_ways,
    "scan": scanned,
    "map": mapped,
    "a list that turns write and read": grown,
}


def losses(
    build: Build, known: tuple[int, int] | None, batches: list[tuple[np.ndarray, np.ndarray]]
) -> list[np.ndarray]:
    """Trains on batches, and returns the losses and the variables."""
    with tf.Graph().as_default():
        tf.set_random_seed(3)
        batch, time = known or (None, None)
        x = tf.placeholder(tf.float32, [batch, time, 3])
        lengths = tf.placeholder(tf.int32, [batch])
        with tf.variable_scope("net", initializer=tf.constant_initializer(0.15)):
            loss = build(x, lengths)
        train_op = tf.train.GradientDescentOptimizer(0.1).minimize(loss)
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            found = [
                session.run([loss, train_op], {x: rows, lengths: counts})[0]
                for rows, counts in batches
            ]
            return [*found, *session.run(tf.trainable_variables())]


def batch_of(batch: int, time: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(batch * time)
    rows = rng.normal(size=(batch, time, 3)).astype(np.float32)
    return rows, rng.integers(1, time + 1, batch).astype(np.int32)


@pytest.mark.parametrize("name", BUILDS)
def test_training_is_that_of_known_sizes_and_in_machine_code(
    name: str, native_runs: list[int]
) -> None:
    batches = [batch_of(5, 7)] * 4
    known = losses(BUILDS[name], (5, 7), batches)
    count = len(native_runs)
    # Forwards and backwards; the gradient of a list that is read where it is written is Python's.
    assert count >= 8 or BUILDS[name] is grown
    unknown = losses(BUILDS[name], None, batches)
    assert len(native_runs) == 2 * count
    for one, other in zip(known, unknown, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["lstm of lengths, all", "both ways", "scan"])
def test_sizes_may_change_from_step_to_step(name: str, native_runs: list[int]) -> None:
    batches = [batch_of(*sizes) for sizes in [(5, 7), (2, 7), (5, 3), (1, 1), (5, 7)] * 2]
    found = losses(BUILDS[name], None, batches)
    assert native_runs
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(native, "available", lambda: False)
        expected = losses(BUILDS[name], None, batches)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["lstm of lengths, all", "both ways", "scan"])
def test_sequences_of_any_length_run_in_machine_code(name: str, native_runs: list[int]) -> None:
    batches = [batch_of(3, time) for time in range(2, 16)]
    found = losses(BUILDS[name], None, batches)
    runs = len(native_runs)
    loops = 4 if name == "both ways" else 2
    assert runs >= loops * (len(batches) - 2)  # all but those whose shapes are new twice
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(native, "available", lambda: False)
        expected = losses(BUILDS[name], None, batches)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)

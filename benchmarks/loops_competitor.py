"""One competitor of `loops.py`, as a process: `loops_competitor.py NAME THREADS`.

sparkflow and TensorFlow run the same program, written once with TensorFlow 1's API. The programs
for JAX and PyTorch are in `loops_jax` and `loops_torch`.
"""

from __future__ import annotations

import itertools
import os
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
from competitor import Case, serve
from session_competitor import load, session_maker

TURNS = 1000
CELL_TURNS = 128
STEPS, BATCH, INPUTS, UNITS = 50, 64, 32, 128

_generator = np.random.default_rng(0)
X = _generator.uniform(0.1, 0.9, (64, 128)).astype(np.float32)
SEQUENCES = _generator.normal(size=(STEPS, BATCH, INPUTS)).astype(np.float32)
KERNEL = (_generator.normal(size=(INPUTS + UNITS, 4 * UNITS)) * 0.1).astype(np.float32)
CELL_X = _generator.normal(size=(8, 16)).astype(np.float32)
CELL_W = (_generator.normal(size=(16, 16)) * 0.1).astype(np.float32)


def cases(tf: Any, threads: int) -> Callable[[str], Case | None]:
    """Returns the cases as TensorFlow 1 programs."""
    session = session_maker(tf, threads)

    makers = {
        "while": _loop,
        "while_gradient": _loop_gradient,
        "cell": _cell,
        "cell_gradient": _cell_gradient,
        "lstm": _lstm,
        "dynamic_rnn": _dynamic_rnn,
        "any_length": _any_length,
    }

    def make(name: str) -> Case | None:
        if name not in makers:
            return None
        with tf.Graph().as_default():
            made = makers[name](tf)
            if made is None:
                return None
            fetches, feeds = made if isinstance(made, tuple) else (made, [None])
            initializer = tf.global_variables_initializer()
            running = session()
        running.run(initializer)
        batches = itertools.cycle(feeds)
        return case(lambda: running.run(fetches, next(batches))[0])

    return make


def case(call: Callable[[], Any]) -> Case:
    """Returns the check of all competitors: sums of the first three results."""
    return Case(call, [float(np.sum(np.asarray(call()))) for _ in range(3)])


def turns(tf: Any, x: Any, count: int) -> Any:
    """Returns the result of a loop with this many iterations that starts with a tensor."""
    _, y = tf.while_loop(lambda i, _: i < count, lambda i, y: (i + 1, y * 0.999 + x), (0, x))
    return y


def _loop(tf: Any) -> list[Any]:
    return [turns(tf, tf.constant(X), TURNS)]


def _loop_gradient(tf: Any) -> list[Any]:
    x = tf.constant(X)
    return list(tf.gradients(turns(tf, x, TURNS), x))


def _cells(tf: Any, x: Any, w: Any) -> Any:
    def turn(i: Any, h: Any) -> Any:
        return i + 1, tf.tanh(tf.matmul(h, w) + x)

    return tf.while_loop(lambda i, _: i < CELL_TURNS, turn, (0, tf.zeros_like(x)))[1]


def _cell(tf: Any) -> list[Any]:
    return [_cells(tf, tf.constant(CELL_X), tf.constant(CELL_W))]


def _cell_gradient(tf: Any) -> list[Any]:
    x, w = tf.constant(CELL_X), tf.constant(CELL_W)
    return list(tf.gradients(_cells(tf, x, w), [w, x]))


def _lstm(tf: Any) -> list[Any]:
    """A training step of an LSTM, its cell written with plain operations."""
    kernel = tf.get_variable("kernel", initializer=KERNEL)
    bias = tf.get_variable("bias", [4 * UNITS], initializer=tf.zeros_initializer())
    sequences = tf.TensorArray(tf.float32, STEPS).unstack(SEQUENCES)

    def step(time: Any, c: Any, h: Any) -> Any:
        gates = tf.matmul(tf.concat([sequences.read(time), h], 1), kernel) + bias
        i, j, f, o = tf.split(gates, 4, 1)
        c = c * tf.sigmoid(f + 1.0) + tf.sigmoid(i) * tf.tanh(j)
        return time + 1, c, tf.tanh(c) * tf.sigmoid(o)

    zero = tf.zeros([BATCH, UNITS])
    _, _, h = tf.while_loop(lambda time, *_: time < STEPS, step, (0, zero, zero))
    loss = tf.reduce_mean(tf.square(h - 0.5))
    train = tf.train.GradientDescentOptimizer(0.1).minimize(loss)
    return [loss, train]


def _dynamic_rnn(tf: Any) -> list[Any] | None:
    """A training step of `tf.nn.dynamic_rnn` over an LSTM; TensorFlow needs tf_keras for it."""
    try:
        cell = tf.nn.rnn_cell.BasicLSTMCell(UNITS)
    except AttributeError:
        return None
    with tf.variable_scope("rnn", initializer=tf.constant_initializer(KERNEL)):
        # The cell's own initializer of the bias is zeros.
        outputs, _ = tf.nn.dynamic_rnn(
            cell, tf.constant(SEQUENCES), dtype=tf.float32, time_major=True
        )
    loss = tf.reduce_mean(tf.square(outputs - 0.5))
    train = tf.train.GradientDescentOptimizer(0.1).minimize(loss)
    return [loss, train]


def _any_length(tf: Any) -> tuple[list[Any], list[dict[Any, Any]]] | None:
    """A training step of a recurrent network whose placeholders have no sizes, and its batches."""
    try:
        cell = tf.nn.rnn_cell.GRUCell(40)
    except AttributeError:
        return None
    x = tf.placeholder(tf.float32, [None, None, 24])
    lengths = tf.placeholder(tf.int32, [None])
    with tf.variable_scope("rnn", initializer=tf.constant_initializer(0.03)):
        _, state = tf.nn.dynamic_rnn(cell, x, lengths, dtype=tf.float32)
    loss = tf.reduce_mean(tf.square(state - 0.5))
    train = tf.train.AdagradOptimizer(0.1).minimize(loss)
    generator = np.random.default_rng(1)
    feeds = []
    for steps in generator.permutation(np.arange(20, 61)):
        rows = generator.normal(size=(20, steps, 24)).astype(np.float32)
        feeds.append({x: rows, lengths: generator.integers(1, steps + 1, 20)})
    return [loss, train], feeds


def main() -> None:
    name, threads = sys.argv[1], int(sys.argv[2])
    if name == "JAX":
        import loops_jax

        loops_jax.run(threads)
    elif name in ("torch", "torch.compile"):
        import loops_torch

        loops_torch.run(threads, compiled=name == "torch.compile")
    else:
        os.environ.setdefault("TF_USE_LEGACY_KERAS", "1")
        framework = load(name)
        if framework is not None:
            serve(cases(framework, threads))


if __name__ == "__main__":
    main()

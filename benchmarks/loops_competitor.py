"""One competitor of `loops.py`, as a process: `loops_competitor.py NAME THREADS`.

sparkflow and TensorFlow run the very same program: it is written once, in TensorFlow 1's words.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import numpy as np
from competitor import Case, serve
from session_competitor import load, session_maker

TURNS = 1000
STEPS, BATCH, INPUTS, UNITS = 50, 64, 32, 128

_generator = np.random.default_rng(0)
X = _generator.uniform(0.1, 0.9, (64, 128)).astype(np.float32)
SEQUENCES = _generator.normal(size=(STEPS, BATCH, INPUTS)).astype(np.float32)
KERNEL = (_generator.normal(size=(INPUTS + UNITS, 4 * UNITS)) * 0.1).astype(np.float32)


def cases(tf: Any, threads: int) -> Callable[[str], Case]:
    """The cases as TensorFlow 1 programs."""
    session = session_maker(tf, threads)

    def make(name: str) -> Case:
        with tf.Graph().as_default():
            fetches = {"while": _loop, "while_gradient": _loop_gradient, "lstm": _lstm}[name](tf)
            initializer = tf.global_variables_initializer()
            running = session()
        running.run(initializer)

        def call() -> Any:
            return running.run(fetches)[0]

        return Case(call, [float(np.sum(call())) for _ in range(3)])

    return make


def turns(tf: Any, x: Any, count: int) -> Any:
    """The end of a loop of so many turns that starts with a tensor."""
    _, y = tf.while_loop(lambda i, _: i < count, lambda i, y: (i + 1, y * 0.999 + x), (0, x))
    return y


def _loop(tf: Any) -> list[Any]:
    return [turns(tf, tf.constant(X), TURNS)]


def _loop_gradient(tf: Any) -> list[Any]:
    x = tf.constant(X)
    return list(tf.gradients(turns(tf, x, TURNS), x))


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


def main() -> None:
    name, threads = sys.argv[1], int(sys.argv[2])
    framework = load(name)
    if framework is not None:
        serve(cases(framework, threads))


if __name__ == "__main__":
    main()

"""One competitor of `session_overhead.py`, as a process: `session_competitor.py NAME THREADS`.

sparkflow and TensorFlow run the very same program: it is written once, in TensorFlow 1's words.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable
from typing import Any

import mlp
import numpy as np
from competitor import Case, serve, skip

MODULES = {"sparkflow": "sparkflow", "TensorFlow": "tensorflow"}
CHAIN_LENGTH = 200

_generator = np.random.default_rng(0)
X = _generator.uniform(0.1, 0.9, 10).astype(np.float32)
Y = _generator.uniform(0.1, 0.9, 10).astype(np.float32)


def numpy_case(name: str) -> Case:
    """What one would write without any framework."""
    if name == "mlp":
        step = mlp.numpy_step(mlp.initial_values())
        images, labels = mlp.batch()
        return Case(lambda: step(images, labels), [step(images, labels) for _ in range(5)])

    def add() -> Any:
        return X + Y

    def chain() -> Any:
        x = X
        for _ in range(CHAIN_LENGTH // 4):
            x = x + Y
            x = x * Y
            x = np.abs(x)
            x = x - Y
        return x

    call = chain if name == "chain" else add
    return Case(call, call())


def framework_case(tf: Any, threads: int) -> Callable[[str], Case]:
    """The cases as a TensorFlow 1 program.

    Args:
        tf: The framework.
        threads: For its own thread pools, if it has any.
    """
    config = tf.ConfigProto(
        intra_op_parallelism_threads=threads, inter_op_parallelism_threads=threads
    )

    def session() -> Any:
        return tf.Session(graph=tf.get_default_graph(), config=config)

    def make(name: str) -> Case:
        with tf.Graph().as_default():
            if name == "mlp":
                return _mlp(tf, session)
            x = tf.placeholder(tf.float32, [10])
            y = tf.constant(Y)
            result = _chain(tf, x, y) if name == "chain" else x + y
            running = session()
        if name == "add_callable":
            call = running.make_callable(result, [x])
            return Case(lambda: call(X), call(X))
        feed = {x: X}
        return Case(lambda: running.run(result, feed), running.run(result, feed))

    return make


def _chain(tf: Any, x: Any, y: Any) -> Any:
    for _ in range(CHAIN_LENGTH // 4):
        x = x + y
        x = x * y
        x = tf.abs(x)
        x = x - y
    return x


def _mlp(tf: Any, session: Callable[[], Any]) -> Case:
    images, labels = mlp.batch()
    x = tf.placeholder(tf.float32, [None, mlp.SIZES[0]])
    y = tf.placeholder(tf.int64, [None])
    loss = mlp.loss(tf, x, y, mlp.initial_values())
    train_op = tf.train.GradientDescentOptimizer(mlp.LEARNING_RATE).minimize(loss)
    initializer = tf.global_variables_initializer()
    running = session()
    running.run(initializer)
    feed = {x: images, y: labels}

    def call() -> Any:
        return running.run([loss, train_op], feed)[0]

    return Case(call, [call() for _ in range(5)])


def load(name: str) -> Any:
    """The framework of that name with TensorFlow 1's interface, None where it is not installed."""
    if importlib.util.find_spec(MODULES[name]) is None:
        skip(f"the package {MODULES[name]} is not installed")
        return None
    framework = importlib.import_module(MODULES[name])
    if name == "TensorFlow":
        framework = framework.compat.v1
        framework.disable_v2_behavior()
    return framework


def main() -> None:
    name, threads = sys.argv[1], int(sys.argv[2])
    if name == "numpy":
        serve(numpy_case)
    elif (framework := load(name)) is not None:
        serve(framework_case(framework, threads))


if __name__ == "__main__":
    main()

"""One competitor of `session_overhead.py`, as a process: `session_competitor.py NAME THREADS`.

sparkflow and TensorFlow run the same program, written once with TensorFlow 1's API.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable, Mapping, Sequence
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
    """Returns what one would write without a framework."""
    if name == "mlp":
        step = mlp.numpy_step(mlp.initial_values())
        images, labels = mlp.batch()
        return Case(lambda: step(images, labels), [step(images, labels) for _ in range(5)])

    def add() -> Any:
        return X + Y

    def call() -> Any:
        return chain(np, X, Y)

    return Case(call, call()) if name == "chain" else Case(add, add())


def framework_case(tf: Any, threads: int) -> Callable[[str], Case]:
    """Returns the cases as a TensorFlow 1 program.

    Args:
        tf: The framework.
        threads: The size of its own thread pools, if it has any.
    """
    session = session_maker(tf, threads)

    def make(name: str) -> Case:
        with tf.Graph().as_default():
            if name == "mlp":
                optimizer = tf.train.GradientDescentOptimizer(mlp.LEARNING_RATE)
                return mlp_case(tf, session, mlp.SIZES, mlp.BATCH, optimizer)
            x = tf.placeholder(tf.float32, [10])
            y = tf.constant(Y)
            result = chain(tf, x, y) if name == "chain" else x + y
            running = session()
        if name == "add_callable":
            call = running.make_callable(result, [x])
            return Case(lambda: call(X), call(X))
        feed = {x: X}
        return Case(lambda: running.run(result, feed), running.run(result, feed))

    return make


def session_maker(tf: Any, threads: int) -> Callable[[], Any]:
    """Returns a function that creates sessions on the default graph with a number of threads."""
    config = tf.ConfigProto(
        intra_op_parallelism_threads=threads, inter_op_parallelism_threads=threads
    )
    return lambda: tf.Session(graph=tf.get_default_graph(), config=config)


def chain(library: Any, x: Any, y: Any) -> Any:
    """The chained elementwise ops, with the functions that these libraries share."""
    for _ in range(CHAIN_LENGTH // 4):
        x = x + y
        x = x * y
        x = library.abs(x)
        x = x - y
    return x


def mlp_case(
    tf: Any, session: Callable[[], Any], sizes: Sequence[int], rows: int, optimizer: Any
) -> Case:
    """Builds a training step of a network of dense layers in the current default graph."""
    images, labels = mlp.batch(rows=rows)
    x = tf.placeholder(tf.float32, [None, sizes[0]])
    y = tf.placeholder(tf.int64, [None])
    loss = mlp.loss(tf, x, y, mlp.initial_values(sizes))
    return training_case(tf, session, loss, optimizer, lambda: {x: images, y: labels})


def training_case(
    tf: Any,
    session: Callable[[], Any],
    loss: Any,
    optimizer: Any,
    next_feed: Callable[[], Mapping[Any, Any]],
    initial_feed: Mapping[Any, Any] | None = None,
) -> Case:
    """Returns a training step that returns the loss before the update; the check is five losses.

    Args:
        tf: The framework.
        session: Creates a session on the default graph.
        loss: The loss to minimize.
        optimizer: The optimizer.
        next_feed: Returns the feeds of the next step.
        initial_feed: The feeds of the variables' initialization.
    """
    train_op = optimizer.minimize(loss)
    initializer = tf.global_variables_initializer()
    running = session()
    running.run(initializer, initial_feed)

    def call() -> Any:
        return running.run([loss, train_op], next_feed())[0]

    return Case(call, [call() for _ in range(5)])


def load(name: str) -> Any:
    """Returns the framework with this name and TensorFlow 1's API; None if not installed."""
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

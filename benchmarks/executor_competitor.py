"""One competitor of `executor.py`, as a process: `executor_competitor.py NAME THREADS`.

sparkflow and TensorFlow run the same program, written once with TensorFlow 1's API. "limit"
computes something else: the work that any implementation must do, as fast as numpy does it.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable
from typing import Any

import cnn
import embedding
import loops_competitor
import mlp
import numpy as np
import session_competitor
from competitor import Case, serve

LOOP_TURNS = 128
PEAK_SIZE = 1024
"""Rows and columns of the matrices whose product measures the peak of sgemm."""

_generator = np.random.default_rng(0)
LARGE_X = _generator.uniform(0.1, 0.9, (512, 1024)).astype(np.float32)
LARGE_Y = _generator.uniform(0.1, 0.9, 1024).astype(np.float32)
LOOP_X = _generator.uniform(0.1, 0.9, 10).astype(np.float32)


def framework_case(tf: Any, threads: int) -> Callable[[str], Case]:
    """Returns the cases as TensorFlow 1 programs, including those of `session_overhead.py`."""
    session = session_competitor.session_maker(tf, threads)
    shared = session_competitor.framework_case(tf, threads)
    cases = {
        "chain_large": _large_chain,
        "mlp_large": _large_mlp,
        "cnn": _cnn,
        "embedding": _embedding,
        "while": _loop,
        "while_gradient": _loop_gradient,
    }

    def make(name: str) -> Case:
        if name not in cases:
            return shared(name)
        with tf.Graph().as_default():
            return cases[name](tf, session)

    return make


def _large_chain(tf: Any, session: Callable[[], Any]) -> Case:
    x = tf.placeholder(tf.float32, LARGE_X.shape)
    result = session_competitor.chain(tf, x, tf.constant(LARGE_Y))
    running, feed = session(), {x: LARGE_X}
    return Case(lambda: running.run(result, feed), running.run(result, feed)[0, :5])


def _large_mlp(tf: Any, session: Callable[[], Any]) -> Case:
    optimizer = tf.train.AdamOptimizer(mlp.ADAM_LEARNING_RATE)
    return session_competitor.mlp_case(tf, session, mlp.LARGE_SIZES, mlp.LARGE_BATCH, optimizer)


def _cnn(tf: Any, session: Callable[[], Any]) -> Case:
    pictures, labels = cnn.batch()
    x = tf.placeholder(tf.float32, [None, *pictures.shape[1:]])
    y = tf.placeholder(tf.int64, [None])
    return session_competitor.training_case(
        tf,
        session,
        cnn.loss(tf, x, y, cnn.initial_values()),
        tf.train.GradientDescentOptimizer(cnn.LEARNING_RATE),
        lambda: {x: pictures, y: labels},
    )


def _embedding(tf: Any, session: Callable[[], Any]) -> Case:
    start = tf.placeholder(tf.float32, [embedding.ROWS, embedding.WIDTH])
    ids = tf.placeholder(tf.int64, [None])
    wanted = tf.placeholder(tf.float32, [None, embedding.WIDTH])
    rows = tf.nn.embedding_lookup(tf.Variable(start), ids)
    sets, targets = itertools.cycle(embedding.id_sets()), embedding.targets()
    return session_competitor.training_case(
        tf,
        session,
        embedding.loss(tf, rows, wanted),
        tf.train.AdagradOptimizer(embedding.LEARNING_RATE, embedding.INITIAL_ACCUMULATOR),
        lambda: {ids: next(sets), wanted: targets},
        initial_feed={start: embedding.table()},
    )


def _loop(tf: Any, session: Callable[[], Any]) -> Case:
    x = tf.placeholder(tf.float32, LOOP_X.shape)
    return _fetched(session(), loops_competitor.turns(tf, x, LOOP_TURNS), x)


def _loop_gradient(tf: Any, session: Callable[[], Any]) -> Case:
    x = tf.placeholder(tf.float32, LOOP_X.shape)
    (gradient,) = tf.gradients(loops_competitor.turns(tf, x, LOOP_TURNS), x)
    return _fetched(session(), gradient, x)


def _fetched(running: Any, result: Any, x: Any) -> Case:
    feed = {x: LOOP_X}
    return Case(lambda: running.run(result, feed), running.run(result, feed))


def numpy_case(name: str) -> Case | None:
    """Returns what one would write without a framework, if that takes a few lines."""
    if name == "embedding":
        step = embedding.numpy_step(embedding.table())
        sets, targets = itertools.cycle(embedding.id_sets()), embedding.targets()
        return Case(
            lambda: step(next(sets), targets), [step(next(sets), targets) for _ in range(5)]
        )
    if name == "chain_large":

        def chain() -> Any:
            return session_competitor.chain(np, LARGE_X, LARGE_Y)

        return Case(chain, chain()[0, :5])
    if name == "while":

        def loop() -> Any:
            y = LOOP_X
            for _ in range(LOOP_TURNS):
                y = y * np.float32(0.999) + LOOP_X
            return y

        return Case(loop, loop())
    if name in ("add", "add_callable", "chain", "mlp"):
        return session_competitor.numpy_case(name)
    return None


def limit_case(name: str) -> Case | None:
    """Returns the work that any implementation must do."""
    if name in ("add", "add_callable"):
        x, y = session_competitor.X, session_competitor.Y
        return Case(lambda: np.add(x, y), [])
    if name == "chain_large":
        target = np.empty_like(LARGE_X)
        return Case(lambda: np.copyto(target, LARGE_X), [])
    if name == "mlp_large":
        a = np.random.default_rng(0).random((PEAK_SIZE, PEAK_SIZE), np.float32)
        b, product = a.T.copy(), np.empty_like(a)
        work = mlp.multiplications(mlp.LARGE_SIZES, mlp.LARGE_BATCH)
        return Case(lambda: np.matmul(a, b, out=product), [], share=work / PEAK_SIZE**3)
    return None


def main() -> None:
    name, threads = sys.argv[1], int(sys.argv[2])
    if name == "numpy":
        serve(numpy_case)
    elif name == "limit":
        serve(limit_case)
    elif (framework := session_competitor.load(name)) is not None:
        serve(framework_case(framework, threads), f"{name} {framework.__version__}")


if __name__ == "__main__":
    main()

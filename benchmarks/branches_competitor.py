"""One competitor of `branches.py`, as a process: `branches_competitor.py NAME THREADS BRANCHES`.

sparkflow and TensorFlow run the very same program: it is written once, in TensorFlow 1's words.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import cnn
import mlp
import numpy as np
from competitor import Case, serve
from session_competitor import load

FIRST_CALLS = 80
"""So many until sparkflow has found out what is worth a thread."""
_generator = np.random.default_rng(0)


def cases(tf: Any, threads: int, branches: int) -> Callable[[str], Case]:
    """The cases as TensorFlow 1 programs."""
    makers = {"sums": _sums, "random": _random, "small": _small}
    makers |= {"towers": _towers, "chain": _one_tower}
    makers |= {"mlp": _mlp, "large": _large_mlp, "cnn": _cnn, "wide_deep": _wide_deep}
    config = tf.ConfigProto(
        intra_op_parallelism_threads=threads, inter_op_parallelism_threads=branches
    )

    def make(name: str) -> Case:
        with tf.Graph().as_default():
            fetches = makers[name](tf)
            initializer = tf.global_variables_initializer()
            running = tf.Session(config=config)
        running.run(initializer)
        call = running.make_callable(fetches)
        digits = 1 if name == "random" else 9  # other numbers, and the same mean
        check = [round(float(call()[0]), digits) for _ in range(3)]
        for _ in range(FIRST_CALLS):
            call()
        return Case(call, check)

    return make


def _sums(tf: Any) -> list[Any]:
    values = _generator.uniform(-1, 1, (1024, 512)).astype(np.float32)
    x = tf.get_variable("x", initializer=values)
    ends = [tf.cumsum(tf.cumsum(x * scale, axis=1), axis=1) for scale in (0.5, 0.25, 2.0, 4.0)]
    return [tf.add_n([tf.reduce_mean(end) for end in ends])]


def _random(tf: Any) -> list[Any]:
    drawn = [tf.random.normal([500_000], seed=seed) for seed in range(1, 5)]
    return [tf.add_n([tf.reduce_mean(each * each) for each in drawn])]


def _convolved(tf: Any, x: Any, name: str, size: int, channels: int) -> Any:
    given = int(x.shape[-1])
    values = _generator.normal(size=(size, size, given, channels)) / np.sqrt(size * size * given)
    kernel = tf.get_variable(name, initializer=values.astype(np.float32))
    return tf.nn.relu(tf.nn.conv2d(x, kernel, strides=[1, 1, 1, 1], padding="SAME"))


def _trained(tf: Any, joined: Any) -> list[Any]:
    loss = tf.reduce_mean(tf.square(joined - 0.5))
    return [loss, tf.train.GradientDescentOptimizer(0.01).minimize(loss).name]


def _images(tf: Any, shape: tuple[int, ...]) -> Any:
    values = _generator.uniform(0, 1, shape).astype(np.float32)
    return tf.get_variable("images", initializer=values, trainable=False)


def _small(tf: Any) -> list[Any]:
    images = _images(tf, (2, 16, 16, 32))
    ends = []
    for tower in range(4):
        x = images
        for layer in range(6):
            x = _convolved(tf, x, f"kernel_{tower}_{layer}", 1, 32)
        ends.append(x)
    return _trained(tf, tf.concat(ends, 3))


def _towers(tf: Any) -> list[Any]:
    """An inception module (Szegedy et al., Going Deeper with Convolutions, 2014)."""
    images = _images(tf, (8, 28, 28, 64))
    pooled = tf.nn.max_pool(images, [1, 3, 3, 1], [1, 1, 1, 1], "SAME")
    ends = [
        _convolved(tf, images, "one", 1, 32),
        _convolved(tf, _convolved(tf, images, "three_in", 1, 32), "three", 3, 48),
        _convolved(tf, _convolved(tf, images, "five_in", 1, 16), "five", 5, 32),
        _convolved(tf, pooled, "pooled", 1, 32),
    ]
    return _trained(tf, tf.concat(ends, 3))


def _one_tower(tf: Any) -> list[Any]:
    images = _images(tf, (8, 28, 28, 64))
    return _trained(tf, _convolved(tf, _convolved(tf, images, "three_in", 1, 32), "three", 3, 48))


def _updated(tf: Any, loss: Any, optimizer: Any) -> list[Any]:
    return [loss, optimizer.minimize(loss).name]


def _mlp(tf: Any) -> list[Any]:
    x, labels = map(tf.constant, mlp.batch())
    loss = mlp.loss(tf, x, labels, mlp.initial_values())
    return _updated(tf, loss, tf.train.GradientDescentOptimizer(mlp.LEARNING_RATE))


def _large_mlp(tf: Any) -> list[Any]:
    x, labels = map(tf.constant, mlp.batch(rows=mlp.LARGE_BATCH))
    loss = mlp.loss(tf, x, labels, mlp.initial_values(mlp.LARGE_SIZES))
    return _updated(tf, loss, tf.train.AdamOptimizer(mlp.ADAM_LEARNING_RATE))


def _cnn(tf: Any) -> list[Any]:
    pictures, labels = map(tf.constant, cnn.batch())
    loss = cnn.loss(tf, pictures, labels, cnn.initial_values())
    return _updated(tf, loss, tf.train.GradientDescentOptimizer(cnn.LEARNING_RATE))


def _wide_deep(tf: Any) -> list[Any]:
    """The network of `examples/wide_deep.py`: columns of names and crosses, and of numbers."""
    rows = 512
    drawn = np.random.default_rng(1)

    def looked_up(name: str, size: int, columns: int) -> Any:
        ids = tf.constant(drawn.integers(0, size, rows))
        values = (drawn.standard_normal((size, columns)) * 0.1).astype(np.float32)
        return tf.gather(tf.get_variable(name, initializer=values), ids)

    names = {"carrier": (16, 6), "origin": (3, 2), "dest": (105, 10), "day": (366, 12)}
    names["hour"] = (24, 4)
    crosses = {"day_x_hour": 20_000, "origin_x_day": 4_000, "carrier_x_dest": 2_000}
    wide = [looked_up(f"wide_{name}", size, 1) for name, (size, _) in names.items()]
    wide += [looked_up(f"wide_{name}", size, 1) for name, size in crosses.items()]
    deep = [looked_up(f"deep_{name}", size, columns) for name, (size, columns) in names.items()]
    hidden = tf.concat([*deep, drawn.standard_normal((rows, 8)).astype(np.float32)], 1)
    for number, units in enumerate((64, 32, 1)):
        values = drawn.standard_normal((int(hidden.shape[1]), units)) * 0.1
        weights = tf.get_variable(f"weights_{number}", initializer=values.astype(np.float32))
        hidden = tf.matmul(hidden, weights)
        hidden = tf.nn.relu(hidden) if units > 1 else hidden
    labels = tf.constant(drawn.integers(0, 2, (rows, 1)).astype(np.float32))
    logits = tf.add_n([hidden, *wide])
    each = tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=logits)
    return _updated(tf, tf.reduce_mean(each), tf.train.AdamOptimizer(0.002))


def main() -> None:
    name, threads, branches = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    framework = load(name)
    if framework is not None:
        serve(cases(framework, threads, branches))


if __name__ == "__main__":
    main()

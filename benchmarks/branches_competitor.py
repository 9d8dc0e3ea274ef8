"""One competitor of `branches.py`, as a process: `branches_competitor.py NAME THREADS BRANCHES`.

sparkflow and TensorFlow run the very same program: it is written once, in TensorFlow 1's words.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

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


def main() -> None:
    name, threads, branches = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    framework = load(name)
    if framework is not None:
        serve(cases(framework, threads, branches))


if __name__ == "__main__":
    main()

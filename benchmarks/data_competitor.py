"""One competitor of `data_pipeline.py`, as a process: `data_competitor.py NAME THREADS`.

Both run the same program, written with TensorFlow 1's API. A call computes one batch.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
from competitor import Case, serve, skip

MODULES = {"sparkflow": "sparkflow", "TensorFlow": "tensorflow"}
ELEMENTS = 100_000
BATCH = 128


def framework_case(tf: Any, threads: int) -> Callable[[str], Case]:
    """The cases.

    Args:
        tf: The framework.
        threads: The size of its own thread pools, if it has any.
    """
    config = tf.ConfigProto(
        intra_op_parallelism_threads=threads, inter_op_parallelism_threads=threads
    )
    images = np.random.default_rng(0).random((ELEMENTS, 28, 28), np.float32)

    def make(name: str) -> Case:
        with tf.Graph().as_default() as graph:
            tf.set_random_seed(1)
            fed = tf.placeholder(tf.float32, images.shape)
            dataset = _pipeline(name, tf.data.Dataset.from_tensor_slices(fed))
            iterator = dataset.make_initializable_iterator()
            batch = iterator.get_next()
        running = tf.Session(graph=graph, config=config)
        running.run(iterator.initializer, {fed: images})
        step = running.make_callable(batch.op)
        return Case(step, running.run(batch).sum((1, 2)))

    return make


def _pipeline(name: str, dataset: Any) -> Any:
    def scaled(x: Any) -> Any:
        return x * 2.0 - 1.0

    if name == "batch":
        return dataset.repeat().batch(BATCH)
    if name == "batch_map":
        return dataset.shuffle(10_000, seed=2).repeat().batch(BATCH).map(scaled)
    mapped = dataset.shuffle(10_000, seed=2).repeat().map(scaled, 2 if name == "parallel" else None)
    return mapped.batch(BATCH).prefetch(1)


def main() -> None:
    name, threads = sys.argv[1], int(sys.argv[2])
    if importlib.util.find_spec(MODULES[name]) is None:
        skip(f"the package {MODULES[name]} is not installed")
        return
    framework = importlib.import_module(MODULES[name])
    if name == "TensorFlow":
        framework = framework.compat.v1
        framework.disable_v2_behavior()
    serve(framework_case(framework, threads))


if __name__ == "__main__":
    main()

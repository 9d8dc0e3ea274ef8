"""The cost of a node before anything runs: building it, its gradient, the message, the first run.

    python benchmarks/graph_building.py [--record]

Times are CPU time of the thread, with garbage collection enabled, because a graph has many small
objects.
"""

from __future__ import annotations

import argparse
import gc
import time
from collections.abc import Callable

import numpy as np
from report import Report, Table, add_options, time_text
from timing import measured

import sparkflow as tf

FIGURES = ("build", "build with constants", "gradient", "to GraphDef", "first run")
PACKAGES = ("numpy", "protobuf")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    add_options(parser, rounds=5)
    parser.add_argument("--nodes", type=int, default=10_000, help="default: %(default)s")
    options = parser.parse_args()
    report = Report("graph_building", PACKAGES, options)
    rounds = [seconds_per_node(options.nodes) for _ in range(options.rounds)]
    rows = []
    for index, name in enumerate(FIGURES):
        figure = measured([round_[index] for round_ in rounds])
        rows.append([name, time_text(figure)])
    table = Table(["figure", "per node"], rows)
    report.finish(
        {f"Chains of {options.nodes} additions, median of {options.rounds} rounds": table}
    )


def seconds_per_node(count: int) -> list[float]:
    """Returns the figures of one round, in the order of `FIGURES`."""
    with tf.Graph().as_default():
        x = tf.placeholder(tf.float32, [10])
        built = timed(lambda: chain(x, x, count)) / count
    with tf.Graph().as_default() as graph, tf.Session() as session:
        x = tf.placeholder(tf.float32, [10])
        before = graph.version
        spent = timed(lambda: chain(x, 1.0, count // 2))
        with_constants = spent / (graph.version - before)
        y = chain(x, x, count)
        gradient = timed(lambda: tf.gradients(y, x)) / count
        message = timed(graph.as_graph_def) / graph.version
        session.run(x, {x: np.zeros(10)})  # sends the nodes; the next call prunes and compiles
        first = timed(lambda: session.run(y, {x: np.zeros(10)})) / count
    return [built, with_constants, gradient, message, first]


def chain(start: tf.Tensor, other: object, count: int) -> tf.Tensor:
    """`count` additions, one after another."""
    for _ in range(count):
        start = start + other
    return start


def timed(call: Callable[[], object]) -> float:
    """Returns the CPU seconds of one call."""
    gc.collect()
    begin = time.thread_time()
    call()
    return time.thread_time() - begin


if __name__ == "__main__":
    main()

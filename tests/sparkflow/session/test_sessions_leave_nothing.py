"""Consecutive sessions on a cluster: neither they nor its tasks keep anything of them."""

from __future__ import annotations

import gc
import itertools
from collections import Counter
from collections.abc import Iterator

import numpy as np
import pytest

import sparkflow as tf
from sparkflow_runtime.testing.local_cluster import LocalCluster

SESSIONS = 6


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster(1, 1) as cluster:
        yield cluster


def _use(cluster: LocalCluster) -> None:
    """A variable on a parameter server, a queue, a loop, and steps of all kinds."""
    with tf.Graph().as_default():
        with tf.device("/job:ps/task:0"):
            v = tf.get_variable("v", initializer=np.ones(3, np.float32))
            queue = tf.FIFOQueue(8, [tf.float32], shapes=[[3]])
            put, taken = queue.enqueue([v]), queue.dequeue()
        with tf.device("/job:worker/task:0"):
            x = tf.placeholder(tf.float32, [3])
            _, y = tf.while_loop(lambda i, _: i < 3, lambda i, y: (i + 1, tf.tanh(y * v)), [0, x])
            loss = tf.reduce_sum(y)
        train = tf.train.GradientDescentOptimizer(0.1).minimize(loss)
        with tf.Session(cluster.target("worker", 0)) as session:
            session.run(tf.global_variables_initializer())
            for _ in range(4):
                session.run([train, loss], {x: np.ones(3, np.float32)})
                session.run(put)
                session.run(taken)


def _held() -> Counter[str]:
    gc.collect()
    kinds = (type(each) for each in gc.get_objects())
    return Counter(
        f"{kind.__module__}.{kind.__qualname__}"
        for kind in kinds
        if str(kind.__module__).startswith("sparkflow")
    )


def test_nothing_is_kept_of_a_session(cluster: LocalCluster) -> None:
    for _ in range(3):
        _use(cluster)
    samples = [_held()]
    for _ in range(2):
        for _ in range(SESSIONS):
            _use(cluster)
        samples.append(_held())
    grown = [
        {kind: count - before[kind] for kind, count in after.items()}
        for before, after in itertools.pairwise(samples)
    ]
    # What grows only once, like caches, has not grown in both halves.
    first, again = ({kind for kind, count in each.items() if count >= SESSIONS} for each in grown)
    assert first & again == set()

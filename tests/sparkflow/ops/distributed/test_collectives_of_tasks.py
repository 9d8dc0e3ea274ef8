"""`collective_ops` between tasks, whatever else these exchange, including nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import sparkflow as tf
from sparkflow.ops.distributed import collective
from sparkflow_runtime.testing.local_cluster import LocalCluster

WORKERS = 2


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster(1, WORKERS) as cluster:
        yield cluster


def _constant(task: int) -> Any:
    return tf.fill([3], task + 1.0)


def _of_its_own(task: int) -> Any:
    return tf.get_variable(f"own{task}", initializer=np.full(3, task + 1, np.float32)) * 1.0


def _of_a_server(task: int) -> Any:
    with tf.device("/job:ps/task:0"):
        held = tf.get_variable(f"held{task}", initializer=np.full(3, task + 1, np.float32))
    return held + 0.0


def _of_a_loop(task: int) -> Any:
    return tf.while_loop(lambda i, _: i < 2, lambda i, x: (i + 1, x * 1.0), [0, _constant(task)])[1]


def _chosen(task: int) -> Any:
    given = tf.get_variable(f"flag{task}", initializer=True)
    return tf.cond(given, lambda: _constant(task), lambda: tf.zeros([3]))


SOURCES = [_constant, _of_its_own, _of_a_server, _of_a_loop, _chosen]


def _reduced(task: int, value: Any) -> Any:
    return collective.all_reduce(value, WORKERS, 1, 1)


def _gathered(task: int, value: Any) -> Any:
    return tf.reduce_sum(tf.reshape(collective.all_gather(value, WORKERS, 1, 1), [WORKERS, 3]), 0)


def _broadcast(task: int, value: Any) -> Any:
    if task:
        return collective.broadcast_recv([3], tf.float32, WORKERS, 1, 1) * 3
    return collective.broadcast_send(value, [3], tf.float32, WORKERS, 1, 1) * 3


@pytest.mark.parametrize("source", SOURCES)
@pytest.mark.parametrize("exchange", [_reduced, _gathered, _broadcast])
@pytest.mark.parametrize("master", ["ps", "worker"])
def test_ranks_exchange_what_they_have(
    cluster: LocalCluster,
    master: str,
    exchange: Callable[[int, Any], Any],
    source: Callable[[int], Any],
) -> None:
    with tf.Graph().as_default():
        found = []
        for task in range(WORKERS):
            with tf.device(f"/job:worker/task:{task}"):
                found.append(exchange(task, source(task)))
        with tf.Session(cluster.target(master, 0)) as session:
            session.run(tf.global_variables_initializer())
            for _ in range(3):
                for each in session.run(found):
                    np.testing.assert_array_equal(each, [3, 3, 3])
            looped = tf.train.run_loop(session, tf.group(*found), 3, fetches=found)
            np.testing.assert_array_equal(looped.values, np.full([WORKERS, 3], 3.0))

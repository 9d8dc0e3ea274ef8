import os
import subprocess
import sys

import numpy as np
import pytest
import threadpoolctl

import sparkflow as tf
from sparkflow_runtime.codegen.machine import threads
from sparkflow_runtime.errors import InvalidArgumentError
from sparkflow_runtime.process import apply_threads, limited_threads, worker_environment
from sparkflow_runtime.protos.config_pb2 import ConfigProto


@pytest.fixture
def restored(monkeypatch):
    """Restores the process's numbers of threads afterwards."""
    monkeypatch.setattr(threads, "_limit", 0)
    with threadpoolctl.threadpool_limits(None):
        yield


def blas_threads():
    return {
        pool["num_threads"]
        for pool in threadpoolctl.threadpool_info()
        if pool["user_api"] == "blas"
    }


def test_a_workers_environment():
    given = {"OPENBLAS_CORETYPE": "Haswell", "OMP_NUM_THREADS": "1", "HOME": "/root"}
    assert worker_environment(given, 3) == {
        "HOME": "/root",
        "OMP_NUM_THREADS": "3",
        "OPENBLAS_NUM_THREADS": "3",
        "MKL_NUM_THREADS": "3",
    }
    assert given["OMP_NUM_THREADS"] == "1"


def test_a_process_started_with_it_uses_so_many_threads():
    program = (
        "import numpy, threadpoolctl; from sparkflow_runtime.codegen.machine import threads; "
        "print(threads.count(), *{p['num_threads'] for p in threadpoolctl.threadpool_info()})"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=worker_environment(os.environ, 1),
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert set(done.stdout.split()) == {"1"}


@pytest.mark.usefixtures("restored")
def test_a_config_without_threads_changes_nothing():
    before = threads.count(), blas_threads()
    apply_threads(ConfigProto())
    assert (threads.count(), blas_threads()) == before


@pytest.mark.usefixtures("restored")
def test_threads_of_a_config(monkeypatch):
    monkeypatch.setattr(threads, "_has_futex", lambda: True)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 1, 2})
    apply_threads(ConfigProto(intra_op_parallelism_threads=1))
    assert threads.count() == 1
    assert blas_threads() <= {1}
    apply_threads(ConfigProto(intra_op_parallelism_threads=2))
    assert threads.count() == 2
    with pytest.raises(InvalidArgumentError, match="got -1"):
        apply_threads(ConfigProto(intra_op_parallelism_threads=-1))


@pytest.mark.usefixtures("restored")
def test_how_many_nodes_may_run_at_once_changes_nothing():
    before = threads.count(), blas_threads()
    for number in (0, 1, 2):
        apply_threads(ConfigProto(inter_op_parallelism_threads=number))
        assert (threads.count(), blas_threads()) == before
    with pytest.raises(InvalidArgumentError, match=r"must be 0 \(the default\) or more, got -2"):
        apply_threads(ConfigProto(inter_op_parallelism_threads=-2))


@pytest.mark.usefixtures("restored")
def test_sessions_and_servers_take_it_from_their_config():
    config = tf.ConfigProto(intra_op_parallelism_threads=1)
    with tf.Graph().as_default():
        product = tf.matmul(tf.ones([300, 300]), tf.ones([300, 300]))
        with tf.Session(config=config) as session:
            assert threads.count() == 1
            np.testing.assert_array_equal(session.run(product), np.full((300, 300), 300))
    threads.set_count(0)
    tf.train.Server.create_local_server(config, start=False).stop()
    assert threads._limit == 1


@pytest.mark.usefixtures("restored")
def test_a_process_of_somebody_else_gets_its_threads_back():
    threads.set_count(1)
    before = blas_threads()
    with limited_threads(2):
        assert threads.count() == min(2, len(os.sched_getaffinity(0)))
        assert blas_threads() <= {threads.count()}
    assert threads.count() == 1
    assert blas_threads() == before

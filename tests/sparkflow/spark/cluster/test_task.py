"""What a task gives its child process, and what it says about its end."""

import os
import sys

import pytest

from sparkflow.spark.cluster.process.piped_process import describe_exit
from sparkflow.spark.cluster.task import JobConfig, child_environment
from sparkflow.spark.cluster_layout import ClusterLayout
from sparkflow.spark.data.schema.row_format import DENSE, Input, RowFormat
from sparkflow_runtime.security import Credentials


def test_the_environment_of_a_child_is_clean(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)))
    given = {"OPENBLAS_CORETYPE": "Haswell", "OMP_NUM_THREADS": "1", "HOME": "/root"}
    found = child_environment(given, cpus=1, neighbours=3)
    assert "OPENBLAS_CORETYPE" not in found
    assert found["OMP_NUM_THREADS"] == found["OPENBLAS_NUM_THREADS"] == "2"
    assert found["HOME"] == "/root"
    assert found["PYTHONPATH"].split(os.pathsep) == [path for path in sys.path if path]


def test_a_task_gets_the_threads_that_spark_gave_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0})
    found = child_environment({}, cpus=4, neighbours=3)
    assert found["OMP_NUM_THREADS"] == "4"


@pytest.mark.parametrize(
    ("code", "text"),
    [
        (1, "exited with code 1"),
        (-11, "was killed by signal 11 (SIGSEGV)"),
        (
            -9,
            "was killed by signal 9 (SIGKILL), for instance because the machine ran out of memory",
        ),
        (-64, "was killed by signal 64 (SIGRTMAX)"),
        (-63, "was killed by signal 63 (unknown)"),
    ],
)
def test_the_end_of_a_process_in_words(code: int, text: str) -> None:
    assert describe_exit(code) == text


def test_a_killed_process_may_have_been_too_large() -> None:
    assert "signal 9 (SIGKILL), for instance because the machine ran out" in describe_exit(-9)


def test_the_token_is_not_shown() -> None:
    row_format = RowFormat((Input("x", DENSE, "float32", (2,)),), None, None, named=False)
    config = JobConfig("host:1", Credentials("secret"), ClusterLayout(1, 1), row_format)
    assert "secret" not in repr(config)

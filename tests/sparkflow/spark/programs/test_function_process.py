"""The process that runs a user's function, without Spark around it."""

import os
import signal
import sys
import threading
import time

import pytest
from pyspark import cloudpickle

from sparkflow.spark.cluster_layout import TaskName
from sparkflow.spark.errors import SparkTrainingError
from sparkflow.spark.programs.function_process import FunctionProcess
from sparkflow_runtime.security import Credentials

NAME = TaskName("worker", 1)
WAIT_S = 30


def started(function, *args):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    return FunctionProcess(NAME, cloudpickle.dumps((function, args, Credentials())), environment)


def test_what_is_returned_comes_back_and_what_is_printed_is_kept():
    def function(a, b):
        print("to stdout")
        os.write(2, b"to stderr\n")
        return {"sum": a + b, "pid": os.getpid()}

    process = started(function, 2, 3)
    found = process.result()
    process.end()
    assert found["sum"] == 5
    assert found["pid"] != os.getpid()
    assert sorted(process.lines) == ["to stderr", "to stdout"]


def test_a_second_one_is_forked_and_shares_nothing():
    def function():
        import os
        import sys

        found = vars(sys.modules["__main__"]).setdefault("found", [])
        found.append(os.getpid())
        return os.getppid(), found

    answers = []
    for _ in range(2):
        process = started(function)
        answers.append(process.result())
        process.end()
    (first, ones), (second, others) = answers
    assert first == second != os.getpid()
    assert len({*ones, *others}) == 2


def failing():
    print("before")
    raise KeyError("gone")


def unpicklable():
    return threading.Lock()


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (failing, r"(?s)Traceback .*KeyError: 'gone'\nIts last lines:\nbefore$"),
        (unpicklable, "cannot pickle"),
        (lambda: os._exit(9), "exited with code 9; it had not returned"),
        (
            lambda: os.kill(os.getpid(), signal.SIGKILL),
            "killed by signal 9 .*; it had not returned",
        ),
        (lambda: sys.exit(4), "SystemExit: 4"),
    ],
    ids=["raises", "unpicklable", "exits", "killed", "sys_exit"],
)
def test_a_failure_is_told(function, message):
    process = started(function)
    with pytest.raises(SparkTrainingError, match=message):
        process.result()
    process.end()


def test_it_ends_when_it_is_told_to():
    process = started(time.sleep, 600)
    began = time.monotonic()
    process.end()
    assert time.monotonic() - began < WAIT_S
    with pytest.raises(SparkTrainingError, match="had not returned"):
        process.result()

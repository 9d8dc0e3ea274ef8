"""The function's process ends with its Spark task, whatever it does."""

import os
import subprocess
import sys

from pyspark import cloudpickle

from sparkflow.spark.cluster.child import ORPHANED
from sparkflow.spark.programs.function_process import SIZE
from sparkflow_runtime.security import Credentials

WAIT_S = 60


def started():
    path = os.pathsep.join(path for path in sys.path if path)
    return subprocess.Popen(
        [sys.executable, "-m", "sparkflow.spark.programs.function_child"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": path},
    )


def busy():
    while True:
        pass


def test_it_ends_while_it_computes():
    with started() as process:
        work = cloudpickle.dumps((busy, (), Credentials()))
        for part in (b'{"worker": null, "rows": []}', work):
            process.stdin.write(SIZE.pack(len(part)) + part)
        process.stdin.close()
        assert process.wait(WAIT_S) == ORPHANED
        assert process.stdout.read() == b""


def test_it_ends_before_it_was_told_anything():
    with started() as process:
        process.stdin.close()
        assert process.wait(WAIT_S) == ORPHANED

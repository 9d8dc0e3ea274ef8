"""The child process by itself: how it starts, and that it never outlives its parent."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sparkflow.spark.cluster.child import ORPHANED
from sparkflow.spark.cluster.registration import RegistrationServer
from sparkflow.spark.cluster_layout import ClusterLayout
from sparkflow.spark.data.feed_plan import FeedPlan
from sparkflow.spark.data.schema.row_format import DENSE, Input, RowFormat
from sparkflow_runtime.security import Credentials

TIMEOUT_S = 60
FORMAT = RowFormat((Input("features", DENSE, "float32", (2,)),), None, None, named=False)
PLAN = FeedPlan(FORMAT, batch_size=1).to_json()


class Driver:
    """A registration service and the children that know its address."""

    def __init__(self) -> None:
        self.events: list[Any] = []
        self.server = RegistrationServer(
            ClusterLayout.of(1, 1, "allreduce"),
            self.events.append,
            "127.0.0.1",
            Credentials("token"),
        )
        self.server.begin_attempt(json.dumps(PLAN))
        self.processes: list[subprocess.Popen[str]] = []

    def start(self, **config: Any) -> "subprocess.Popen[str]":
        process = subprocess.Popen(
            [sys.executable, "-m", "sparkflow.spark.cluster.child"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
        )
        self.processes.append(process)
        message = {
            "driver": f"127.0.0.1:{self.server.port}",
            "credentials": Credentials("token").export(),
            "job": "worker",
            "task": 0,
            "partition": 0,
            "attempt": 0,
            "gpu_addresses": None,
            "gpu_memory_bytes": None,
            **config,
        }
        assert process.stdin is not None
        process.stdin.write(json.dumps(message) + "\n")
        process.stdin.flush()
        return process

    def close(self) -> None:
        self.server.close()
        for process in self.processes:
            process.kill()
            process.wait()
            for stream in (process.stdin, process.stdout, process.stderr):
                assert stream is not None
                stream.close()


@pytest.fixture
def driver() -> Iterator[Driver]:
    driver = Driver()
    yield driver
    driver.close()


def _send(process: "subprocess.Popen[str]", message: Any) -> None:
    assert process.stdin is not None
    process.stdin.write(json.dumps(message) + "\n")
    process.stdin.flush()


def _end(process: "subprocess.Popen[str]") -> tuple[int, str]:
    """Returns the exit code and stderr, with stdin left open."""
    code = process.wait(TIMEOUT_S)
    assert process.stderr is not None
    return code, process.stderr.read()


def test_it_ends_when_the_job_does(driver: Driver) -> None:
    process = driver.start()
    _send(process, {"rows": 0, "validation_rows": 0})
    with driver.server._changed:
        while not driver.server._board.tasks:
            assert driver.server._changed.wait(TIMEOUT_S)
    driver.server.end()
    assert _end(process) == (0, "")


def test_it_ends_when_its_input_does(driver: Driver) -> None:
    process = driver.start()
    assert process.stdin is not None
    process.stdin.close()
    assert process.wait(TIMEOUT_S) == 3


def test_it_says_what_is_wrong(driver: Driver) -> None:
    process = driver.start(credentials=Credentials("wrong").export())
    code, said = _end(process)
    # Like a lost task: the driver gave it this token, and is asked with it whether to retry.
    assert code == ORPHANED
    assert "The job's token is missing or wrong" in said
    assert driver.events == []


def test_it_needs_no_pyspark(tmp_path: Path) -> None:
    program = (
        "import sys, sparkflow.spark.cluster.child, sparkflow.spark.cluster.task_lifecycle; "
        "import sparkflow.spark.cluster.registration_client; "
        "from sparkflow_runtime.server import Server; "
        "print(sorted(m for m in sys.modules if m.split('.')[0] in ('pyspark', 'py4j', 'pandas')))"
    )
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    found = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env=env, check=True
    )
    assert found.stdout.strip() == "[]"

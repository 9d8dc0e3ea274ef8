"""`SparkTrainer` with executors in separate processes: local-cluster[2,2,1024]."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(300)]

PROGRAM = Path(__file__).with_name("local_cluster_program.py")


@pytest.fixture
def start(tmp_path: Path) -> Callable[[str], "subprocess.Popen[str]"]:
    def start(what: str) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            [sys.executable, str(PROGRAM), str(tmp_path), what],
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
        )

    return start


def _outcome(process: "subprocess.Popen[str]") -> Any:
    with process:
        said, _ = process.communicate()
    assert process.returncode == 0
    (line,) = (line for line in said.splitlines() if line.startswith("{"))
    return json.loads(line)


@pytest.mark.nightly
def test_a_lost_executor(start: Callable[[str], "subprocess.Popen[str]"]) -> None:
    outcome = _outcome(start("kill executor"))
    assert len(outcome["restarts"]) == 1
    assert "has gone: it was killed, or its machine was lost" in outcome["restarts"][0]
    # Training continued to the end, with a good result, on separate GPUs.
    assert outcome["epochs"] >= 200
    assert outcome["worst"] < 0.05
    assert outcome["left"] == 0
    used = [(task, gpu) for task, gpu in outcome["gpus"].items() if task.startswith("worker")]
    assert {gpu for _, gpu in used} <= {"GPU-00000000-aaaa", "GPU-11111111-bbbb"}
    assert len({(task.split(" on ")[1], gpu) for task, gpu in used}) == 2
    assert [gpu for task, gpu in outcome["gpus"].items() if task.startswith("ps")] == [""]


@pytest.mark.nightly
def test_a_stopped_session(start: Callable[[str], "subprocess.Popen[str]"]) -> None:
    outcome = _outcome(start("stop session"))
    assert outcome["error"].startswith("SparkTrainingError: ")
    assert outcome["left"] == 0


@pytest.mark.nightly
def test_a_lost_driver(start: Callable[[str], "subprocess.Popen[str]"]) -> None:
    process = start("wait to be killed")
    with process:
        assert process.stdout is not None
        children = json.loads(next(line for line in process.stdout if line.startswith("{")))
        process.kill()
    deadline = time.monotonic() + 60
    waiting = [Path(f"/proc/{pid}") for pid in children["children"]]
    assert len(waiting) == 3
    while any(path.exists() for path in waiting):
        assert time.monotonic() < deadline, "training processes outlived the driver"
        time.sleep(0.1)  # other programs' processes: there is nothing to wait on


@pytest.mark.nightly
def test_dynamic_allocation(start: Callable[[str], "subprocess.Popen[str]"]) -> None:
    outcome = _outcome(start("dynamic allocation"))
    assert "spark.dynamicAllocation.enabled=true" in outcome["started"]
    assert "waiting for 1 of 3 tasks" in " ".join(outcome["said"])
    assert len(outcome["restarts"]) == 1
    assert "it was killed, or its machine was lost" in outcome["restarts"][0]
    assert outcome["loss"] < 0.05
    assert "SparkTrainingError: After 5 s these tasks have not started: " in outcome["too_few"]
    assert "need 7 task slots at once, and Spark has 3" in outcome["too_few"]
    assert outcome["tasks"] == 2
    assert outcome["left"] == 0

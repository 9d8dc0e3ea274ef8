"""Workers and parameter servers with their own resources, on executors in separate processes."""

import json
import logging
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from sparkflow.spark.cluster_layout import ClusterLayout
from sparkflow.spark.launch.classic import ClassicBackend
from sparkflow.spark.task_resources import RoleResources
from support.standalone import standalone

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(600)]

PROGRAM = Path(__file__).with_name("resources_program.py")
# Two executors with two cores and one GPU each.
LOCAL = "local-cluster[2,2,1024]"


def _run(folder: Path, master: str, *steps: str) -> list[dict[str, Any]]:
    done = subprocess.run(
        [sys.executable, str(PROGRAM), str(folder), master, *steps],
        stdout=subprocess.PIPE,
        text=True,
        timeout=540,
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
    )
    assert done.returncode == 0
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    assert len(lines) == len(steps)
    return [json.loads(line) for line in lines]


def _gpus(step: dict[str, Any]) -> dict[str, str]:
    return {task: each["gpus"] for task, each in sorted(step["tasks"].items())}


APART = {"ps 0": "", "ps 1": "", "worker 0": "GPU-a", "worker 1": "GPU-a"}


def _assert_apart(step: dict[str, Any]) -> None:
    # Spark's settings would have assigned each of the four tasks one of two GPUs.
    assert _gpus(step) == APART
    assert step["tasks"]["worker 0"]["executor"] != step["tasks"]["worker 1"]["executor"]
    assert step["loss"] < 0.05
    assert step["left"] == 0


def test_servers_without_gpus_beside_workers_with_them(tmp_path: Path) -> None:
    (step,) = _run(tmp_path, LOCAL, "fits")
    _assert_apart(step)
    assert step["started"].startswith("a barrier stage")


@pytest.mark.nightly
def test_the_same_without_a_barrier_stage(tmp_path: Path) -> None:
    (step,) = _run(tmp_path, LOCAL, "without_barrier")
    _assert_apart(step)
    assert step["started"].startswith("an ordinary stage")


@pytest.mark.nightly
def test_what_is_refused(tmp_path: Path) -> None:
    (said,) = _run(tmp_path, LOCAL, "refused")
    assert "need room for 3 workers with 1 gpu each (workerResources)" in said["gpus"]
    assert "and Spark has it for 2" in said["gpus"]
    assert "need 5 cores at once, and Spark has 4" in said["cores"]
    assert "Spark refuses the resources 1 tpu: No executor resource configs" in said["unknown"]
    assert "Without dynamic allocation only what tasks take can be chosen" in said["executors"]
    assert said["no servers"].startswith("ValueError: psResources=")


@pytest.mark.nightly
def test_a_cluster_for_programs_and_fits_in_turn(tmp_path: Path) -> None:
    made, turn = _run(tmp_path, LOCAL, "cluster", "in_turn")
    assert made["sum"] == sum(float(i % 7 - 2 * (i % 3)) for i in range(400))
    assert _gpus(made) == {"ps 0": "", "worker 0": "GPU-a", "worker 1": "GPU-a"}
    jobs = {"ps": 1, "worker": 2}
    assert made["roles"] == [[jobs, {"type": "worker", "index": index}] for index in (0, 1)]
    assert turn["fits"] == 2
    (waited,) = turn["waited"]
    assert waited.endswith("2 task slots are needed, 2 of 2 are in use")


@pytest.mark.nightly
def test_a_lost_executor(tmp_path: Path) -> None:
    (step,) = _run(tmp_path, LOCAL, "killed")
    assert len(step["restarts"]) == 1
    assert step["loss"] < 0.05
    assert step["left"] == 0


@pytest.mark.nightly
def test_executors_of_two_kinds_with_dynamic_allocation(tmp_path: Path) -> None:
    script = tmp_path / "gpus.sh"
    script.write_text("""#!/bin/sh
echo '{"name": "gpu", "addresses": ["GPU-a"]}'
""")
    script.chmod(0o755)
    # Executors with the rows stay, so there is room for those of all three kinds.
    with standalone(tmp_path, 2, cores=4, gpu_script=str(script), memory="3g") as master:
        (step,) = _run(tmp_path, master, "two_kinds")
    assert _gpus(step) == {"ps 0": "", "ps 1": "", "worker 0": "GPU-a"}
    executors = {task: each["executor"] for task, each in step["tasks"].items()}
    assert executors["ps 0"] == executors["ps 1"] != executors["worker 0"]
    assert step["started"].startswith("an ordinary stage")
    assert step["loss"] < 0.05
    assert step["left"] == 0


def test_threads_of_one_process_have_no_resources_of_their_own(
    spark: SparkSession, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        layout = ClassicBackend(spark).require_slots(
            ClusterLayout(1, 2), RoleResources.of({"gpu": 1}, {"cpus": 1})
        )
    assert layout == ClusterLayout(1, 2)
    assert "workerResources and psResources have no effect on local[4]" in caplog.text

"""Whether registered tasks are compatible with the driver and each other."""

import pytest

from sparkflow.spark.cluster.compatibility import check_compatibility, describe_versions
from sparkflow.spark.cluster.scheduling.gpus import (
    describe_clashes,
    describe_unseen,
    gpu_environment,
    memory_bytes,
)
from sparkflow.spark.cluster.task_lifecycle import versions
from sparkflow_runtime.protos.rendezvous_pb2 import TaskInfo

HERE = {"python": "3.11.7", "numpy": "2.1.0", "grpcio": "1.70.0", "sparkflow": "0.3.0"}


def _task(index: int, **fields: object) -> TaskInfo:
    return TaskInfo(job="worker", task=index, host="node7", **fields)  # type: ignore[arg-type]


def test_the_same_versions_fit() -> None:
    assert check_compatibility([_task(0, versions=versions())]) == ""


@pytest.mark.parametrize(
    ("package", "version", "is_fatal"),
    [
        ("python", "3.10.2", True),
        ("python", "3.11.9", False),
        ("sparkflow", "0.3.1", True),
        ("numpy", "1.26.4", True),
        ("numpy", "2.3.0", False),
        ("grpcio", "1.60.0", False),
    ],
)
def test_versions_that_differ(package: str, version: str, is_fatal: bool) -> None:
    tasks = [_task(0, versions=HERE), _task(1, versions={**HERE, package: version})]
    text = describe_versions(tasks, HERE, fatal=is_fatal)
    assert (
        f"{package} is {version} for worker task 1 on node7, and {HERE[package]} on the driver"
        in text
    )
    assert "Install the driver's versions" in text
    assert describe_versions(tasks, HERE, fatal=not is_fatal) == ""


def test_a_gpu_of_two_tasks_is_a_clash() -> None:
    tasks = [_task(0, gpu_uuids=["GPU-a", "GPU-b"]), _task(1, gpu_uuids=["GPU-b"])]
    assert "worker task 0, worker task 1 on node7 all use GPU-b" in describe_clashes(tasks)
    assert describe_clashes(tasks[:1]) == ""
    assert check_compatibility(tasks).startswith("Tasks share GPUs")


def test_gpus_that_nobody_sees() -> None:
    tasks = [_task(0, gpu_addresses=["0"], gpu_uuids=["GPU-a"]), _task(1, gpu_addresses=["1"])]
    assert "to worker task 1 on node7 (GPUs 1), but" in describe_unseen(tasks)
    assert describe_unseen(tasks[:1]) == ""


def test_the_gpus_of_a_process() -> None:
    inherited = {"CUDA_VISIBLE_DEVICES": "7", "HOME": "/"}
    assert gpu_environment(inherited, "worker", ["GPU-a", "3"])["CUDA_VISIBLE_DEVICES"] == "GPU-a,3"
    assert gpu_environment(inherited, "worker", []) == {"CUDA_VISIBLE_DEVICES": "", "HOME": "/"}
    assert gpu_environment(inherited, "worker", None) == inherited
    assert gpu_environment({}, "worker", None) == {}
    assert gpu_environment(inherited, "ps", None)["CUDA_VISIBLE_DEVICES"] == ""


@pytest.mark.parametrize(
    ("text", "size"), [("", None), ("512m", 512 << 20), ("8g", 8 << 30), ("8GB", 8 << 30), ("7", 7)]
)
def test_sizes(text: str, size: int | None) -> None:
    assert memory_bytes(text) == size


@pytest.mark.parametrize("text", ["g", "8x", "0", "-1g"])
def test_no_sizes(text: str) -> None:
    with pytest.raises(ValueError, match="is not a memory size"):
        memory_bytes(text)

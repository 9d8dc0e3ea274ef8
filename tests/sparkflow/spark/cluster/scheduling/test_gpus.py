"""Which task gets which GPU, and the messages if two tasks share one or one sees none."""

import pytest

from sparkflow.spark.cluster.scheduling.gpus import (
    describe_clashes,
    describe_unseen,
    gpu_environment,
    memory_bytes,
)
from sparkflow_runtime.protos.rendezvous_pb2 import TaskInfo


def info(job: str, task: int, uuids: str = "", addresses: str = "") -> TaskInfo:
    return TaskInfo(
        job=job, task=task, host="h", gpu_uuids=uuids.split(), gpu_addresses=addresses.split()
    )


def test_the_process_sees_what_spark_gave_the_task() -> None:
    environment = {"PATH": "p", "CUDA_VISIBLE_DEVICES": "0,1,2"}
    given = gpu_environment(environment, "worker", ["2", "MIG-a"])
    assert given == {"PATH": "p", "CUDA_VISIBLE_DEVICES": "2,MIG-a"}
    assert gpu_environment(environment, "worker", []) == {"PATH": "p", "CUDA_VISIBLE_DEVICES": ""}
    assert gpu_environment(environment, "worker", None) == environment
    assert gpu_environment(environment, "ps", ["2"])["CUDA_VISIBLE_DEVICES"] == ""
    assert environment["CUDA_VISIBLE_DEVICES"] == "0,1,2"


def test_clashes() -> None:
    assert describe_clashes([info("worker", 0, "GPU-a"), info("worker", 1, "GPU-b")]) == ""
    text = describe_clashes(
        [info("worker", 1, "GPU-a GPU-c"), info("worker", 0, "GPU-a"), info("worker", 2, "GPU-c")]
    )
    assert text.index("all use GPU-a") < text.index("all use GPU-c")
    assert text.startswith("Tasks share GPUs: worker task 0, worker task 1 on h all use GPU-a; ")


def test_unseen() -> None:
    seen = info("worker", 0, "GPU-a", "0")
    none_given, ps = info("worker", 1), info("ps", 0, "", "0")
    assert describe_unseen([seen, none_given, ps]) == ""
    text = describe_unseen([seen, info("worker", 3, "", "0 1"), info("worker", 2, "", "4")])
    assert text.startswith(
        "Spark gave GPUs to worker task 2 on h (GPUs 4); worker task 3 on h (GPUs 0, 1), but"
    )


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("", None),
        ("512", 512),
        ("3k", 3 << 10),
        ("512M", 512 << 20),
        (" 8gb ", 8 << 30),
        ("2t", 2 << 40),
        ("7b", 7),
    ],
)
def test_sizes(text: str, size: int | None) -> None:
    assert memory_bytes(text) == size


@pytest.mark.parametrize("text", ["0", "0g", "g", "1.5g", "-1", "8 gigabytes", "b"])
def test_what_is_no_size(text: str) -> None:
    with pytest.raises(ValueError, match="is not a memory size; write it as 512m"):
        memory_bytes(text)

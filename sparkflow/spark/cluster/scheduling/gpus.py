"""The GPUs of a task: those assigned by Spark, those visible to its process, and conflicts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from sparkflow.spark.cluster_layout import TaskName
from sparkflow_runtime.protos.rendezvous_pb2 import TaskInfo

VARIABLE = "CUDA_VISIBLE_DEVICES"


def gpu_environment(
    environment: Mapping[str, str], job: str, addresses: Sequence[str] | None
) -> dict[str, str]:
    """Returns the environment of a task's process with the GPUs that it may use.

    The variable is set for the process alone: Spark's Python workers are reused by other tasks, and
    keep the environment they were started with.

    Args:
        environment: The environment without it.
        job: `ps` or `worker`; parameter servers use no GPU.
        addresses: What Spark gave the task: numbers, or uuids (`GPU-...`, `MIG-...`); None where
            it gives GPUs to no task, which leaves the choice to the machine's settings.
    """
    child = dict(environment)
    if job == "ps":
        child[VARIABLE] = ""
    elif addresses is not None:
        child[VARIABLE] = ",".join(addresses)
    return child


def describe_clashes(infos: Sequence[TaskInfo]) -> str:
    """Returns which GPUs several tasks use, and what to do; an empty string if none.

    Tasks are told apart by the uuids of their GPUs, which are the same however a task, a container
    or a discovery script numbers them.
    """
    users: dict[str, list[TaskInfo]] = {}
    for info in infos:
        for uuid in info.gpu_uuids:
            users.setdefault(uuid, []).append(info)
    clashes = []
    for uuid, each in sorted(users.items()):
        if len(each) > 1:
            tasks = sorted(TaskName(info.job, info.task) for info in each)
            clashes.append(f"{', '.join(map(str, tasks))} on {each[0].host} all use {uuid}")
    if not clashes:
        return ""
    return (
        f"Tasks share GPUs: {'; '.join(clashes)}. Let Spark give each task its own "
        "(spark.executor.resource.gpu.amount, spark.executor.resource.gpu.discoveryScript and "
        "spark.task.resource.gpu.amount=1), or run one worker per GPU"
    )


def describe_unseen(infos: Sequence[TaskInfo]) -> str:
    """Returns which workers cannot see their assigned GPUs; an empty string if none."""
    unseen = [
        f"{TaskName(info.job, info.task)} on {info.host} (GPUs {', '.join(info.gpu_addresses)})"
        for info in infos
        if info.job != "ps" and info.gpu_addresses and not info.gpu_uuids
    ]
    if not unseen:
        return ""
    return (
        f"Spark gave GPUs to {'; '.join(sorted(unseen))}, but their processes see none and train "
        "on the CPU: is cupy installed there (pip install 'sparkflow-ml[gpu12]'), and a driver?"
    )


def memory_bytes(text: str) -> int | None:
    """Parses a size in Spark's settings (`512m`, `8g`, a number of bytes); None for none.

    Raises:
        ValueError: It is no size.
    """
    if not text:
        return None
    units = {"k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}
    number = text.strip().lower().removesuffix("b")
    factor = units.get(number[-1:], 1)
    digits = number[:-1] if number[-1:] in units else number
    if not digits.isdecimal() or not int(digits):
        raise ValueError(f"{text!r} is not a memory size; write it as 512m, 8g or in bytes")
    return int(digits) * factor

"""Where a model runs in a Python worker: the processors or the GPU that Spark gave the task."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from sparkflow.spark.model.prediction import Place
from sparkflow_runtime.codegen.machine.threads import VARIABLE
from sparkflow_runtime.device.device import count_gpus, gpu_uuids
from sparkflow_runtime.errors import FailedPreconditionError

_log = logging.getLogger(__name__)

_VISIBLE: Final = "CUDA_VISIBLE_DEVICES"


def place_of_task(wanted: str) -> Place:
    """The place of the Spark task that calls.

    Args:
        wanted: `auto`, `cpu` or `gpu`.

    Raises:
        FailedPreconditionError: `gpu`, but there is none for this task.
    """
    from pyspark import TaskContext

    context = TaskContext.get()
    cpus, gpus = 1, None
    if context is not None:
        cpus = context.cpus()
        found = context.resources().get("gpu")
        gpus = None if found is None else found.addresses
    return place(wanted, cpus, gpus, os.environ)


def place(
    wanted: str,
    cpus: int,
    gpus: Sequence[str] | None,
    environment: Mapping[str, str],
    uuids: Callable[[], Sequence[str]] = gpu_uuids,
    count: Callable[[], int] = count_gpus,
) -> Place:
    """The place of a task.

    Python workers are used again by tasks with other GPUs, and CUDA looks at the environment only
    once: so the task's GPU is chosen among those that the process sees, not hidden from it.

    Args:
        wanted: `auto`, `cpu` or `gpu`.
        cpus: `spark.task.cpus`.
        gpus: The addresses that Spark gave the task, numbers or uuids; None where it gives none.
        environment: Of this process.
        uuids: Asks for the uuids of the GPUs that the process sees.
        count: Asks for their number.

    Raises:
        FailedPreconditionError: `gpu`, but there is none; or another than the task's is to be seen.
    """
    # pyspark sets the variable to spark.task.cpus, and users may set it to what they like better.
    threads = 0 if environment.get(VARIABLE) else cpus
    if wanted == "cpu" or (wanted == "auto" and not gpus):
        return Place("/device:CPU:0", threads)
    seen = count()
    if not seen and wanted == "auto":
        _log.warning(
            "the task has the GPUs %s, but this Python worker sees none (is cupy installed on the "
            "executors?): the model runs on the CPU",
            list(gpus or []),
        )
        return Place("/device:CPU:0", threads)
    if not seen:
        raise FailedPreconditionError(
            message=f"inferenceDevice is {wanted!r} and the task has the GPUs {list(gpus or [])}, "
            "but this Python worker sees none: a GPU needs its driver and cupy on the executors "
            "(pip install 'sparkflow-ml[gpu12]'), or set inferenceDevice='cpu'"
        )
    index = 0 if not gpus else _ordinal(gpus[0], environment, uuids)
    if not 0 <= index < seen:
        raise FailedPreconditionError(
            message=f"Spark gave the task the GPU {gpus[0] if gpus else index!r}, but this Python "
            f"worker sees {seen} GPUs ({_VISIBLE}={environment.get(_VISIBLE, '')!r}): the "
            "discovery script and the executor's environment must agree"
        )
    return Place(f"/device:GPU:{index}", threads)


def _ordinal(
    address: str, environment: Mapping[str, str], uuids: Callable[[], Sequence[str]]
) -> int:
    """The number that the process knows a GPU by; -1 if it does not."""
    if not address.isdecimal():
        known = list(uuids())
        return known.index(address) if address in known else -1
    visible = [each.strip() for each in environment.get(_VISIBLE, "").split(",") if each.strip()]
    # Addresses are the machine's numbers, unless the process was given its own numbering by uuids.
    if visible and all(each.isdecimal() for each in visible):
        return visible.index(address) if address in visible else -1
    return int(address)

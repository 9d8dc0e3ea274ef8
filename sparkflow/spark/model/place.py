"""Where a model runs in a Python worker: on the CPU cores or the GPU that Spark assigned."""

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
    """Returns the place for the calling Spark task.

    Args:
        wanted: `auto`, `cpu` or `gpu`.

    Raises:
        FailedPreconditionError: `gpu` was requested, but this task has none.
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
    """Returns the place for a task.

    Python workers are reused by tasks with other GPUs, and CUDA reads the environment only once, so
    the task's GPU is selected among the visible ones instead of hiding the others.

    Args:
        wanted: `auto`, `cpu` or `gpu`.
        cpus: `spark.task.cpus`.
        gpus: The addresses that Spark gave the task, numbers or uuids; None for none.
        environment: The environment of this process.
        uuids: Returns the uuids of the visible GPUs.
        count: Returns the number of visible GPUs.

    Raises:
        FailedPreconditionError: `gpu` was requested, but no GPU, or not the task's, is visible.
    """
    # pyspark sets the variable to spark.task.cpus, and users may override it.
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
    """Returns the number of a GPU in this process; -1 if it is not visible."""
    if not address.isdecimal():
        known = list(uuids())
        return known.index(address) if address in known else -1
    visible = [each.strip() for each in environment.get(_VISIBLE, "").split(",") if each.strip()]
    # Addresses are the machine's numbers, unless uuids have renumbered the process's GPUs.
    if visible and all(each.isdecimal() for each in visible):
        return visible.index(address) if address in visible else -1
    return int(address)

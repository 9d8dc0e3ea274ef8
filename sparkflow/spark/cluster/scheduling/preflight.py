"""Checks of a job against Spark's settings before it is submitted. No I/O."""

from __future__ import annotations

import re
from collections.abc import Mapping

from sparkflow.spark.cluster.scheduling.gang import BARRIER, describe_growth, gang_start
from sparkflow.spark.cluster_layout import ClusterLayout

_MIB = 1 << 20
PROCESS_MIB = 300
"""The memory of a task's process without variables and rows (measured 2026-11-21: 190 MiB)."""
_LEAST_OVERHEAD_MIB = 384
_OVERHEAD_FACTOR = 0.1


def describe_settings(settings: Mapping[str, str], layout: ClusterLayout, master: str = "") -> str:
    """Returns what cannot work with these settings, and what to do; empty if nothing.

    Args:
        settings: Spark's.
        layout: The tasks that are to run at once.
        master: Of the session; unknown on Spark Connect.
    """
    return (
        _describe_barrier(settings, layout, master)
        or _describe_cores(settings)
        or _describe_gpus(settings, layout)
        or _describe_pyspark_memory(settings)
    )


def describe_slots(found: int, layout: ClusterLayout, settings: Mapping[str, str]) -> str:
    """Returns the message that there are too few slots, with all numbers."""
    cpus = settings.get("spark.task.cpus", "1")
    takes = f" (each of spark.task.cpus={cpus} cores)" if cpus != "1" else ""
    gpus = settings.get("spark.task.resource.gpu.amount")
    if gpus:
        takes += f" with spark.task.resource.gpu.amount={gpus} GPUs each"
    grows = settings.get("spark.dynamicAllocation.enabled", "false").lower() == "true"
    more = (
        "see that the cluster manager can give more executors "
        "(spark.dynamicAllocation.maxExecutors, the queue, the quota)"
        if grows
        else "give Spark more cores (--num-executors, --executor-cores; local[n] has n slots)"
    )
    return (
        f"{layout.described} need {layout.num_tasks} task slots at once, and Spark has "
        f"{found}{takes}. Use fewer workers or parameter servers (numPs=0 has the workers hold the "
        f"variables), or {more}"
    )


def describe_memory(
    settings: Mapping[str, str], master: str, layout: ClusterLayout, variable_bytes: int
) -> str:
    """Returns a warning if executors may exceed the memory limit of the cluster manager.

    The tasks' processes run outside the JVM's heap, in the memory overhead of YARN and Kubernetes.

    Args:
        settings: Spark's.
        master: Of the session.
        layout: The tasks.
        variable_bytes: The size of all variables of the model and their slots.

    Returns:
        A warning with the numbers; an empty text if there is enough, or no limit.
    """
    if not master.startswith(("yarn", "k8s")):
        return ""
    heap = _mib(settings.get("spark.executor.memory", "1g"))
    factor = float(settings.get("spark.executor.memoryOverheadFactor", _OVERHEAD_FACTOR))
    asked = settings.get("spark.executor.memoryOverhead")
    overhead = _mib(asked) if asked else max(_LEAST_OVERHEAD_MIB, int(heap * factor))
    cores = int(settings.get("spark.executor.cores", "1"))
    tasks = max(1, min(layout.num_tasks, cores // int(settings.get("spark.task.cpus", "1"))))
    # Variables, gradients and transfers.
    needed = tasks * (PROCESS_MIB + 3 * variable_bytes // _MIB)
    if needed <= overhead:
        return ""
    return (
        f"An executor runs up to {tasks} tasks, whose processes need about {needed} MiB beside the "
        f"JVM, and spark.executor.memoryOverhead leaves {overhead} MiB: set it to {needed}m, or "
        "the cluster manager may kill them"
    )


def _describe_barrier(settings: Mapping[str, str], layout: ClusterLayout, master: str) -> str:
    try:
        chosen = gang_start(settings, master)
    except ValueError as error:
        return str(error)
    if not chosen.barrier:
        return describe_growth(settings, layout)
    if not gang_start({**settings, BARRIER: "auto"}, master).barrier:
        return (
            f"{BARRIER}=true asks for a barrier stage, which Spark refuses with "
            "spark.dynamicAllocation.enabled=true (SPARK-24942): leave one of them out. Without "
            "the first, the tasks start one by one and wait for each other"
        )
    return ""


def _describe_cores(settings: Mapping[str, str]) -> str:
    cores, cpus = settings.get("spark.executor.cores"), settings.get("spark.task.cpus", "1")
    if cores is None or int(cpus) <= int(cores):
        return ""
    return (
        f"A task needs spark.task.cpus={cpus} cores and an executor has spark.executor.cores="
        f"{cores}: no task can start. Lower the first or raise the second"
    )


def _describe_gpus(settings: Mapping[str, str], layout: ClusterLayout) -> str:
    wanted = settings.get("spark.task.resource.gpu.amount")
    if wanted is None:
        return ""
    amount = float(wanted)
    there = float(settings.get("spark.executor.resource.gpu.amount", "0"))
    if 0 < amount < 1:
        return (
            f"spark.task.resource.gpu.amount={wanted} makes {int(1 / amount)} tasks share a GPU, "
            "which then runs out of memory or serves one at a time: use 1 or more"
        )
    if amount > there:
        return (
            f"A task needs spark.task.resource.gpu.amount={wanted} GPUs and an executor has "
            f"spark.executor.resource.gpu.amount={there:g}: lower the first or raise the second"
        )
    return ""


def _describe_pyspark_memory(settings: Mapping[str, str]) -> str:
    text = settings.get("spark.executor.pyspark.memory")
    if not text:
        return ""
    cores = int(settings.get("spark.executor.cores", "1"))
    # Spark divides it among the Python workers, as a limit of their address space.
    share = _mib(text) // max(1, cores)
    if share >= 4 * PROCESS_MIB:
        return ""
    return (
        f"spark.executor.pyspark.memory={text} limits each of {cores} tasks of an executor to "
        f"{share} MiB of address space, which the tasks' processes inherit; they need at least "
        f"{4 * PROCESS_MIB} MiB. Raise it, or leave it out and set spark.executor.memoryOverhead"
    )


def _mib(text: str) -> int:
    """A size as Spark writes it, in MiB, which is what a number without a unit means."""
    found = re.fullmatch(r"\s*(\d+)\s*([kmgt]?)i?b?\s*", text.lower())
    if found is None:
        return 0  # Spark itself refuses it
    factor = {"k": 1 / 1024, "": 1, "m": 1, "g": 1024, "t": 1 << 20}[found[2]]
    return int(int(found[1]) * factor)

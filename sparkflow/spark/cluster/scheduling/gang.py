"""Gang scheduling: in a barrier stage, or as an ordinary job whose tasks wait for all.

Spark refuses barrier stages with dynamic allocation. Then the tasks of an ordinary job start one by
one and wait at the driver's registration service until all are there. Pure: settings in, a choice
and its reason out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from sparkflow.spark.cluster_layout import ClusterLayout

BARRIER: Final = "spark.sparkflow.barrier"
"""The Spark setting that chooses: `auto`, `true` or `false`."""

_DYNAMIC: Final = "spark.dynamicAllocation.enabled"
_MOST: Final = "spark.dynamicAllocation.maxExecutors"

SETTINGS: Final = (BARRIER, _DYNAMIC, _MOST, "spark.executor.cores", "spark.task.cpus")
"""The settings that are read here."""


@dataclass(frozen=True, slots=True)
class GangStart:
    """How the tasks of a job start.

    Attributes:
        barrier: Whether in a barrier stage.
        grows: Whether executors may be added while tasks wait.
        reason: Why, in words.
    """

    barrier: bool
    grows: bool
    reason: str

    def __str__(self) -> str:
        kind = "a barrier stage" if self.barrier else "an ordinary stage that waits for all tasks"
        return f"{kind}: {self.reason}"


def gang_start(settings: Mapping[str, str], master: str = "") -> GangStart:
    """Returns how a session's tasks start.

    Args:
        settings: Spark's.
        master: The session's master; unknown on Spark Connect.

    Raises:
        ValueError: `spark.sparkflow.barrier` is neither `auto`, `true` nor `false`.
    """
    wanted = settings.get(BARRIER, "auto").strip().lower()
    if wanted not in ("auto", "true", "false"):
        raise ValueError(f"{BARRIER}={settings[BARRIER]!r}: it is auto, true or false")
    one_process = master.startswith("local") and not master.startswith("local-cluster")
    # Spark ignores it there, and runs barrier stages.
    dynamic = settings.get(_DYNAMIC, "false").strip().lower() == "true" and not one_process
    if wanted == "auto":
        if dynamic:
            return GangStart(
                False, True, f"Spark refuses barrier stages with {_DYNAMIC}=true (SPARK-24942)"
            )
        return GangStart(True, False, f"{_DYNAMIC} is not on")
    return GangStart(wanted == "true", not one_process and wanted == "false", f"{BARRIER}={wanted}")


def most_slots(settings: Mapping[str, str]) -> int | None:
    """Returns the maximum number of task slots with dynamic allocation; None if unknown."""
    cores = settings.get("spark.executor.cores")
    most = settings.get(_MOST)
    if settings.get(_DYNAMIC, "false").strip().lower() != "true" or most is None or cores is None:
        return None
    return int(most) * max(1, int(cores) // int(settings.get("spark.task.cpus", "1")))


def describe_growth(settings: Mapping[str, str], layout: ClusterLayout) -> str:
    """Returns why dynamic allocation can never provide enough slots, and what to do; "" if it can.

    Args:
        settings: Spark's.
        layout: The tasks that must run at once.
    """
    most = most_slots(settings)
    if most is None or layout.num_tasks <= most:
        return ""
    slots = most // int(settings[_MOST])
    return (
        f"numWorkers={layout.num_workers} and numPs={layout.num_ps} need {layout.num_tasks} task "
        f"slots at once, and dynamic allocation gives at most {most} ({_MOST}="
        f"{settings[_MOST]}, {slots} per executor). Set it to "
        f"{-(-layout.num_tasks // slots)} or more, or use fewer workers or parameter servers "
        "(numPs=0 has the workers hold the variables)"
    )

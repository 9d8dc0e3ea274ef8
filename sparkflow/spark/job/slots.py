"""Whether the cluster can run all tasks at once, asked before the job is submitted.

Spark asks itself the same, but retries for ten minutes before it says no.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from pyspark.sql import SparkSession

from sparkflow.spark.errors import SparkTrainingError
from sparkflow.spark.job.layout import Layout

# Executors of a cluster that has just been started register within this time.
_REGISTRATION_S = 20.0
_POLL_S = 0.2


def require_classic_session(session: SparkSession) -> None:
    """Passes for a session with a JVM of its own.

    Raises:
        SparkTrainingError: The session is one of Spark Connect.
    """
    if not hasattr(session, "_jsparkSession"):
        raise SparkTrainingError(
            "SparkTrainer needs a classic Spark session, this one is a Spark Connect client: "
            "run the program with spark-submit or on the cluster's driver"
        )


def require_slots(session: SparkSession, layout: Layout, wait_s: float = _REGISTRATION_S) -> None:
    """Passes when all tasks of the layout can run at the same time.

    Waits a while for executors that have not registered yet, except on `local[n]`.

    Raises:
        SparkTrainingError: Too few slots, or dynamic allocation.
    """
    context: Any = session.sparkContext
    conf = context.getConf()
    if conf.get("spark.dynamicAllocation.enabled", "false").lower() == "true":
        raise SparkTrainingError(
            "Spark's barrier jobs do not run with dynamic allocation: start the session with "
            "spark.dynamicAllocation.enabled=false and as many executors as are needed"
        )
    local = context.master.startswith("local") and not context.master.startswith("local-cluster")
    check_slots(lambda: _count_slots(context), layout, 0.0 if local else wait_s)


def check_slots(count: Callable[[], int], layout: Layout, wait_s: float) -> None:
    """Waits up to `wait_s` seconds for `count()` to reach the number of tasks.

    Raises:
        SparkTrainingError: It does not; the text has both numbers.
    """
    deadline = time.monotonic() + wait_s
    while (found := count()) < layout.num_tasks:
        if time.monotonic() >= deadline:
            raise SparkTrainingError(
                f"numWorkers={layout.num_workers} and numPs={layout.num_ps} need "
                f"{layout.num_tasks} task slots at once, and Spark has {found}. Use fewer workers "
                "or parameter servers, or give Spark more cores (--num-executors, "
                "--executor-cores; local[n] has n slots)"
            )
        time.sleep(_POLL_S)


def _count_slots(context: Any) -> int:
    # What Spark's own check of barrier stages asks.
    scala_context = context._jsc.sc()
    profile = scala_context.resourceProfileManager().defaultResourceProfile()
    return int(scala_context.maxNumConcurrentTasks(profile))

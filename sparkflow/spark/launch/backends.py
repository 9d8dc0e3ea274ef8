"""Selection of the backend that leads a training: the driver, a cluster process, or the task."""

from __future__ import annotations

from typing import Any

from sparkflow.spark.launch.classic import ClassicBackend
from sparkflow.spark.launch.training import Backend
from sparkflow.spark.params.tables.training_rows import ALWAYS, AUTO


def backend_for(session: Any, in_process: str) -> Backend:
    """Returns the backend of a session. May run a small Spark job, once per Connect session.

    Args:
        session: The session.
        in_process: The parameter `inProcess`.

    Raises:
        SparkTrainingError: The job failed.
    """
    is_classic = hasattr(session, "_jsparkSession")
    if in_process == ALWAYS:
        from sparkflow.spark.launch.in_process.client import InProcessBackend

        return InProcessBackend(session, "inProcess is 'always'")
    if is_classic:
        return ClassicBackend(session)
    if in_process == AUTO:
        from sparkflow.spark.launch.in_process.probe import why_locked_in

        reason = why_locked_in(session)
        if reason:
            from sparkflow.spark.launch.in_process.client import InProcessBackend

            return InProcessBackend(session, f"of the Python workers of this session, {reason}")
    from sparkflow.spark.launch.connect.client import ConnectBackend

    return ConnectBackend(session)

"""The full names of the tasks of a cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sparkflow_runtime.protos.cluster_pb2 import ClusterDef


def task_name(job: str, index: int) -> str:
    """Returns the full name of a task: `/job:ps/replica:0/task:1`."""
    return f"/job:{job}/replica:0/task:{index}"


def addresses(cluster: ClusterDef) -> dict[str, str]:
    """Returns task name -> `host:port` for every task of a cluster."""
    return {
        task_name(job.name, index): address
        for job in cluster.job
        for index, address in job.tasks.items()
    }

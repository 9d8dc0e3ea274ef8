"""`ClusterSpec`: the tasks of a cluster by job and index."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sparkflow._api import export
from sparkflow_runtime.protos import cluster_pb2, tensorflow_server_pb2

_NOT_A_CLUSTER = (
    "`cluster` must be a dictionary mapping one or more job names to lists of network addresses, "
    "or a `ClusterDef` protocol buffer"
)


@export("train.ClusterSpec")
class ClusterSpec:
    """Jobs, each with tasks, each with a network address.

    Args:
        cluster: By job name a list of addresses, or a dictionary from task index to address where
            not every task is known; another `ClusterSpec`; a `ClusterDef` or `ServerDef` message.

    Raises:
        TypeError: Something else.
    """

    def __init__(self, cluster: Any) -> None:
        self._tasks: dict[str, dict[int, str]] = {}
        if isinstance(cluster, tensorflow_server_pb2.ServerDef):
            cluster = cluster.cluster
        if isinstance(cluster, Mapping):
            for job, tasks in cluster.items():
                self._tasks[_text(job, "Job name")] = _addresses(job, tasks)
        elif isinstance(cluster, cluster_pb2.ClusterDef):
            for job_def in cluster.job:
                self._tasks[job_def.name] = dict(sorted(job_def.tasks.items()))
        elif isinstance(cluster, ClusterSpec):
            self._tasks = {job: dict(tasks) for job, tasks in cluster._tasks.items()}
        else:
            raise TypeError(_NOT_A_CLUSTER)

    @property
    def jobs(self) -> list[str]:
        """The job names."""
        return list(self._tasks)

    def num_tasks(self, job_name: str) -> int:
        """How many tasks of a job are known.

        Raises:
            ValueError: There is no such job.
        """
        return len(self._job(job_name))

    def task_indices(self, job_name: str) -> list[int]:
        """The indices of a job's known tasks, in order.

        Raises:
            ValueError: There is no such job.
        """
        return sorted(self._job(job_name))

    def task_address(self, job_name: str, task_index: int) -> str:
        """The address of one task.

        Raises:
            ValueError: There is no such job or task.
        """
        try:
            return self._job(job_name)[task_index]
        except KeyError:
            raise ValueError(f"No task with index {task_index!r} in job {job_name!r}") from None

    def job_tasks(self, job_name: str) -> list[str | None]:
        """A job's addresses by task index, None where a task is not known.

        Raises:
            ValueError: There is no such job.
        """
        tasks = self._job(job_name)
        return [tasks.get(index) for index in range(max(tasks, default=-1) + 1)]

    def as_dict(self) -> dict[str, Any]:
        """By job name a list of addresses, or a dictionary where indices are missing."""
        return {
            job: [tasks[index] for index in sorted(tasks)] if _is_dense(tasks) else dict(tasks)
            for job, tasks in self._tasks.items()
        }

    def as_cluster_def(self) -> cluster_pb2.ClusterDef:
        """The cluster as a message; jobs in alphabetical order."""
        message = cluster_pb2.ClusterDef()
        for job in sorted(self._tasks):
            job_def = message.job.add(name=job)
            for index, address in sorted(self._tasks[job].items()):
                job_def.tasks[index] = address
        return message

    def _job(self, job_name: str) -> dict[int, str]:
        try:
            return self._tasks[job_name]
        except KeyError:
            raise ValueError(f"No such job in cluster: {job_name!r}") from None

    def __bool__(self) -> bool:
        return bool(self._tasks)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ClusterSpec):
            return NotImplemented
        return self._tasks == other._tasks

    __hash__ = None  # type: ignore[assignment]  # compared by value, and a dictionary inside

    def __repr__(self) -> str:
        described = self.as_dict()
        inner = ", ".join(f"{job!r}: {described[job]!r}" for job in sorted(described))
        return f"ClusterSpec({{{inner}}})"

    __str__ = __repr__


def _is_dense(tasks: dict[int, str]) -> bool:
    return bool(tasks) and sorted(tasks) == list(range(len(tasks)))


def _addresses(job: str, tasks: Any) -> dict[int, str]:
    if isinstance(tasks, list | tuple):
        return {index: _text(address, "Task address") for index, address in enumerate(tasks)}
    if isinstance(tasks, Mapping):
        return {int(index): _text(address, "Task address") for index, address in tasks.items()}
    raise TypeError(
        f"The tasks for job {job!r} must be a list or a dictionary from integers to strings."
    )


def _text(value: Any, what: str) -> str:
    if isinstance(value, bytes):
        return value.decode()
    if not isinstance(value, str):
        raise TypeError(f"{what} {value!r} must be bytes or unicode")
    return value

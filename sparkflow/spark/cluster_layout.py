"""The tasks of the barrier job and their roles."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, order=True)
class TaskName:
    """A task of the cluster; written `worker task 1`."""

    job: str
    index: int

    def __str__(self) -> str:
        return f"{self.job} task {self.index}"


@dataclass(frozen=True, slots=True)
class ClusterLayout:
    """The tasks of the barrier job: parameter servers first, then workers.

    Attributes:
        num_ps: Tasks that only hold variables.
        num_workers: Tasks that train.
        hosted_ps: Parameter servers that the first workers host in their own processes.
    """

    num_ps: int
    num_workers: int
    hosted_ps: int = 0

    @classmethod
    def of(cls, num_ps: int, num_workers: int, sync_mode: str) -> ClusterLayout:
        """The layout that the parameters ask for.

        Without parameter servers every worker hosts one, unless gradients meet without any.
        """
        if sync_mode == "allreduce":
            return cls(0, num_workers)
        return cls(num_ps, num_workers, 0 if num_ps else num_workers)

    @property
    def num_tasks(self) -> int:
        """All tasks of the barrier job, one per partition of the placed rows."""
        return self.num_ps + self.num_workers

    @property
    def num_shards(self) -> int:
        """Parameter servers that graphs can use: those with a task, then the hosted ones."""
        return self.num_ps + self.hosted_ps

    @property
    def tasks(self) -> list[TaskName]:
        """All tasks of the barrier job; the index in the list is the partition."""
        return [self.task(partition) for partition in range(self.num_tasks)]

    def task(self, partition: int) -> TaskName:
        """The task that runs on a partition."""
        if partition < self.num_ps:
            return TaskName("ps", partition)
        return TaskName("worker", partition - self.num_ps)

    def hosted_by(self, task: TaskName) -> TaskName | None:
        """The parameter server that a task hosts beside its own work, if any."""
        if task.job == "worker" and task.index < self.hosted_ps:
            return TaskName("ps", self.num_ps + task.index)
        return None

    def worker_rows(self, rows: int) -> list[int]:
        """How many of `rows` rows each worker gets; they differ by one at most."""
        share, rest = divmod(rows, self.num_workers)
        return [share + (index < rest) for index in range(self.num_workers)]

    def steps_per_epoch(self, rows: int, batch_size: int) -> int:
        """Steps of the worker that has most rows; the last batch of an epoch may be short."""
        return -(-max(self.worker_rows(rows)) // batch_size)

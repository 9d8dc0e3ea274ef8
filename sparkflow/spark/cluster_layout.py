"""The tasks of the barrier job and their roles."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

T = TypeVar("T")


def stage_job(stage: int) -> str:
    """The job of a stage's tasks: the first one is the workers'."""
    return f"stage{stage}" if stage else "worker"


def stage_of_job(job: str) -> int:
    """The stage of a job that has one."""
    return 0 if job == "worker" else int(job.removeprefix("stage"))


def device_filters(replica: int, num_stages: int) -> list[str]:
    """The devices of a replica's session; nodes without a device are placed on the last one."""
    stages = [f"/job:{stage_job(stage)}/task:{replica}" for stage in range(num_stages)]
    return ["/job:ps", *reversed(stages)]


@dataclass(frozen=True, slots=True, order=True)
class TaskName:
    """A task of the cluster; its string form is `worker task 1`."""

    job: str
    index: int

    def __str__(self) -> str:
        return f"{self.job} task {self.index}"


@dataclass(frozen=True, slots=True)
class ClusterLayout:
    """The tasks of the barrier job: parameter servers, workers, then the later stages of models.

    Attributes:
        num_ps: Tasks that only hold variables.
        num_workers: Tasks that train: each has a replica of the model, or the replica's first
            stage.
        hosted_ps: Parameter servers that exist in graphs only: each of the first other tasks holds
            the variables of one.
        num_stages: Tasks that each replica is split across. Stage s > 0 of replica r is task r of
            job `stage<s>`.
        messengers: Spark tasks that precede those of the cluster; they tell a Connect client where
            training is led from, then end.
        servers_apart: Whether the parameter servers run in a separate Spark job, with their own
            resources. Partitions then count the other tasks only.
    """

    num_ps: int
    num_workers: int
    hosted_ps: int = 0
    num_stages: int = 1
    messengers: int = 0
    servers_apart: bool = False

    @classmethod
    def of(
        cls, num_ps: int, num_workers: int, sync_mode: str, num_stages: int = 1
    ) -> ClusterLayout:
        """Returns the layout that the parameters describe.

        Without parameter servers, every worker and every later stage holds variables, unless
        gradients are combined without servers.
        """
        if sync_mode == "allreduce":
            return cls(0, num_workers)
        return cls(num_ps, num_workers, 0 if num_ps else num_workers * num_stages, num_stages)

    def of_workers(self, num_workers: int) -> ClusterLayout:
        """Returns this layout with another number of workers."""
        hosted = num_workers * self.num_stages if self.hosted_ps else 0
        return replace(self, num_workers=num_workers, hosted_ps=hosted)

    @property
    def described(self) -> str:
        """The parameters that determine the tasks: `numWorkers=2 and numPs=1`."""
        divided = f", modelParallel={self.num_stages}" if self.num_stages > 1 else ""
        return f"numWorkers={self.num_workers}{divided} and numPs={self.num_ps}"

    @property
    def num_tasks(self) -> int:
        """All tasks of the cluster."""
        return self.num_ps + self.num_workers * self.num_stages

    @property
    def num_partitions(self) -> int:
        """Partitions of the placed rows: one per task of their job."""
        return self.first_worker + self.num_workers * self.num_stages

    @property
    def first_worker(self) -> int:
        """The partition of the first worker; the others follow."""
        return self.messengers + (0 if self.servers_apart else self.num_ps)

    @property
    def num_shards(self) -> int:
        """Parameter servers that graphs can use: first those with a task, then the others."""
        return self.num_ps + self.hosted_ps

    def shards_of_stage(self, stage: int) -> range:
        """The parameter servers whose variables the tasks of a stage hold."""
        first = self.num_ps + stage * self.num_workers
        return range(first, first + self.num_workers) if self.hosted_ps else range(0)

    @property
    def tasks(self) -> list[TaskName]:
        """All tasks of the cluster, in the order of their partitions."""
        partitions = range(self.messengers, self.num_partitions)
        apart = range(self.num_ps if self.servers_apart else 0)
        return [TaskName("ps", index) for index in apart] + [self.task(each) for each in partitions]

    def task(self, partition: int, of_servers: bool = False) -> TaskName:
        """Returns the task that runs on a partition; the partition must not be a messenger's.

        Args:
            partition: Its number.
            of_servers: Whether the partition belongs to the separate job of the parameter servers.
        """
        if of_servers:
            return TaskName("ps", partition)
        if partition < self.first_worker:
            return TaskName("ps", partition - self.messengers)
        stage, replica = divmod(partition - self.first_worker, self.num_workers)
        return TaskName(stage_job(stage), replica)

    @property
    def hosts(self) -> dict[TaskName, TaskName]:
        """By parameter server without a task of its own, the task that holds its variables."""
        found = {}
        for number in range(self.hosted_ps):
            stage, replica = divmod(number, self.num_workers)
            found[TaskName("ps", self.num_ps + number)] = TaskName(stage_job(stage), replica)
        return found

    def per_partition(self, of_workers: Sequence[T], of_others: T) -> list[T]:
        """Returns one value per partition, given one value per worker."""
        rest = self.num_partitions - self.first_worker - self.num_workers
        return [of_others] * self.first_worker + list(of_workers) + [of_others] * rest

    def per_task(self, of_workers: Sequence[T], of_others: T) -> list[T]:
        """Returns one value per task, in task order, given one value per worker."""
        rest = self.num_tasks - self.num_ps - self.num_workers
        return [of_others] * self.num_ps + list(of_workers) + [of_others] * rest

    def worker_rows(self, rows: int) -> list[int]:
        """Returns how many of `rows` rows each worker gets; the numbers differ by at most one."""
        share, rest = divmod(rows, self.num_workers)
        return [share + (index < rest) for index in range(self.num_workers)]

    def steps_per_epoch(self, rows: int, batch_size: int) -> int:
        """Steps of the worker with the most rows; the last batch of an epoch may be short."""
        return -(-max(self.worker_rows(rows)) // batch_size)

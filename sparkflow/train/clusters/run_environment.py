"""The role of this process in a cluster, read from the environment variable TF_CONFIG.

The one module that reads it. Its value is JSON: `cluster` (addresses by job), `task` (`type` and
`index`), and optionally `environment`, `session_master`, `eval_session_master`, `service`,
`model_dir`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from sparkflow.train.clusters.cluster_spec import ClusterSpec
from sparkflow.train.clusters.server import Server

VARIABLE: Final = "TF_CONFIG"
CHIEF: Final = "chief"
MASTER: Final = "master"
WORKER: Final = "worker"
PS: Final = "ps"
EVALUATOR: Final = "evaluator"
_HINT = "\n\nNote that these values may be coming from the TF_CONFIG environment variable."


@dataclass(frozen=True)
class RunEnvironment:
    """Where this process runs.

    Attributes:
        cluster_spec: The cluster; empty for a single process.
        task_type: `chief`, `worker`, `ps`, `evaluator` or `master`.
        task_id: The index of the task in its job.
        environment: `local`, `cloud` or whatever was given.
        master: What sessions connect to; "" for this process.
        evaluation_master: What sessions that evaluate connect to.
        service: What else the platform says, None for nothing.
        model_dir: Where checkpoints and events are; None where the program says that.
    """

    cluster_spec: ClusterSpec = field(default_factory=lambda: ClusterSpec({}))
    task_type: str = WORKER
    task_id: int = 0
    environment: str = "local"
    master: str = ""
    evaluation_master: str = ""
    service: Mapping[str, Any] | None = None
    model_dir: str | None = None

    @property
    def is_chief(self) -> bool:
        """Whether this task initializes, and writes checkpoints and summaries."""
        if not self.cluster_spec:
            return self.task_type == WORKER
        return self.task_type in (CHIEF, MASTER)

    @property
    def num_ps_replicas(self) -> int:
        """How many ps tasks there are."""
        return self._count(PS)

    @property
    def num_worker_replicas(self) -> int:
        """How many tasks train, the chief among them."""
        if not self.cluster_spec:
            return 1 if self.task_type == WORKER else 0
        return self._count(WORKER) + self._count(CHIEF) + self._count(MASTER)

    @property
    def global_id_in_cluster(self) -> int | None:
        """The number of the task over all jobs: chief, masters, workers, then ps.

        None for an evaluator, which is outside the cluster.
        """
        if self.task_type == EVALUATOR:
            return None
        before = 0
        for job in (CHIEF, MASTER, WORKER, PS):
            if job == self.task_type:
                return before + self.task_id
            before += self._count(job)
        return before + self.task_id

    def server(self, **options: Any) -> Server:
        """A server for this task, with the arguments of `Server`.

        Raises:
            ValueError: There is no cluster, or the task is an evaluator.
        """
        if not self.cluster_spec:
            raise ValueError(f"{VARIABLE} names no cluster, so there is nothing to serve")
        if self.task_type == EVALUATOR:
            raise ValueError("An evaluator is outside the cluster and has no server")
        return Server(
            self.cluster_spec, job_name=self.task_type, task_index=self.task_id, **options
        )

    def _count(self, job: str) -> int:
        return self.cluster_spec.num_tasks(job) if job in self.cluster_spec.jobs else 0


def from_environment(environ: Mapping[str, str] | None = None) -> RunEnvironment:
    """The environment described by TF_CONFIG; a single process if it is not set.

    Args:
        environ: The environment; the process's own when None.

    Raises:
        ValueError: As `parse`.
    """
    return parse((os.environ if environ is None else environ).get(VARIABLE, ""))


def parse(text: str) -> RunEnvironment:
    """Reads a value of TF_CONFIG.

    Raises:
        ValueError: It is no JSON object, or cluster and task do not fit together.
    """
    content = _json(text)
    cluster = _object(content, "cluster")
    task = _object(content, "task")
    common: dict[str, Any] = {
        "environment": str(content.get("environment", "cloud" if cluster else "local")),
        "service": content.get("service"),
        "model_dir": _model_dir(content),
    }
    master, evaluation = content.get("session_master"), content.get("eval_session_master")
    if not cluster:
        task_type, task_id = str(task.get("type", WORKER)), _index(task.get("index", 0))
        if task_type == EVALUATOR:
            return RunEnvironment(task_type=task_type, task_id=task_id, **common)
        if task_type != WORKER:
            raise ValueError('If "cluster" is not set in TF_CONFIG, task type must be WORKER.')
        if task_id:
            raise ValueError('If "cluster" is not set in TF_CONFIG, task index must be 0.')
        return RunEnvironment(master=master or "", evaluation_master=evaluation or "", **common)
    spec = ClusterSpec(cluster)
    task_type, task_id = _task(spec, task)
    # A single task runs in its own process: nobody starts a server for it.
    is_local = task_type == EVALUATOR or is_single(spec)
    address = "" if is_local else f"grpc://{spec.task_address(task_type, task_id)}"
    return RunEnvironment(
        cluster_spec=spec,
        task_type=task_type,
        task_id=task_id,
        master=address if master is None else master,
        evaluation_master=evaluation or "",
        **common,
    )


def _model_dir(content: Mapping[str, Any]) -> str | None:
    found = content.get("model_dir")
    if found is None:
        return None
    if not isinstance(found, str) or not found:
        raise ValueError(f"model_dir in {VARIABLE} should be a non-empty text, but is {found!r}")
    return found


def is_single(cluster_spec: ClusterSpec) -> bool:
    """Whether the cluster is one task, which needs no server."""
    return sum(cluster_spec.num_tasks(job) for job in cluster_spec.jobs) == 1


def _json(text: str) -> dict[str, Any]:
    if not text.strip():
        return {}
    try:
        content = json.loads(text)
    except json.JSONDecodeError as error:
        raise ValueError(f"{VARIABLE} must be a JSON object, but is {text!r}: {error}") from error
    if not isinstance(content, dict):
        raise ValueError(f"{VARIABLE} must be a JSON object, but is {text!r}")
    return content


def _object(content: Mapping[str, Any], key: str) -> dict[str, Any]:
    found = content.get(key) or {}
    if not isinstance(found, dict):
        raise ValueError(f"{key!r} in {VARIABLE} must be an object, but is {found!r}")
    return found


def _index(value: Any) -> int:
    try:
        index = int(value)
    except (TypeError, ValueError):
        raise ValueError(f"Task index in {VARIABLE} must be an integer, but is {value!r}") from None
    if index < 0:
        raise ValueError(f"Task index must be non-negative number, but is {index}.")
    return index


def _task(spec: ClusterSpec, task: Mapping[str, Any]) -> tuple[str, int]:
    chief = MASTER if MASTER in spec.jobs else CHIEF
    if chief not in spec.jobs:
        raise ValueError(f'If "cluster" is set in TF_CONFIG, it must have one "{chief}" node.')
    if spec.num_tasks(chief) != 1:
        raise ValueError(f'The "cluster" in TF_CONFIG must have only one "{chief}" node.')
    if EVALUATOR in spec.jobs:
        raise ValueError("If evaluator is given, it must not be part of the cluster_spec.")
    if not task.get("type"):
        raise ValueError(f'If "cluster" is set in TF_CONFIG, task type must be set.{_HINT}')
    if task.get("index") is None:
        raise ValueError(f'If "cluster" is set in TF_CONFIG, task index must be set.{_HINT}')
    task_type, task_id = str(task["type"]), _index(task["index"])
    if task_type == EVALUATOR:
        return task_type, task_id
    if task_type not in spec.jobs:
        raise ValueError(
            f"{task_type} is not a valid task_type in the cluster_spec:\n{spec}{_HINT}"
        )
    if task_id not in spec.task_indices(task_type):
        raise ValueError(
            f"{task_id} is not a valid task_id for task_type {task_type} in the cluster_spec:\n"
            f"{spec}{_HINT}"
        )
    return task_type, task_id

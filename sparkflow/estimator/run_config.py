"""`RunConfig`: where an estimator runs, and what it saves how often."""

from __future__ import annotations

import copy
import os
from collections.abc import Mapping
from typing import Any, Final

from sparkflow._api import export
from sparkflow.train.clusters.cluster_spec import ClusterSpec
from sparkflow.train.clusters.run_environment import EVALUATOR, from_environment
from sparkflow_runtime.protos.config_pb2 import ConfigProto

USE_DEFAULT: Final = object()
_REPLACEABLE: Final = (
    "model_dir",
    "tf_random_seed",
    "save_summary_steps",
    "save_checkpoints_steps",
    "save_checkpoints_secs",
    "session_config",
    "keep_checkpoint_max",
    "keep_checkpoint_every_n_hours",
    "log_step_count_steps",
    "train_distribute",
    "device_fn",
    "protocol",
    "eval_distribute",
    "experimental_distribute",
    "experimental_max_worker_delay_secs",
    "session_creation_timeout_secs",
)


@export("estimator.RunConfig")
class RunConfig:
    """The settings of a run. The cluster comes from the environment variable TF_CONFIG.

    Args:
        model_dir: Where checkpoints and events are; the `model_dir` of TF_CONFIG when None.
        tf_random_seed: The seed of the graph's random operations.
        save_summary_steps: Steps between two summaries.
        save_checkpoints_steps: Steps between two checkpoints; not with seconds.
        save_checkpoints_secs: Seconds between two checkpoints; 600 when neither is given.
        session_config: Options of sessions.
        keep_checkpoint_max: How many checkpoints are kept; 0 or None for all.
        keep_checkpoint_every_n_hours: One checkpoint of so many hours is kept for good.
        log_step_count_steps: Steps between two records of loss and rate.
        train_distribute: Not taken: a strategy of tf.distribute.
        device_fn: A function of an operation to its device, in place of the usual placement.
        protocol: The protocol of servers: `grpc`.
        eval_distribute: Not taken.
        experimental_distribute: Not taken.
        experimental_max_worker_delay_secs: Accepted; workers start at once.
        session_creation_timeout_secs: How long a worker waits for the chief, in seconds.

    Raises:
        ValueError: A value is out of range, steps and seconds are both given, a strategy is given,
            or TF_CONFIG is no description of a cluster, or names another directory.
    """

    def __init__(
        self,
        model_dir: Any = None,
        tf_random_seed: int | None = None,
        save_summary_steps: int = 100,
        save_checkpoints_steps: Any = USE_DEFAULT,
        save_checkpoints_secs: Any = USE_DEFAULT,
        session_config: ConfigProto | None = None,
        keep_checkpoint_max: int | None = 5,
        keep_checkpoint_every_n_hours: float = 10000,
        log_step_count_steps: int | None = 100,
        train_distribute: Any = None,
        device_fn: Any = None,
        protocol: str | None = None,
        eval_distribute: Any = None,
        experimental_distribute: Any = None,
        experimental_max_worker_delay_secs: int | None = None,
        session_creation_timeout_secs: float = 7200,
    ) -> None:
        steps, seconds = save_checkpoints_steps, save_checkpoints_secs
        if steps is USE_DEFAULT and seconds is USE_DEFAULT:
            steps, seconds = None, 600
        elif seconds is USE_DEFAULT:
            seconds = None
        elif steps is USE_DEFAULT:
            steps = None
        elif steps is not None and seconds is not None:
            raise ValueError(_BOTH)
        self._values: dict[str, Any] = {}
        self._environment = from_environment()
        self._set(
            model_dir=_agreed(model_dir, self._environment.model_dir),
            tf_random_seed=tf_random_seed,
            save_summary_steps=save_summary_steps,
            save_checkpoints_steps=steps,
            save_checkpoints_secs=seconds,
            session_config=session_config,
            keep_checkpoint_max=keep_checkpoint_max,
            keep_checkpoint_every_n_hours=keep_checkpoint_every_n_hours,
            log_step_count_steps=log_step_count_steps,
            train_distribute=train_distribute,
            device_fn=device_fn,
            protocol=protocol,
            eval_distribute=eval_distribute,
            experimental_distribute=experimental_distribute,
            experimental_max_worker_delay_secs=experimental_max_worker_delay_secs,
            session_creation_timeout_secs=session_creation_timeout_secs,
        )

    def _set(self, **given: Any) -> None:
        for name in ("train_distribute", "eval_distribute", "experimental_distribute"):
            if given.get(name) is not None:
                raise ValueError(
                    f"{name} takes no strategy: training is spread over a cluster by TF_CONFIG and "
                    f"tf.estimator.train_and_evaluate, got {given[name]!r}"
                )
        for name in ("save_summary_steps", "save_checkpoints_steps", "save_checkpoints_secs"):
            _require(given, name, lambda value: value >= 0, "should be >= 0")
        _require(given, "keep_checkpoint_max", lambda value: value >= 0, "should be >= 0")
        _require(given, "keep_checkpoint_every_n_hours", lambda value: value > 0, "should be > 0")
        _require(given, "log_step_count_steps", lambda value: value > 0, "should be > 0")
        _require(given, "tf_random_seed", lambda v: isinstance(v, int), "must be integer.")
        _require(
            given,
            "session_config",
            lambda value: isinstance(value, ConfigProto),
            "must be instance of ConfigProto",
        )
        _require(given, "device_fn", callable, "must be callable")
        _require(given, "protocol", lambda value: value in ("grpc", "grpc+verbs"), "unknown")
        if "model_dir" in given and given["model_dir"] == "":
            raise ValueError("model_dir should be non-empty")
        self._values.update(given)

    def replace(self, **kwargs: Any) -> RunConfig:
        """A copy with other values for some settings.

        Raises:
            ValueError: A name is no setting that can be replaced, or both steps and seconds between
                checkpoints are given.
        """
        for name in kwargs:
            if name not in _REPLACEABLE:
                raise ValueError(
                    f"Replacing {name} is not supported. Allowed properties are {_REPLACEABLE}."
                )
        if all(
            kwargs.get(name) is not None
            for name in ("save_checkpoints_steps", "save_checkpoints_secs")
        ):
            raise ValueError(_BOTH)
        if kwargs.get("save_checkpoints_steps") is not None:
            kwargs["save_checkpoints_secs"] = None
        elif kwargs.get("save_checkpoints_secs") is not None:
            kwargs["save_checkpoints_steps"] = None
        made = copy.copy(self)
        made._values = dict(self._values)
        made._set(**kwargs)
        return made

    def __getattr__(self, name: str) -> Any:
        if name in _REPLACEABLE:
            return self.__dict__["_values"][name]
        raise AttributeError(f"RunConfig has no setting {name!r}")

    @property
    def cluster_spec(self) -> ClusterSpec:
        """The cluster; empty for a single process and for an evaluator, which is outside."""
        return ClusterSpec({}) if self.task_type == EVALUATOR else self._environment.cluster_spec

    @property
    def task_type(self) -> str:
        """`chief`, `worker`, `ps`, `evaluator` or `master`."""
        return self._environment.task_type

    @property
    def task_id(self) -> int:
        """The index of the task in its job."""
        return self._environment.task_id

    @property
    def global_id_in_cluster(self) -> int | None:
        """The number of the task over all jobs; None for an evaluator."""
        return self._environment.global_id_in_cluster

    @property
    def is_chief(self) -> bool:
        """Whether this task initialises and saves."""
        return self.task_type != EVALUATOR and self._environment.is_chief

    @property
    def master(self) -> str:
        """The target that sessions connect to."""
        return self._environment.master

    @property
    def evaluation_master(self) -> str:
        """The target that evaluation sessions connect to."""
        return self._environment.evaluation_master

    @property
    def num_ps_replicas(self) -> int:
        """How many ps tasks there are."""
        return 0 if self.task_type == EVALUATOR else self._environment.num_ps_replicas

    @property
    def num_worker_replicas(self) -> int:
        """How many tasks train."""
        return 0 if self.task_type == EVALUATOR else self._environment.num_worker_replicas

    @property
    def service(self) -> Mapping[str, Any] | None:
        """The platform's other settings in TF_CONFIG."""
        return self._environment.service


_BOTH: Final = "`save_checkpoints_steps` and `save_checkpoints_secs` cannot be both set."


def _agreed(model_dir: Any, of_environment: str | None) -> str | None:
    given = None if model_dir is None else os.fspath(model_dir)
    if given and of_environment and given != of_environment:
        raise ValueError(
            "`model_dir` provided in RunConfig construct, if set, must have the same value as the "
            f"model_dir in TF_CONFIG. model_dir: {given}, in TF_CONFIG: {of_environment}. Leave "
            "one of them out."
        )
    return of_environment if given is None else given


def _require(given: Mapping[str, Any], name: str, holds: Any, text: str) -> None:
    value = given.get(name)
    if value is not None and not holds(value):
        raise ValueError(f"{name} {text}, but is {value!r}")

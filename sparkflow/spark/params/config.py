"""The configuration of one fit: created once from the Params, passed whole, immutable.

Does not import pyspark, because training may be led from a process without it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Final

from sparkflow.spark.cluster_layout import ClusterLayout
from sparkflow.spark.params.converters import FeaturesCol
from sparkflow.spark.params.row import camel_case
from sparkflow.spark.params.values import TrainerValues
from sparkflow.spark.task_resources import RoleResources


@dataclass(frozen=True, slots=True, kw_only=True)
class FitConfig(TrainerValues):
    """The values of all parameters of one fit, and properties derived from them alone.

    Attributes:
        validates: Whether there are validation rows.
        own: The values of the estimator's own parameters, by name.
        takes_labels: Whether the model is trained with labels; `label_col` is not read otherwise.
        takes_weights: Whether the model's loss can weigh rows.
        made_features: `features_col` if the estimator derives it from its own parameters.
    """

    validates: bool = False
    own: Mapping[str, Any] = field(default_factory=dict)
    takes_labels: bool = True
    takes_weights: bool = True
    made_features: FeaturesCol | None = None

    @classmethod
    def of(cls, params: Mapping[str, Any], validates: bool, **estimator: Any) -> FitConfig:
        """Creates the configuration from an estimator's parameters.

        Args:
            params: All parameters, by name.
            validates: Whether there are validation rows.
            **estimator: The other attributes except `own`.
        """
        known = {_FIELDS[name]: value for name, value in params.items() if name in _FIELDS}
        own = {name: value for name, value in params.items() if name not in _FIELDS}
        return cls(**known, validates=validates, own=own, **estimator)

    @property
    def params(self) -> dict[str, Any]:
        """All parameters by name."""
        values = {name: getattr(self, given) for name, given in _FIELDS.items()}
        return dict(sorted({**values, **self.own}.items()))

    @property
    def features(self) -> FeaturesCol:
        """The columns of features."""
        return self.features_col if self.made_features is None else self.made_features

    def layout(self, num_workers: int | None = None) -> ClusterLayout:
        """Returns the layout of the tasks.

        Args:
            num_workers: The number of workers to use instead of the requested one.
        """
        workers = self.num_workers if num_workers is None else num_workers
        return ClusterLayout.of(self.num_ps, workers, self.sync_mode, self.model_parallel)

    @property
    def in_step(self) -> bool:
        """Whether all workers step together, so that their steps can be counted as one."""
        return self.sync_mode in ("sync", "allreduce")

    @property
    def is_elastic(self) -> bool:
        """Whether the number of workers adapts to the number of slots."""
        return bool(self.min_workers)

    @property
    def resources(self) -> RoleResources:
        """The Spark resources of workers and parameter servers."""
        return RoleResources.of(self.worker_resources, self.ps_resources)

    @property
    def has_copies(self) -> bool:
        """Whether every worker has its own copy of the variables."""
        return self.sync_mode == "allreduce"

    @property
    def leaves(self) -> bool:
        """Whether a worker must report that it has finished, because others may wait for it."""
        return self.sync_mode == "ssp" or self.backup_workers > 0

    @property
    def validates_at_epochs(self) -> bool:
        """Whether validation happens at the end of each epoch."""
        return self.validates and not self.validation_steps

    @property
    def saves(self) -> bool:
        """Whether checkpoints are written, which another fit can resume from."""
        return bool(self.checkpoint_dir)

    @property
    def saves_at_epochs(self) -> bool:
        """Whether checkpoints are written at the end of each epoch."""
        return self.saves and not self.saves_within_epochs

    @property
    def saves_within_epochs(self) -> bool:
        """Whether a checkpoint may be written within an epoch."""
        return self.saves and bool(self.checkpoint_steps or self.checkpoint_seconds)


_FIELDS: Final = {camel_case(each.name): each.name for each in fields(TrainerValues)}

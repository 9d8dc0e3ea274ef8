"""Checks for incompatible parameter values, made before any job."""

from __future__ import annotations

from collections.abc import Collection

from sparkflow.spark.params.config import FitConfig
from sparkflow.spark.params.direction import resolve
from sparkflow.spark.params.table import TRAINER
from sparkflow.spark.params.tables.training_rows import ALWAYS

_NEEDS = {row.name: row.needs for group in TRAINER for row in group if row.needs}
_NEEDED = {
    row.name: row.needed or f"has no effect without {row.name}; set that, too, or leave this out"
    for group in TRAINER
    for row in group
}


def check_params(config: FitConfig, given: Collection[str]) -> None:
    """Checks that the parameters are compatible; called by `fit` before any job.

    Args:
        config: Their values.
        given: Names of those that the user has set.

    Raises:
        ValueError: They are not; the message says which, and what to do.
    """
    mode = config.sync_mode
    if config.backup_workers:
        if mode != "sync":
            raise ValueError(
                f"backupWorkers={config.backup_workers} needs syncMode='sync', where a step "
                f"waits for others; syncMode is {mode!r}"
            )
        if config.backup_workers >= config.num_workers:
            raise ValueError(
                f"backupWorkers={config.backup_workers} must be less than "
                f"numWorkers={config.num_workers}: a step needs at least one worker's gradients"
            )
    if "staleness" in given and mode != "ssp":
        raise ValueError(f"staleness={config.staleness} needs syncMode='ssp'; syncMode is {mode!r}")
    if mode == "allreduce" and "numPs" in given and config.num_ps:
        raise ValueError(
            f"syncMode='allreduce' has no parameter servers, but numPs={config.num_ps} was "
            "set; leave numPs out or set it to 0"
        )
    if config.ps_resources and (mode == "allreduce" or not config.num_ps):
        raise ValueError(
            f"psResources={config.ps_resources!r} needs parameter servers with tasks of their own: "
            "set numPs, or leave it out"
        )
    if config.min_workers > config.num_workers:
        raise ValueError(
            f"minWorkers={config.min_workers} is more than numWorkers={config.num_workers}, the "
            "most workers that there may be"
        )
    if config.is_elastic:
        for name, value in (
            ("backupWorkers", config.backup_workers),
            ("modelParallel", config.model_parallel - 1),
            ("gradientAccumulation", config.gradient_accumulation - 1),
        ):
            if value:
                raise ValueError(
                    f"{name} needs a fixed number of workers: leave out minWorkers="
                    f"{config.min_workers} (numWorkers=(min, max))"
                )
    if config.in_process == ALWAYS and config.num_workers * config.model_parallel > 1:
        raise ValueError(
            f"inProcess='always' trains inside one Spark task, so it needs numWorkers=1 and "
            f"modelParallel=1; they are {config.num_workers} and {config.model_parallel}"
        )
    if config.model_parallel > 1:
        if mode == "allreduce":
            raise ValueError(
                f"modelParallel={config.model_parallel} needs parameter servers, or workers that "
                "hold variables (numPs=0): use syncMode='sync' in place of 'allreduce'"
            )
        if config.micro_batches > config.batch_size:
            raise ValueError(
                f"microBatches={config.micro_batches} is more than batchSize={config.batch_size} "
                "has rows: the graph would have parts that are always empty"
            )
    elif config.micro_batches:
        raise ValueError(
            f"microBatches={config.micro_batches} needs modelParallel, the number of tasks that "
            "work on them"
        )
    values = config.params
    if not config.validates:
        for name in ("validationSteps", "earlyStoppingPatience"):
            if values[name]:
                raise ValueError(
                    f"{name}={values[name]} needs validation rows: set validationIndicatorCol or "
                    "validationFraction, or give fit a second DataFrame"
                )
    for name, needed in _NEEDS.items():
        if name in given and not values[needed]:
            raise ValueError(f"{name}={values[name]!r} {_NEEDED[needed]}")
    if config.early_stopping_patience:
        resolve(config.early_stopping_metric, config.early_stopping_mode)


def check_metric(metric: str, known: Collection[str]) -> None:
    """Checks that the metric for early stopping exists.

    Raises:
        ValueError: It does not.
    """
    if metric.removeprefix("-") not in known:
        raise ValueError(
            f"earlyStoppingMetric={metric!r}: the model has the metrics "
            f"{', '.join(sorted(known))}; return more of them as eval_metric_ops in mode EVAL"
        )

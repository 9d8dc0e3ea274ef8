"""Which parameters decide what is learnt, and which rows go where.

If the first differ, a checkpoint is of another training; if the second do, two trainings cannot
share their rows. The table rows say which; an estimator's own parameters are included.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from typing import Any, Final

from sparkflow.spark.params.config import FitConfig
from sparkflow.spark.params.row import Row

PLACEMENT: Final = ("numWorkers", "numPs")
"""Parameters that assign work to tasks: training may resume with others, but the result differs."""

_WATCHED: Final = ("earlyStoppingMetric", "earlyStoppingMode")
"""Parameters that decide which values are the best so far, if these are tracked."""


def deciding(params: Mapping[str, Any], rows: Iterable[Row]) -> dict[str, Any]:
    """Returns the parameters that decide what is learnt, by name, as values for JSON.

    Args:
        params: All parameters of an estimator.
        rows: Their rows in the tables.
    """
    free = {row.name for row in rows if not row.decides}.union(PLACEMENT)
    if params["earlyStoppingPatience"]:
        free.difference_update(_WATCHED)
    return _plain({name: value for name, value in params.items() if name not in free})


def placement(params: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the parameters that assign work to tasks."""
    return _plain({name: params[name] for name in PLACEMENT})


def row_rule(config: FitConfig, rows: Iterable[Row]) -> dict[str, Any]:
    """Returns what decides which rows go to which tasks, and how they are read.

    Args:
        config: The configuration of a fit.
        rows: The rows of the estimator's parameters in the tables.

    Returns:
        Values for JSON, by parameter, or by parameters that only decide together.
    """
    params = config.params
    values = {row.name: params[row.name] for row in rows if row.of_rows}
    values["featuresCol"] = config.features  # which some make of other Params
    layout = asdict(config.layout())
    values["minWorkers"] = config.min_workers
    values["numWorkers"] = layout.pop("num_workers")
    values["numPs"] = layout.pop("num_ps")
    values["syncMode, modelParallel"] = layout
    by_content = config.in_step and config.shuffle
    values["syncMode, shuffle"] = "by content" if by_content else "by position"
    if by_content or config.validation_fraction:
        # Otherwise rows are assigned by number, and none is drawn at random.
        values["seed"] = config.seed
    return _plain(values)


def changed_rows(old: Mapping[str, Any], new: Mapping[str, Any]) -> Iterator[str]:
    """Describes what is missing in rows of one `row_rule` for a training of another."""
    for name, value in new.items():
        # An estimator without a parameter does not do what it switches on.
        before = old.get(name, False)
        if before != value:
            yield f"{name}: {before!r} -> {value!r}"


def _plain(values: Mapping[str, Any]) -> dict[str, Any]:
    """Sorted, as they are read from a checkpoint."""
    found: dict[str, Any] = json.loads(json.dumps(values, default=str, sort_keys=True))
    return found

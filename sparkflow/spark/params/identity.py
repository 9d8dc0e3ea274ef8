"""Which parameters decide what is learnt: if they differ, a checkpoint is of another training.

The table rows say which; an estimator's own parameters are included.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final

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


def _plain(values: Mapping[str, Any]) -> dict[str, Any]:
    """Sorted, as they are read from a checkpoint."""
    found: dict[str, Any] = json.loads(json.dumps(values, default=str, sort_keys=True))
    return found

"""Which parameters decide what is learnt: a checkpoint of other ones is of another training.

Their rows say so; an estimator's own ones count.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, Final

from sparkflow.spark.params.row import Row

PLACEMENT: Final = ("numWorkers", "numPs")
"""Decide which task does what: training may go on with others, but ends as another one."""

_WATCHED: Final = ("earlyStoppingMetric", "earlyStoppingMode")
"""Decide which values are the best so far, where there are such."""


def deciding(params: Mapping[str, Any], rows: Iterable[Row]) -> dict[str, Any]:
    """The parameters that decide what is learnt, by name, as JSON has them.

    Args:
        params: All parameters of an estimator.
        rows: What tables say of them.
    """
    free = {row.name for row in rows if not row.decides}.union(PLACEMENT)
    if params["earlyStoppingPatience"]:
        free.difference_update(_WATCHED)
    return _plain({name: value for name, value in params.items() if name not in free})


def placement(params: Mapping[str, Any]) -> dict[str, Any]:
    """Those that decide on which tasks."""
    return _plain({name: params[name] for name in PLACEMENT})


def _plain(values: Mapping[str, Any]) -> dict[str, Any]:
    """Sorted, as a checkpoint gives them back."""
    found: dict[str, Any] = json.loads(json.dumps(values, default=str, sort_keys=True))
    return found

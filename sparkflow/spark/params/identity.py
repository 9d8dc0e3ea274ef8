"""Which parameters decide what is learnt: a checkpoint of other ones is of another training.

Their rows say so; an estimator's own ones count.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from sparkflow.spark.params.table import TRAINER

PLACEMENT: Final = ("numWorkers", "numPs")
"""Decide which task does what: training may go on with others, but ends as another one."""

_WATCHED: Final = ("earlyStoppingMetric", "earlyStoppingMode")
"""Decide which values are the best so far, where there are such."""

_FREE: Final = frozenset(
    {
        *(row.name for group in TRAINER for row in group if not row.decides),
        # What a classifier's model does once it is there.
        "thresholds",
    }
)


def deciding(params: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters that decide what is learnt, by name, as JSON has them.

    Args:
        params: All parameters of an estimator.
    """
    free = _FREE if not params["earlyStoppingPatience"] else _FREE.difference(_WATCHED)
    return _plain({k: v for k, v in params.items() if k not in free and k not in PLACEMENT})


def placement(params: Mapping[str, Any]) -> dict[str, Any]:
    """Those that decide on which tasks."""
    return _plain({name: params[name] for name in PLACEMENT})


def _plain(values: Mapping[str, Any]) -> dict[str, Any]:
    """Sorted, as a checkpoint gives them back."""
    found: dict[str, Any] = json.loads(json.dumps(values, default=str, sort_keys=True))
    return found

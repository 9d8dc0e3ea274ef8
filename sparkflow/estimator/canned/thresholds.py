"""Metrics of classifiers that say yes from a given probability on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sparkflow import metrics
from sparkflow.graph.tensor import Tensor
from sparkflow.ops.elementwise.elementwise import cast
from sparkflow_runtime.dtypes import float32


def checked_thresholds(given: Sequence[float] | None) -> tuple[float, ...]:
    """The thresholds, none when None.

    Raises:
        ValueError: One is not between 0 and 1.
    """
    found = tuple(given or ())
    for each in found:
        if not 0 < each < 1:
            raise ValueError(f"thresholds not in (0, 1): {found}.")
    return found


def at_thresholds(
    thresholds: Sequence[float], labels: Tensor, probabilities: Tensor, weights: Any
) -> dict[str, Any]:
    """Accuracy, precision and recall where a probability of at least a threshold is a yes."""
    found: dict[str, Any] = {}
    for each in thresholds:
        said = cast(probabilities >= each, float32)
        end = f"positive_threshold_{each:f}"
        found[f"accuracy/{end}"] = metrics.accuracy(cast(labels, float32), said, weights)
        found[f"precision/{end}"] = metrics.precision(labels, said, weights)
        found[f"recall/{end}"] = metrics.recall(labels, said, weights)
    return found

"""The statistics of a model's first rows, as a training that continues the model keeps them.

They are constants of its graph: with those of other rows, the same variables are another model.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import Any

import numpy as np

from sparkflow.spark.data.schema.row_format import RAGGED, RowFormat
from sparkflow.spark.estimators.statistics import LabelRange, Moments, RowStatistics

_STANDARDIZES = "standardizes"


def to_json(facts: RowStatistics, standardizes: bool) -> dict[str, Any]:
    """Returns the statistics as values for JSON.

    Args:
        facts: The statistics.
        standardizes: Whether the network standardizes its features.
    """
    return {
        _STANDARDIZES: standardizes,
        "features": {name: _listed(each) for name, each in facts.features.items()},
        "label": None if facts.label is None else _listed(facts.label),
        "label_range": None if facts.label_range is None else asdict(facts.label_range),
        "mean_weight": facts.mean_weight,
        "num_rows": facts.num_rows,
        "values": dict(facts.values),
    }


def from_json(value: Mapping[str, Any], standardizes: bool) -> RowStatistics:
    """Reads what `to_json` wrote.

    Raises:
        ValueError: The network standardizes its features now and did not then, or vice versa.
    """
    before = value[_STANDARDIZES]
    if before != standardizes:
        raise ValueError(
            f"standardization={standardizes}, but the stream began with standardization={before}: "
            f"set it to {before}, or begin with another checkpointDir"
        )
    label, label_range = value["label"], value["label_range"]
    return RowStatistics(
        features={name: _moments(each) for name, each in value["features"].items()},
        label=None if label is None else _moments(label),
        label_range=None if label_range is None else LabelRange(**label_range),
        mean_weight=value["mean_weight"],
        num_rows=value["num_rows"],
        values=value["values"],
    )


def continued(kept: RowStatistics, new: RowStatistics, given: RowFormat) -> RowStatistics:
    """Returns the statistics for further rows: those kept, but the labels' range is the new one.

    Args:
        kept: The statistics of the model's first rows.
        new: Those of the further rows.
        given: The format of the further rows.

    Raises:
        ValueError: The model standardizes other features.
    """
    sizes = {name: each.mean.size for name, each in kept.features.items()}
    found = {
        each.name: each.size
        for each in given.features
        if sizes and each.dtype != "string" and each.kind != RAGGED
    }
    if found != sizes:
        raise ValueError(
            f"The features and their sizes are {found}, but the stream began with {sizes}: use "
            "the same columns, or begin with another checkpointDir"
        )
    return replace(kept, label_range=new.label_range)


def _listed(moments: Moments) -> dict[str, list[float]]:
    return {"mean": moments.mean.tolist(), "scale": moments.scale.tolist()}


def _moments(value: Mapping[str, Any]) -> Moments:
    return Moments(np.array(value["mean"], np.float64), np.array(value["scale"], np.float64))

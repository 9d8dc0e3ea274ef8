"""What a model does with the rows that it predicts."""

from __future__ import annotations

from sparkflow.spark.params.accessors import InferenceAccessors
from sparkflow.spark.params.column_params import ColumnParams


class InferenceParams(ColumnParams, InferenceAccessors):
    """The parameters of a model. Those that its estimator has as well come from there."""

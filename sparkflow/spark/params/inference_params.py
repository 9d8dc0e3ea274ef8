"""How a model handles the rows of `transform`."""

from __future__ import annotations

from sparkflow.spark.params.accessors.column_accessors import InferenceAccessors
from sparkflow.spark.params.column_params import ColumnParams


class InferenceParams(ColumnParams, InferenceAccessors):
    """The parameters of a model. Values of those that its estimator also has are copied from it."""

"""Specs of `tf.parse_example` for canned estimators: features, labels, weights."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sparkflow._api import export
from sparkflow.feature_column.numeric import NumericColumn
from sparkflow.feature_column.parse_spec import make_parse_example_spec
from sparkflow.ops.files.parsing_config import FixedLenFeature
from sparkflow_runtime.dtypes import float32, int64, string


@export("estimator.classifier_parse_example_spec")
def classifier_parse_example_spec(
    feature_columns: Sequence[Any],
    label_key: str,
    label_dtype: Any = int64,
    label_default: Any = None,
    weight_column: Any = None,
) -> dict[str, Any]:
    """Returns the parsing configurations by name for a classifier.

    Args:
        feature_columns: The feature columns.
        label_key: The feature of labels.
        label_dtype: The dtype of the labels: int64 or string.
        label_default: The label of examples without one; None rejects them.
        weight_column: The feature with the weights of examples: a name or a numeric column.

    Raises:
        ValueError: A name is used twice, or the kinds of label and default differ.
    """
    if label_default is not None and (label_dtype is string) != isinstance(label_default, str):
        raise ValueError(f"label_default {label_default!r} is not of label_dtype {label_dtype}")
    label = FixedLenFeature((1,), label_dtype, label_default)
    return _with(feature_columns, label_key, label, weight_column)


@export("estimator.regressor_parse_example_spec")
def regressor_parse_example_spec(
    feature_columns: Sequence[Any],
    label_key: str,
    label_dtype: Any = float32,
    label_default: Any = None,
    label_dimension: int = 1,
    weight_column: Any = None,
) -> dict[str, Any]:
    """Returns the parsing configurations by name for a regressor.

    Args:
        feature_columns: The feature columns.
        label_key: The feature of labels.
        label_dtype: The dtype of the labels: a real or integer type.
        label_default: The label of examples without one; None rejects them.
        label_dimension: The number of values per label.
        weight_column: The feature with the weights of examples: a name or a numeric column.

    Raises:
        ValueError: A name is used twice.
    """
    label = FixedLenFeature((label_dimension,), label_dtype, label_default)
    return _with(feature_columns, label_key, label, weight_column)


def _with(
    feature_columns: Sequence[Any], label_key: str, label: FixedLenFeature, weight_column: Any
) -> dict[str, Any]:
    spec = make_parse_example_spec(feature_columns)
    if label_key in spec:
        raise ValueError(
            f"label should not be used as feature. label_key: {label_key}, features: {spec.keys()}"
        )
    spec[label_key] = label
    if weight_column is None:
        return spec
    if isinstance(weight_column, str):
        weights: dict[str, Any] = {weight_column: FixedLenFeature((1,), float32)}
    elif isinstance(weight_column, NumericColumn):
        weights = weight_column.parse_example_spec
    else:
        raise TypeError(
            f"weight_column should be an instance of NumericColumn. given: {weight_column}"
        )
    for key in weights:
        if key in spec:
            raise ValueError(
                f"weight_column should not be used as feature or label. weight_column: {key}"
            )
    return {**spec, **weights}

"""What metrics count in, and what they do to shapes before they count."""

from __future__ import annotations

from typing import Any

from sparkflow.graph.collections import GraphKeys
from sparkflow.graph.scopes import convert_to_tensor
from sparkflow.ops.checks.rank_fitting import match_weights, one_rank
from sparkflow.ops.shape import constants
from sparkflow_runtime.dtypes import float32


def squeezed(predictions: Any, labels: Any, weights: Any) -> tuple[Any, Any, Any]:
    """The three with a last dimension of 1 dropped where one has a rank of one more.

    Args:
        predictions: A tensor.
        labels: A tensor, or None.
        weights: A tensor, or None; gets a last dimension of 1 where it has a rank of one less.
    """
    predictions = convert_to_tensor(predictions)
    if labels is not None:
        labels, predictions = one_rank(labels, predictions)
        predictions.shape.assert_is_compatible_with(labels.shape)
    if weights is None:
        return predictions, labels, None
    return predictions, labels, match_weights(weights, predictions)


def metric_variable(shape: Any, name: str, dtype: Any = float32) -> Any:
    """A variable of zeros that counts; local, and listed among the metric variables."""
    from sparkflow.variables.variable import Variable

    return Variable(
        lambda: constants.zeros(shape, dtype),
        trainable=False,
        collections=[GraphKeys.LOCAL_VARIABLES, GraphKeys.METRIC_VARIABLES],
        validate_shape=True,
        name=name,
        dtype=dtype,
    )

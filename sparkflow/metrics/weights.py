"""How labels, predictions and weights are brought to fitting shapes before they are counted."""

from __future__ import annotations

from typing import Any

from sparkflow.graph.collections import GraphKeys
from sparkflow.graph.scopes import convert_to_tensor, name_scope
from sparkflow.graph.tensor import Tensor
from sparkflow.ops import arrays, constants
from sparkflow.ops.comparison import equal, logical_or
from sparkflow.ops.control import with_dependencies
from sparkflow.ops.control_flow.cond import cond
from sparkflow.ops.debugging import Assert
from sparkflow.ops.reduction import reduce_all
from sparkflow_runtime.dtypes import float32

ONE_MORE = 1
"""The difference of ranks at which a last dimension of 1 is dropped or added."""


def squeezed(predictions: Any, labels: Any, weights: Any) -> tuple[Any, Any, Any]:
    """The three with a last dimension of 1 dropped where one has a rank of one more.

    Args:
        predictions: A tensor.
        labels: A tensor, or None.
        weights: A tensor, or None; gets a last dimension of 1 where it has a rank of one less.
    """
    predictions = convert_to_tensor(predictions)
    if labels is not None:
        predictions, labels = _one_rank(predictions, convert_to_tensor(labels))
        if not predictions.shape.is_compatible_with(labels.shape):
            predictions.shape.assert_is_compatible_with(labels.shape)
    if weights is None:
        return predictions, labels, None
    weights = convert_to_tensor(weights)
    rank, theirs = weights.shape.ndims, predictions.shape.ndims
    if rank == 0:
        return predictions, labels, weights
    if rank is not None and theirs is not None:
        if rank - theirs == ONE_MORE:
            weights = arrays.squeeze(weights, [-1])
        elif theirs - rank == ONE_MORE:
            weights = arrays.expand_dims(weights, -1)
        return predictions, labels, weights
    return predictions, labels, _weights_as_they_run(weights, predictions)


def _one_rank(predictions: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    ours, theirs = predictions.shape.ndims, labels.shape.ndims
    if ours is not None and theirs is not None:
        if ours - theirs == ONE_MORE and predictions._shape[-1] in (1, None):  # type: ignore[index]  # the rank is known
            return arrays.squeeze(predictions, [-1]), labels
        if theirs - ours == ONE_MORE and labels._shape[-1] in (1, None):  # type: ignore[index]  # the rank is known
            return predictions, arrays.squeeze(labels, [-1])
        return predictions, labels
    difference = arrays.rank(predictions) - arrays.rank(labels)
    return _shorter(predictions, difference, 1), _shorter(labels, difference, -1)


def _shorter(tensor: Tensor, difference: Tensor, by: int) -> Tensor:
    """Without its last dimension where the ranks differ by this; that dimension may be 1."""
    shape = tensor._shape
    if shape is not None and (not shape or shape[-1] not in (1, None)):
        return tensor
    found: Tensor = cond(
        equal(difference, by), lambda: arrays.squeeze(tensor, [-1]), lambda: tensor
    )
    return found


def _weights_as_they_run(weights: Tensor, predictions: Tensor) -> Tensor:
    """Where a rank is not known before the graph runs."""
    difference = arrays.rank(weights) - arrays.rank(predictions)

    def fitted() -> Any:
        return cond(
            equal(difference, -1),
            lambda: arrays.expand_dims(weights, -1),
            lambda: _shorter(weights, difference, 1),
        )

    found: Tensor = cond(equal(arrays.rank(weights), 0), lambda: weights, fitted)
    return found


def broadcastable(weights: Any, values: Tensor) -> Tensor:
    """The weights, once it is sure that they fit: a scalar, or the same rank with sizes equal or 1.

    Raises:
        ValueError: The static shapes tell that they do not fit.
        InvalidArgumentError: They do not fit when the graph runs.
    """
    tensor = convert_to_tensor(weights)
    given, shape = tensor._shape, values._shape
    if given == ():
        return tensor
    if given is not None and shape is not None:
        fits = len(given) == len(shape)
        if not fits:
            raise ValueError(
                "weights can not be broadcast to values. values.rank="
                f"{len(shape)}. weights.rank={len(given)}. values.shape={values.shape}. "
                f"weights.shape={tensor.shape}."
            )
        pairs = list(zip(given, shape, strict=True))
        if any(w not in (1, None) and s is not None and w != s for w, s in pairs):
            raise ValueError(
                "weights can not be broadcast to values. Mismatch at dim "
                f"{next(i for i, (w, s) in enumerate(pairs) if w != s)}. "
                f"values.shape={values.shape}. weights.shape={tensor.shape}."
            )
        if all(w == 1 or (w is not None and w == s) for w, s in pairs):
            return tensor
    with name_scope("assert_broadcastable"):
        ours, theirs = arrays.shape(tensor), arrays.shape(values)
        fitting = logical_or(
            equal(arrays.rank(tensor), 0),
            cond(
                equal(arrays.rank(tensor), arrays.rank(values)),
                lambda: reduce_all(logical_or(equal(ours, theirs), equal(ours, 1))),
                lambda: constants.constant(False),
            ),
        )
        data = ["weights can not be broadcast to values.", "weights.shape=", ours]
        check = Assert(fitting, [*data, "values.shape=", theirs])
    found: Tensor = with_dependencies([check], tensor)
    return found


def broadcast(weights: Any, values: Tensor) -> Tensor:
    """The weights in the shape of the values; see `broadcastable`."""
    fitting = broadcastable(weights, values)
    if fitting._shape is not None and fitting._shape == values._shape and None not in values._shape:
        return fitting
    found: Tensor = fitting * constants.ones_like(values, dtype=fitting.dtype)
    return found


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

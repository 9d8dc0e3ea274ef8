"""Brings labels, predictions and weights to shapes that fit, for losses, metrics and matrices."""

from __future__ import annotations

from typing import Any

import numpy as np

from sparkflow.graph.scopes import convert_to_tensor, name_scope
from sparkflow.graph.tensor import Tensor
from sparkflow.ops.control.cond import cond
from sparkflow.ops.control.debugging import Assert
from sparkflow.ops.control.ordering import with_dependencies
from sparkflow.ops.elementwise.comparison import equal, logical_or
from sparkflow.ops.reduction.reduction import reduce_all
from sparkflow.ops.shape import arrays, constants


def one_rank(
    labels: Any, predictions: Any, expected_rank_difference: int = 0
) -> tuple[Tensor, Tensor]:
    """Both, without a last dimension of 1 that one has and should not have.

    Args:
        labels: A tensor.
        predictions: A tensor.
        expected_rank_difference: How many dimensions more than `labels` the predictions have: 1
            where they are scores of classes.
    """
    labels, predictions = convert_to_tensor(labels), convert_to_tensor(predictions)
    ours, theirs = predictions.shape.ndims, labels.shape.ndims
    if ours is not None and theirs is not None:
        surplus = ours - theirs - expected_rank_difference
        if surplus == 1 and _may_lose_last(predictions):
            return labels, arrays.squeeze(predictions, [-1])
        if surplus == -1 and _may_lose_last(labels):
            return arrays.squeeze(labels, [-1]), predictions
        return labels, predictions
    difference = arrays.rank(predictions) - arrays.rank(labels)
    shorter = _shorter_where(predictions, equal(difference, expected_rank_difference + 1))
    return _shorter_where(labels, equal(difference, expected_rank_difference - 1)), shorter


def squeeze_weights(weights: Any, values: Tensor) -> Tensor:
    """The weights, without their last dimension where they have one more than the values.

    Raises:
        ValueError: That dimension is known not to be 1.
    """
    tensor = convert_to_tensor(weights)
    ours, theirs = tensor.shape.ndims, values.shape.ndims
    if ours is not None and theirs is not None:
        return arrays.squeeze(tensor, [-1]) if ours - theirs == 1 else tensor
    return _shorter_where(tensor, equal(arrays.rank(tensor) - arrays.rank(values), 1))


def match_weights(weights: Any, values: Tensor) -> Tensor:
    """As `squeeze_weights`; with a last dimension of 1 where they have one less than the values."""
    tensor = convert_to_tensor(weights)
    ours, theirs = tensor.shape.ndims, values.shape.ndims
    if ours == 0:
        return tensor
    if ours is not None and theirs is not None:
        longer = theirs - ours == 1
        return arrays.expand_dims(tensor, -1) if longer else squeeze_weights(tensor, values)

    def fitted() -> Any:
        return cond(
            equal(arrays.rank(tensor) - arrays.rank(values), -1),
            lambda: arrays.expand_dims(tensor, -1),
            lambda: squeeze_weights(tensor, values),
        )

    found: Tensor = cond(equal(arrays.rank(tensor), 0), lambda: tensor, fitted)
    return found


def broadcastable(weights: Any, values: Tensor) -> Tensor:
    """The weights, once it is sure that they fit: a scalar, or the same rank with sizes equal or 1.

    Raises:
        ValueError: The static shapes tell that they do not fit.
        InvalidArgumentError: They do not fit when the graph runs.
    """
    tensor = convert_to_tensor(weights)
    given, shape = tensor._shape, values._shape
    if given == () or _known_to_fit(tensor, values):
        return tensor
    if given is not None and shape is not None and len(given) != len(shape):
        raise ValueError(
            f"weights can not be broadcast to values. values.rank={len(shape)}. "
            f"weights.rank={len(given)}. values.shape={values.shape}. "
            f"weights.shape={tensor.shape}. Received weights={tensor}, values={values}"
        )
    with name_scope("assert_broadcastable"):
        ours, theirs = arrays.shape(tensor), arrays.shape(values)
        is_scalar = equal(arrays.rank(tensor), 0, name="is_scalar")
        fitting = logical_or(
            is_scalar,
            cond(
                equal(arrays.rank(tensor), arrays.rank(values)),
                lambda: reduce_all(logical_or(equal(ours, theirs), equal(ours, 1))),
                lambda: constants.constant(False),
            ),
        )
        data = ["weights can not be broadcast to values.", "weights.shape=", tensor.name, ours]
        data += ["values.shape=", values.name, theirs, "is_scalar=", is_scalar]
        check = Assert(fitting, data, name="AssertGuard")
    found: Tensor = with_dependencies([check], tensor)
    return found


def broadcast(weights: Any, values: Tensor) -> Tensor:
    """The weights in the shape of the values; see `broadcastable`."""
    fitting = broadcastable(weights, values)
    if fitting._shape is not None and fitting._shape == values._shape and None not in values._shape:
        return fitting
    return fitting * constants.ones_like(values, dtype=fitting.dtype)


def _known_to_fit(weights: Tensor, values: Tensor) -> bool:
    """Whether the shapes are known and fit; a run decides what is known in part only.

    Raises:
        ValueError: They are known and do not fit.
    """
    given, shape = weights._shape, values._shape
    if given is None or shape is None or None in given or None in shape or len(given) != len(shape):
        return False
    for place, (ours, theirs) in enumerate(zip(given, shape, strict=True)):
        if ours not in (1, theirs):
            raise ValueError(
                f"weights can not be broadcast to values. Mismatch at dim {place}. "
                f"values.shape={np.array(shape)}, weights.shape={np.array(given)}. "
                f"Received weights={weights}, values={values}"
            )
    return True


def _may_lose_last(tensor: Tensor) -> bool:
    shape = tensor._shape
    return shape is None or (bool(shape) and shape[-1] in (1, None))


def _shorter_where(tensor: Tensor, is_longer: Tensor) -> Tensor:
    """Without its last dimension where that is one too many and may be 1."""
    if not _may_lose_last(tensor):
        return tensor
    found: Tensor = cond(is_longer, lambda: arrays.squeeze(tensor, [-1]), lambda: tensor)
    return found

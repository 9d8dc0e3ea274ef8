"""Regularizers of `tf.contrib.layers`: functions of weights that return a loss."""

from __future__ import annotations

import numbers
from collections.abc import Callable, Sequence
from typing import Any

import sparkflow as tf

Regularizer = Callable[[Any], Any]


def _check(scale: Any, name: str = "scale") -> None:
    if isinstance(scale, numbers.Integral):
        raise ValueError(f"{name} cannot be an integer: {scale}")
    if isinstance(scale, numbers.Real) and scale < 0.0:
        raise ValueError(f"Setting a {name} less than 0 on a regularizer: {scale:g}")


def _none(_: Any) -> None:
    return None


def l1_regularizer(scale: Any, scope: str | None = None) -> Regularizer:
    """`scale` times the sum of absolute values; None where `scale` is 0.0.

    Raises:
        ValueError: `scale` is negative or an integer.
    """
    _check(scale)
    if isinstance(scale, numbers.Real) and scale == 0.0:
        return _none

    def l1(weights: Any) -> Any:
        with tf.name_scope(scope, "l1_regularizer", [weights]) as name:
            factor = tf.convert_to_tensor(scale, weights.dtype.base_dtype, name="scale")
            return tf.multiply(factor, tf.reduce_sum(tf.abs(weights)), name=name)

    return l1


def l2_regularizer(scale: Any, scope: str | None = None) -> Regularizer:
    """`scale` times half the sum of squares; None where `scale` is 0.0.

    Raises:
        ValueError: `scale` is negative or an integer.
    """
    _check(scale)
    if isinstance(scale, numbers.Real) and scale == 0.0:
        return _none

    def l2(weights: Any) -> Any:
        with tf.name_scope(scope, "l2_regularizer", [weights]) as name:
            factor = tf.convert_to_tensor(scale, weights.dtype.base_dtype, name="scale")
            return tf.multiply(factor, tf.nn.l2_loss(weights), name=name)

    return l2


def l1_l2_regularizer(
    scale_l1: Any = 1.0, scale_l2: Any = 1.0, scope: str | None = None
) -> Regularizer:
    """The sum of `l1_regularizer` and `l2_regularizer`.

    Raises:
        ValueError: A scale is negative or an integer.
    """
    _check(scale_l1, "scale_l1")
    _check(scale_l2, "scale_l2")
    if not scale_l1:
        return l2_regularizer(scale_l2, scope)
    if not scale_l2:
        return l1_regularizer(scale_l1, scope)
    both: Regularizer = sum_regularizer(
        [l1_regularizer(scale_l1), l2_regularizer(scale_l2)], scope or "l1_l2_regularizer"
    )
    return both


def sum_regularizer(
    regularizer_list: Sequence[Regularizer | None], scope: str | None = None
) -> Any:
    """The sum of several; None where all are None."""
    chosen = [each for each in regularizer_list if each is not None]
    if not chosen:
        return None

    def total(weights: Any) -> Any:
        with tf.name_scope(scope, "sum_regularizer", [weights]) as name:
            losses = [loss for loss in (each(weights) for each in chosen) if loss is not None]
            return tf.add_n(losses, name=name) if losses else None

    return total


def apply_regularization(regularizer: Regularizer, weights_list: Any = None) -> Any:
    """The sum of a regularizer over weights, listed in the graph's regularization losses.

    Args:
        regularizer: From a tensor to a scalar.
        weights_list: The weights; those of the collection `WEIGHTS` when None.

    Raises:
        ValueError: There are no weights, or the regularizer gives no scalar.
    """
    weights = (
        tf.get_collection(tf.GraphKeys.WEIGHTS) if weights_list is None else list(weights_list)
    )
    if not weights:
        raise ValueError("No weights to regularize.")
    with tf.name_scope("get_regularization_penalty", values=weights) as scope:
        penalties = [regularizer(each) for each in weights]
        penalties = [tf.constant(0.0) if each is None else each for each in penalties]
        for each in penalties:
            if each.shape.ndims != 0:
                raise ValueError(
                    f"regularizer must return a scalar Tensor instead of a Tensor with rank "
                    f"{each.shape.ndims}."
                )
        total = tf.add_n(penalties, name=scope)
        tf.add_to_collection(tf.GraphKeys.REGULARIZATION_LOSSES, total)
        return total

"""`create_train_op`: the loss as a tensor whose fetch is a training step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import sparkflow as tf
from sparkflow.contrib.layers.optimizers import multiply_gradients

__all__ = [
    "USE_GLOBAL_STEP",
    "add_gradients_summaries",
    "clip_gradient_norms",
    "clip_gradient_norms_fn",
    "create_train_op",
    "multiply_gradients",
]
USE_GLOBAL_STEP: Any = object()
"""Stands for the graph's step counter where None means none."""


def add_gradients_summaries(grads_and_vars: Sequence[tuple[Any, Any]]) -> list[Any]:
    """A histogram and the norm of every gradient."""
    summaries = []
    for gradient, variable in grads_and_vars:
        if gradient is None:
            tf.logging.info("Var %s has no gradient", variable.op.name)
            continue
        values = getattr(gradient, "values", gradient)
        name = variable.op.name
        summaries.append(tf.summary.histogram(f"{name}_gradient", values))
        summaries.append(tf.summary.scalar(f"{name}_gradient_norm", tf.global_norm([values])))
    return summaries


def clip_gradient_norms(
    gradients_to_variables: Sequence[tuple[Any, Any]], max_norm: float
) -> list[tuple[Any, Any]]:
    """Pairs of gradients and variables, each gradient no longer than `max_norm`."""
    clipped = []
    for gradient, variable in gradients_to_variables:
        if isinstance(gradient, tf.IndexedSlices):
            values = tf.clip_by_norm(gradient.values, max_norm)
            gradient = tf.IndexedSlices(values, gradient.indices, gradient.dense_shape)
        elif gradient is not None:
            gradient = tf.clip_by_norm(gradient, max_norm)
        clipped.append((gradient, variable))
    return clipped


def clip_gradient_norms_fn(max_norm: float) -> Callable[[Any], Any]:
    """`clip_gradient_norms` to `max_norm` as a function of pairs alone."""
    return lambda pairs: clip_gradient_norms(pairs, max_norm)


def create_train_op(
    total_loss: Any,
    optimizer: Any,
    global_step: Any = USE_GLOBAL_STEP,
    update_ops: Sequence[Any] | None = None,
    variables_to_train: Sequence[Any] | None = None,
    transform_grads_fn: Callable[[Any], Any] | None = None,
    summarize_gradients: bool = False,
    gate_gradients: int = tf.train.Optimizer.GATE_OP,
    aggregation_method: Any = None,
    colocate_gradients_with_ops: bool = False,
    check_numerics: bool = True,
) -> Any:
    """The loss, which when it is fetched has made one training step.

    Args:
        total_loss: A scalar.
        optimizer: An optimizer.
        global_step: The step counter; the graph's, made if need be, when not given; None for none.
        update_ops: Operations to run first; those of `UPDATE_OPS` when None.
        variables_to_train: What is trained; the trainable variables when None.
        transform_grads_fn: Changes the pairs of gradients and variables.
        summarize_gradients: Write summaries of gradients.
        gate_gradients: As for `Optimizer.compute_gradients`, as the next two.
        aggregation_method: See there.
        colocate_gradients_with_ops: See there.
        check_numerics: Fail where the loss is infinite or not a number.

    Raises:
        ValueError: There is nothing to train.
    """
    if global_step is USE_GLOBAL_STEP:
        global_step = tf.train.get_or_create_global_step()
    listed = list(dict.fromkeys(tf.get_collection(tf.GraphKeys.UPDATE_OPS)))
    if update_ops is None:
        update_ops = listed
    elif not set(listed) <= set(update_ops):
        tf.logging.warning(
            "update_ops in create_train_op does not contain all the update_ops in "
            "GraphKeys.UPDATE_OPS"
        )
    if update_ops:
        with tf.control_dependencies(list(update_ops)):
            barrier = tf.no_op(name="update_barrier")
        with tf.control_dependencies([barrier]):
            total_loss = tf.identity(total_loss)
    if variables_to_train is None:
        variables_to_train = tf.trainable_variables()
    if not variables_to_train:
        raise ValueError("There are no variables to train: variables_to_train is empty")
    gradients = optimizer.compute_gradients(
        total_loss,
        variables_to_train,
        gate_gradients=gate_gradients,
        aggregation_method=aggregation_method,
        colocate_gradients_with_ops=colocate_gradients_with_ops,
    )
    if transform_grads_fn is not None:
        gradients = transform_grads_fn(gradients)
    if summarize_gradients:
        with tf.name_scope("summarize_grads"):
            add_gradients_summaries(gradients)
    updates = optimizer.apply_gradients(gradients, global_step=global_step)
    with tf.name_scope("train_op"):
        if check_numerics:
            total_loss = tf.check_numerics(total_loss, "LossTensor is inf or nan")
        with tf.control_dependencies([updates]):
            train_op = tf.identity(total_loss)
    collection = tf.get_collection_ref(tf.GraphKeys.TRAIN_OP)
    if train_op not in collection:
        collection.append(train_op)
    return train_op

"""Summaries of tensors by their shape, one by one or by collection."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import sparkflow as tf


def summarize_tensor(tensor: Any, tag: str | None = None) -> Any:
    """A scalar summary of a scalar, a histogram of anything larger."""
    name = tag or tensor.op.name
    if tensor.shape.ndims == 0:
        return tf.summary.scalar(name, tensor)
    return tf.summary.histogram(name, tensor)


def summarize_activation(op: Any) -> Any:
    """A histogram of an activation and, for a relu, the fraction of zeros."""
    if op.op.type in ("Relu", "Softplus", "Relu6"):
        share = tf.reduce_mean(tf.cast(tf.less_equal(op, 0), tf.float32))
        tf.summary.scalar(f"{op.op.name}/fraction_of_zero", share)
    if op.op.type == "Relu6":
        share = tf.reduce_mean(tf.cast(tf.greater(op, 5.9), tf.float32))
        tf.summary.scalar(f"{op.op.name}/fraction_of_six", share)
    return tf.summary.histogram(f"{op.op.name}/activation", op)


def summarize_tensors(
    tensors: Sequence[Any], summarizer: Callable[[Any], Any] = summarize_tensor
) -> list[Any]:
    """Summaries of several tensors."""
    return [summarizer(each) for each in tensors]


def summarize_collection(
    collection: str,
    name_filter: str | None = None,
    summarizer: Callable[[Any], Any] = summarize_tensor,
) -> list[Any]:
    """Summaries of a collection.

    Args:
        collection: Its name.
        name_filter: A regular expression for the names of the operations.
        summarizer: Makes one summary.
    """
    tensors = [
        each
        for each in tf.get_collection(collection)
        if name_filter is None or _fits(name_filter, each.op.name)
    ]
    return summarize_tensors(tensors, summarizer)


def _fits(pattern: str, name: str) -> bool:
    return re.match(pattern, name) is not None


def summarize_variables(
    name_filter: str | None = None, summarizer: Callable[[Any], Any] = summarize_tensor
) -> list[Any]:
    """Summaries of the global variables."""
    return summarize_collection(tf.GraphKeys.GLOBAL_VARIABLES, name_filter, summarizer)


def summarize_weights(
    name_filter: str | None = None, summarizer: Callable[[Any], Any] = summarize_tensor
) -> list[Any]:
    """Summaries of the collection `WEIGHTS`."""
    return summarize_collection(tf.GraphKeys.WEIGHTS, name_filter, summarizer)


def summarize_biases(
    name_filter: str | None = None, summarizer: Callable[[Any], Any] = summarize_tensor
) -> list[Any]:
    """Summaries of the collection `BIASES`."""
    return summarize_collection(tf.GraphKeys.BIASES, name_filter, summarizer)


def summarize_activations(
    name_filter: str | None = None, summarizer: Callable[[Any], Any] = summarize_activation
) -> list[Any]:
    """Summaries of the collection `ACTIVATIONS`."""
    return summarize_collection(tf.GraphKeys.ACTIVATIONS, name_filter, summarizer)

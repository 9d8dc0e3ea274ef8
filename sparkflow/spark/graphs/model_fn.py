"""Calling the user's `model_fn`: what it is given, and what it may return."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import sparkflow as tf
from sparkflow.spark.feed.inputs import RowFormat
from sparkflow.spark.graphs.inputs import BatchTensors

ModelFn = Callable[..., Any]
"""`(features, labels, mode, params, weights)`, all but the first by name and as far as it takes
them; returns a `tf.estimator.EstimatorSpec`."""


@dataclass(frozen=True, slots=True)
class ModelInputs:
    """What `model_fn` is called with, beside its mode.

    Attributes:
        row_format: What a row consists of.
        params: The user's parameters.
        seed: Of the graph's random ops.
    """

    row_format: RowFormat
    params: Mapping[str, Any]
    seed: int


def takes(model_fn: ModelFn, name: str) -> bool:
    """Whether the function can be given an argument of this name."""
    parameters = inspect.signature(model_fn).parameters
    takes_all = any(each.kind is inspect.Parameter.VAR_KEYWORD for each in parameters.values())
    return takes_all or name in parameters


def call_model_fn(
    model_fn: ModelFn, batch: BatchTensors, mode: str, params: Mapping[str, Any]
) -> tf.estimator.EstimatorSpec:
    """Calls the function in the default graph.

    Args:
        model_fn: The user's function.
        batch: Its features, labels and weights.
        mode: One of `tf.estimator.ModeKeys`.
        params: The user's parameters.

    Raises:
        TypeError: It returned something else than a spec.
        ValueError: It returned a spec of another mode.
        Exception: What `model_fn` raises, unchanged.
    """
    given = {
        "labels": batch.labels,
        "mode": mode,
        "params": dict(params),
        "weights": batch.weights,
    }
    spec = model_fn(
        batch.features, **{key: value for key, value in given.items() if takes(model_fn, key)}
    )
    if not isinstance(spec, tf.estimator.EstimatorSpec):
        raise TypeError(
            f"model_fn must return a tf.estimator.EstimatorSpec, in mode {mode!r} it returned "
            f"{type(spec).__name__}"
        )
    if spec.mode != mode:
        raise ValueError(
            f"model_fn was called in mode {mode!r} and returned a spec of mode {spec.mode!r}"
        )
    return spec


def session_initializers() -> tuple[str, ...]:
    """The operations of the default graph that fill its lookup tables, if it has any."""
    if not tf.get_collection(tf.GraphKeys.TABLE_INITIALIZERS):
        return ()
    return (tf.tables_initializer().name,)

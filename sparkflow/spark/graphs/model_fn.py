"""Calls the user's `model_fn`: arguments and result."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import sparkflow as tf
from sparkflow.spark.data.schema.row_format import RowFormat
from sparkflow.spark.graphs.batch_tensors import BatchTensors
from sparkflow_runtime.ops import registry

ModelFn = Callable[..., Any]
"""`(features, labels, mode, params, weights)`, all but the first by name and as far as it takes
them; returns a `tf.estimator.EstimatorSpec`."""


@dataclass(frozen=True, slots=True)
class ModelInputs:
    """The arguments of `model_fn` except its mode.

    Attributes:
        row_format: The format of the rows.
        params: The user's parameters.
        seed: The seed of the graph's random ops.
    """

    row_format: RowFormat
    params: Mapping[str, Any]
    seed: int


GIVEN: Final = ("labels", "mode", "params", "weights")
"""The arguments that model_fn gets by name, after the features."""

_BY_PLACE: Final = (
    inspect.Parameter.POSITIONAL_ONLY,
    inspect.Parameter.POSITIONAL_OR_KEYWORD,
)
_WANTED: Final = {
    tf.estimator.ModeKeys.TRAIN: "Return tf.estimator.EstimatorSpec(mode, loss=loss, "
    "train_op=train_op)",
    tf.estimator.ModeKeys.EVAL: "Return tf.estimator.EstimatorSpec(mode, loss=loss)",
    tf.estimator.ModeKeys.PREDICT: "Return tf.estimator.EstimatorSpec(mode, "
    "predictions={'prediction': tensor})",
}


def takes(model_fn: ModelFn, name: str) -> bool:
    """Whether the function accepts an argument with this name."""
    parameters = inspect.signature(model_fn).parameters
    takes_all = any(each.kind is inspect.Parameter.VAR_KEYWORD for each in parameters.values())
    return takes_all or name in parameters


def require_callable(model_fn: Any, name: str, given: Sequence[str]) -> None:
    """Checks that a function accepts features and arguments with these names.

    Args:
        model_fn: The user's function.
        name: The parameter that it was passed as.
        given: The arguments passed by name, after the features, to functions that accept them.

    Raises:
        TypeError: It is not a function, has no argument, or has one without a default that is not
            passed.
    """
    if not callable(model_fn):
        raise TypeError(f"{name} must be a function, got {model_fn!r}")
    try:
        parameters = list(inspect.signature(model_fn).parameters.values())
    except ValueError:  # written in C
        return
    call = f"{name}(features, {', '.join(f'{each}=...' for each in given)})"
    shown = f"{name}({', '.join(map(str, parameters))})"
    by_place = [each for each in parameters if each.kind in _BY_PLACE]
    any_number = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    if not by_place and any_number[0] not in [each.kind for each in parameters]:
        raise TypeError(
            f"{shown} takes no argument for the features; it is called as {call} and may leave "
            "out all but the first"
        )
    strange = [
        each.name
        for each in parameters
        if each not in by_place[:1]
        and each.default is inspect.Parameter.empty
        and each.kind not in any_number
        and (each.name not in given or each.kind is inspect.Parameter.POSITIONAL_ONLY)
    ]
    if strange:
        raise TypeError(
            f"{shown} takes {', '.join(strange)}, which it is not given: it is called as {call}. "
            "Call the labels `labels`, and so on; leave out what it does not need; give all other "
            "arguments a default, or put them into modelParams"
        )


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
        TypeError: It did not return a spec.
        ValueError: It returned a spec for another mode.
        Exception: What `model_fn` raises, unchanged.
    """
    given = {
        "labels": batch.labels,
        "mode": mode,
        "params": dict(params),
        "weights": batch.weights,
    }
    taken = {key: value for key, value in given.items() if takes(model_fn, key)}
    try:
        spec = model_fn(batch.features, **taken)
    except (TypeError, ValueError, AttributeError) as error:
        missing = [key for key in ("labels", "weights") if key in taken and taken[key] is None]
        advice = ""
        if missing and "None" in str(error):
            advice = _about_none(missing, mode)
        elif taken.get("labels") is not None:
            advice = _about_labels(taken["labels"], str(error))
        if not advice and "must be from the same graph" in str(error):
            advice = _OTHER_GRAPH
        if not advice:
            raise
        raise type(error)(f"{error}{advice}") from error
    if not isinstance(spec, tf.estimator.EstimatorSpec):
        raise TypeError(
            f"model_fn must return a tf.estimator.EstimatorSpec, in mode {mode!r} it returned "
            f"{type(spec).__name__}{' (is there a return?)' if spec is None else ''}. "
            f"{_WANTED[mode]}"
        )
    if spec.mode != mode:
        raise ValueError(
            f"model_fn was called in mode {mode!r} and returned a spec of mode {spec.mode!r}: give "
            "EstimatorSpec the mode that model_fn was called with"
        )
    _require_scalar(spec.loss)
    return spec


_OTHER_GRAPH: Final = (
    "\nmodel_fn is called in a new graph for each mode: make all variables and tensors inside of it"
)
_INTEGERS_ONLY: Final = re.compile(
    r"DataType float\d+ not in list of allowed values: (?![^\n]*float)[^\n]*int"
)


def _about_labels(labels: Any, text: str) -> str:
    """Returns a hint for errors that the dtype of the labels may have caused."""
    name = labels.dtype.name
    needs_integers = _INTEGERS_ONLY.search(text) is not None
    if name == "int64" and not needs_integers and "int64" in text and "float32" in text:
        return (
            "\nlabels is int64, because the label column holds integers: where numbers are meant "
            "use tf.cast(labels, tf.float32), or a column of doubles"
        )
    if name == "float32" and needs_integers:
        return (
            "\nlabels is float32, because the label column holds no integers: where classes are "
            "meant use tf.cast(labels, tf.int64), or df.withColumn(name, col(name).cast('int'))"
        )
    return ""


def _about_none(missing: Sequence[str], mode: str) -> str:
    none = " and ".join(f"{each} is None" for each in missing)
    if mode == tf.estimator.ModeKeys.PREDICT:
        return (
            f"\nmodel_fn was called in mode {mode!r} (PREDICT), in which {none}. Return the "
            "predictions before they are used:\n"
            "    if mode == tf.estimator.ModeKeys.PREDICT:\n"
            "        return tf.estimator.EstimatorSpec(mode, predictions={'prediction': ...})"
        )
    return (
        f"\nmodel_fn was called in mode {mode!r}, and {none}: there are weights with weightCol or "
        "classWeights only"
    )


def _require_scalar(loss: Any) -> None:
    """Checks that the loss is a scalar.

    Raises:
        ValueError: It has one value per row.
    """
    if loss is None or not registry.find(loss.op.type).reshapes:
        return  # EstimatorSpec reshapes to a scalar what may have only one element
    given = loss.op.inputs[0]
    if given.shape.ndims and given.shape.num_elements() is None:
        raise ValueError(
            f"Loss must be scalar, given: {given}, which has one number per row: return "
            "tf.reduce_mean(loss)"
        )


def session_initializers() -> tuple[str, ...]:
    """Returns the operations that initialize the lookup tables of the default graph, if any."""
    if not tf.get_collection(tf.GraphKeys.TABLE_INITIALIZERS):
        return ()
    return (tf.tables_initializer().name,)

"""The tensors of a batch in a graph: drawn from an iterator, or fed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import sparkflow as tf
from sparkflow.spark.data.schema.row_format import DENSE, SPARSE, Input, RowFormat

FEATURES: Final = "features"
"""The name of the only input's placeholder, and the scope of the placeholders of named inputs."""


@dataclass(frozen=True, slots=True)
class BatchTensors:
    """A batch in the form that `model_fn` gets.

    Attributes:
        features: A tensor [batch, *shape], a `tf.SparseTensor`, or a dictionary of these.
        labels: A tensor [batch] or [batch, n]; None if there are none.
        weights: A tensor [batch] float32; None if there are none.
    """

    features: Any
    labels: Any = None
    weights: Any = None


@dataclass(frozen=True, slots=True)
class FeatureTensors:
    """The placeholders of one input.

    Attributes:
        input: The input.
        tensors: Their names, `node:0`: one for a dense input; indices, values and dense shape for a
            sparse or ragged one.
    """

    input: Input
    tensors: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class DrawnBatch:
    """A batch with the information from its source.

    Attributes:
        batch: The batch.
        num_rows: Tensor, [] float32: its number of rows.
        waited_s: Tensor, [] float32: the seconds that the step waited for it.
    """

    batch: BatchTensors
    num_rows: Any
    waited_s: Any


def draw_batch(row_format: RowFormat, shared_name: str) -> DrawnBatch:
    """Returns the next batch of an iterator that the worker looks up by name.

    Args:
        row_format: The format of the rows.
        shared_name: The iterator's name among the worker's resources.
    """
    graph = tf.get_default_graph()
    types = [dtype for dtype, _ in row_format.components]
    shapes = [shape for _, shape in row_format.components]
    attrs: dict[str, Any] = {"output_types": types, "output_shapes": shapes}
    iterator = graph.apply(
        "IteratorV2", (), {"shared_name": shared_name, "container": "", **attrs}, name=shared_name
    )
    *drawn, num_rows = graph.apply("IteratorGetNext", (iterator,), attrs, name="next_batch")
    parts = iter(drawn)
    features = {each.name: joined(each, parts) for each in row_format.features}
    labels, weights = (
        None if each is None else joined(each, parts)
        for each in (row_format.label, row_format.weight)
    )
    waited_s = next(parts, tf.constant(0.0))
    return DrawnBatch(
        BatchTensors(_as_given(row_format, features), labels, weights), num_rows, waited_s
    )


def feed_features(row_format: RowFormat) -> tuple[BatchTensors, tuple[FeatureTensors, ...]]:
    """Returns features that are fed, without labels and weights.

    Returns:
        The batch, and the placeholders of each input.
    """
    features = {}
    fed = []
    for each in row_format.features:
        parts = _placeholders(
            each, f"{FEATURES}/{_op_name(each.name)}" if row_format.named else FEATURES
        )
        fed.append(FeatureTensors(each, tuple(part.name for part in parts)))
        features[each.name] = joined(each, iter(parts))
    return BatchTensors(_as_given(row_format, features)), tuple(fed)


def _placeholders(given: Input, name: str) -> list[Any]:
    if given.kind == DENSE:
        ((dtype, shape),) = given.components
        return [tf.placeholder(dtype, shape, name=name)]
    names = ("indices", "values", "dense_shape")
    return [
        tf.placeholder(dtype, shape, name=f"{name}/{part}")
        for (dtype, shape), part in zip(given.components, names, strict=True)
    ]


def joined(given: Input, parts: Iterator[Any]) -> Any:
    """Creates an input's tensor or `tf.SparseTensor` from the next components of the batch."""
    if given.kind == DENSE:
        return next(parts)
    indices, values, dense_shape = next(parts), next(parts), next(parts)
    if given.kind == SPARSE:
        # Gives the static shape the size, which layers need.
        dense_shape = tf.stack([dense_shape[0], tf.constant(given.shape[0], tf.int64)])
    return tf.SparseTensor(indices, values, dense_shape)


def _as_given(row_format: RowFormat, features: dict[str, Any]) -> Any:
    if row_format.named:
        return features
    (only,) = features.values()
    return only


def _op_name(name: str) -> str:
    """Returns the name with characters replaced that graphs do not allow."""
    return "".join(
        each if each.isascii() and (each.isalnum() or each in "_-.") else "_" for each in name
    )

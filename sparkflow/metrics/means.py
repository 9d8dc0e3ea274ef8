"""Averages over all batches: `tf.metrics.mean`, and the errors and rates that are means."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

from sparkflow.graph.scopes import convert_to_tensor, graph_of
from sparkflow.graph.tensor import Tensor
from sparkflow.metrics.scope import Pair, listed, metric_scope, require_graph
from sparkflow.metrics.weights import metric_variable, squeezed
from sparkflow.ops.checks.rank_fitting import broadcast
from sparkflow.ops.elementwise import elementwise
from sparkflow.ops.elementwise.comparison import equal, less, where
from sparkflow.ops.elementwise.elementwise import cast
from sparkflow.ops.reduction.reduction import reduce_sum
from sparkflow.ops.shape import arrays, constants
from sparkflow.ops.state.state import assign_add
from sparkflow_runtime.dtypes import float32


def mean(
    values: Any,
    weights: Any = None,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    name: str | None = None,
) -> Pair:
    """The weighted mean of all values of all batches.

    Args:
        values: Numbers of any shape.
        weights: A scalar, or of the rank of `values` with every size equal or 1; None for ones.
        metrics_collections: Collections to which the value is added.
        updates_collections: Collections to which the update operation is added.
        name: Name of the scope.

    Returns:
        The float32 mean of all batches until now, 0 where nothing counts, and a tensor that takes
        one more batch in when it runs and gives the mean thereafter. Both read local variables,
        see `tf.local_variables_initializer`.

    Raises:
        ValueError: The shapes do not fit.
        RuntimeError: Operations run at once, see `tf.enable_eager_execution`.
    """
    with metric_scope(name, "mean", (values, weights)):
        numbers = cast(convert_to_tensor(values), float32)
        total = metric_variable([], "total")
        count = metric_variable([], "count")
        if weights is None:
            added: Tensor = cast(arrays.size(numbers), float32)
        else:
            numbers, _, weights = squeezed(numbers, None, weights)
            factors = broadcast(cast(weights, float32), numbers)
            numbers = numbers * factors
            added = reduce_sum(factors)
        more_total = assign_add(total, reduce_sum(numbers))
        with numbers.graph.control_dependencies([numbers]):
            more_count = assign_add(count, added)
        return listed(
            _ratio(total, count, "value"),
            _ratio(more_total, more_count, "update_op"),
            metrics_collections,
            updates_collections,
        )


def _ratio(total: Any, count: Any, name: str) -> Tensor:
    return elementwise.div_no_nan(total, elementwise.maximum(count, 0), name=name)


def mean_tensor(
    values: Any,
    weights: Any = None,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    name: str | None = None,
) -> Pair:
    """The mean of each element over all batches, of the shape of `values`; as `mean` otherwise."""
    with metric_scope(name, "mean", (values, weights)):
        numbers = cast(convert_to_tensor(values), float32)
        total = metric_variable(numbers.shape, "total_tensor")
        count = metric_variable(numbers.shape, "count_tensor")
        added = constants.ones_like(numbers)
        if weights is not None:
            numbers, _, weights = squeezed(numbers, None, weights)
            factors = broadcast(cast(weights, float32), numbers)
            numbers, added = numbers * factors, added * factors
        more_total = assign_add(total, numbers)
        with numbers.graph.control_dependencies([numbers]):
            more_count = assign_add(count, added)
        return listed(
            _ratio(total, count, "value"),
            _ratio(more_total, more_count, "update_op"),
            metrics_collections,
            updates_collections,
        )


def accuracy(
    labels: Any,
    predictions: Any,
    weights: Any = None,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    name: str | None = None,
) -> Pair:
    """How often predictions equal labels; other arguments as for `mean`.

    Args:
        labels: Of any shape and dtype.
        predictions: Of the same shape; cast to the dtype of the labels.
        weights: As for `mean`.
        metrics_collections: As for `mean`.
        updates_collections: As for `mean`.
        name: Name of the scope.
    """
    with _prepared("accuracy", labels, predictions, weights):
        guessed, wanted, factors = squeezed(predictions, labels, weights)
        if wanted.dtype.base != guessed.dtype.base:
            guessed = cast(guessed, wanted.dtype.base)
        right = cast(equal(guessed, wanted), float32)
        return mean(right, factors, metrics_collections, updates_collections, name or "accuracy")


def mean_absolute_error(
    labels: Any,
    predictions: Any,
    weights: Any = None,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    name: str | None = None,
) -> Pair:
    """The mean of |predictions - labels|; arguments as for `accuracy`."""
    with _prepared("mean_absolute_error", labels, predictions, weights):
        guessed, wanted, factors = squeezed(predictions, labels, weights)
        errors = abs(guessed - wanted)
        scope = name or "mean_absolute_error"
        return mean(errors, factors, metrics_collections, updates_collections, scope)


def mean_squared_error(
    labels: Any,
    predictions: Any,
    weights: Any = None,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    name: str | None = None,
) -> Pair:
    """The mean of (predictions - labels)²; arguments as for `accuracy`."""
    with _prepared("mean_squared_error", labels, predictions, weights):
        guessed, wanted, factors = squeezed(predictions, labels, weights)
        errors = elementwise.squared_difference(wanted, guessed)
        scope = name or "mean_squared_error"
        return mean(errors, factors, metrics_collections, updates_collections, scope)


def root_mean_squared_error(
    labels: Any,
    predictions: Any,
    weights: Any = None,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    name: str | None = None,
) -> Pair:
    """The root of `mean_squared_error`; arguments as for `accuracy`."""
    with _prepared("root_mean_squared_error", labels, predictions, weights):
        scope = name or "root_mean_squared_error"
        value, update = mean_squared_error(labels, predictions, weights, None, None, scope)
        roots = elementwise.sqrt(value), elementwise.sqrt(update)
        return listed(*roots, metrics_collections, updates_collections)


def mean_relative_error(
    labels: Any,
    predictions: Any,
    normalizer: Any,
    weights: Any = None,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    name: str | None = None,
) -> Pair:
    """The mean of |labels - predictions| / normalizer, 0 where the normalizer is.

    Args:
        labels: As for `accuracy`.
        predictions: As for `accuracy`.
        normalizer: Of the same shape.
        weights: As for `mean`.
        metrics_collections: As for `mean`.
        updates_collections: As for `mean`.
        name: Name of the scope.
    """
    with _prepared("mean_relative_error", labels, predictions, normalizer, weights):
        guessed, wanted, factors = squeezed(predictions, labels, weights)
        guessed, divisor, _ = squeezed(guessed, normalizer, None)
        errors = where(
            equal(divisor, 0.0),
            constants.zeros_like(wanted),
            elementwise.div(abs(wanted - guessed), divisor),
        )
        scope = name or "mean_relative_error"
        return mean(errors, factors, metrics_collections, updates_collections, scope)


def mean_cosine_distance(
    labels: Any,
    predictions: Any,
    dim: int,
    weights: Any = None,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    name: str | None = None,
) -> Pair:
    """1 minus the mean of the products of unit vectors, summed along an axis.

    Args:
        labels: As for `accuracy`; vectors of length 1 along `dim`.
        predictions: As for `accuracy`; vectors of length 1 along `dim`.
        dim: The axis.
        weights: As for `mean`, with size 1 along `dim`.
        metrics_collections: As for `mean`.
        updates_collections: As for `mean`.
        name: Name of the scope.
    """
    with _prepared("mean_cosine_distance", labels, predictions, weights):
        guessed, wanted, factors = squeezed(predictions, labels, weights)
        products = reduce_sum(guessed * wanted, axis=[dim], keepdims=True)
        value, update = mean(products, factors, None, None, name or "mean_cosine_distance")
        distances = elementwise.subtract(1.0, value), elementwise.subtract(1.0, update)
        return listed(*distances, metrics_collections, updates_collections)


def percentage_below(
    values: Any,
    threshold: Any,
    weights: Any = None,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    name: str | None = None,
) -> Pair:
    """The share of the values that are below the threshold; other arguments as for `mean`."""
    with _prepared("percentage_below", values, weights):
        below = cast(less(values, threshold), float32)
        scope = name or "percentage_below_threshold"
        return mean(below, weights, metrics_collections, updates_collections, scope)


def _prepared(metric: str, *values: Any) -> AbstractContextManager[Any]:
    """The graph of the values as the default one.

    Raises:
        RuntimeError: There is no graph.
    """
    require_graph(metric)
    return graph_of(values).as_default()

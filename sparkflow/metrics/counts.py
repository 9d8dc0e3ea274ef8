"""Counts of right and wrong answers to yes-or-no questions; precision and recall."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sparkflow.graph.tensor import Tensor
from sparkflow.metrics.scope import Pair, listed, metric_scope
from sparkflow.metrics.weights import metric_variable, squeezed
from sparkflow.ops.checks.rank_fitting import broadcastable
from sparkflow.ops.control.ordering import identity
from sparkflow.ops.elementwise import elementwise
from sparkflow.ops.elementwise.comparison import equal, greater, logical_and, where
from sparkflow.ops.elementwise.elementwise import cast
from sparkflow.ops.reduction.reduction import reduce_sum
from sparkflow.ops.state.state import assign_add
from sparkflow_runtime import dtypes
from sparkflow_runtime.dtypes import float32


def true_positives(
    labels: Any,
    predictions: Any,
    weights: Any = None,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    name: str | None = None,
) -> Pair:
    """How often (in sum of weights) the prediction was True and right.

    Args:
        labels: The right answers; cast to bool.
        predictions: The answers given, of the same shape; cast to bool.
        weights: A scalar, or of the rank of `labels` with every size equal or 1; None for ones.
        metrics_collections: Collections to which the value is added.
        updates_collections: Collections to which the update operation is added.
        name: Name of the scope.

    Returns:
        The float32 count of all batches until now, and a tensor that takes one more batch in when
        it runs and gives the count thereafter.

    Raises:
        ValueError: The shapes do not fit.
        RuntimeError: Operations run at once.
    """
    given = (labels, predictions, weights, metrics_collections, updates_collections, name)
    return _counted("true_positives", (True, True), *given)


def true_negatives(
    labels: Any,
    predictions: Any,
    weights: Any = None,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    name: str | None = None,
) -> Pair:
    """How often the prediction was False and right; arguments as for `true_positives`."""
    given = (labels, predictions, weights, metrics_collections, updates_collections, name)
    return _counted("true_negatives", (False, False), *given)


def false_positives(
    labels: Any,
    predictions: Any,
    weights: Any = None,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    name: str | None = None,
) -> Pair:
    """How often the prediction was True and wrong; arguments as for `true_positives`."""
    given = (labels, predictions, weights, metrics_collections, updates_collections, name)
    return _counted("false_positives", (False, True), *given)


def false_negatives(
    labels: Any,
    predictions: Any,
    weights: Any = None,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    name: str | None = None,
) -> Pair:
    """How often the prediction was False and wrong; arguments as for `true_positives`."""
    given = (labels, predictions, weights, metrics_collections, updates_collections, name)
    return _counted("false_negatives", (True, False), *given)


def _counted(
    kind: str,
    answers: tuple[bool, bool],
    labels: Any,
    predictions: Any,
    weights: Any,
    metrics_collections: Any,
    updates_collections: Any,
    name: str | None,
) -> Pair:
    """Where the label is the first and the prediction the second of `answers`."""
    with metric_scope(name, kind, (predictions, labels, weights)):
        guessed, wanted, factors = squeezed(
            cast(predictions, dtypes.bool_), cast(labels, dtypes.bool_), weights
        )
        right, guess = answers
        found = cast(logical_and(equal(wanted, right), equal(guessed, guess)), float32)
        count = metric_variable([], "count")
        if factors is not None:
            found = found * cast(broadcastable(factors, found), float32)
        update = assign_add(count, reduce_sum(found))
        value = identity(count)
        return listed(value, update, metrics_collections, updates_collections)


def precision(
    labels: Any,
    predictions: Any,
    weights: Any = None,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    name: str | None = None,
) -> Pair:
    """The share of True predictions that are right, 0 where none is True; as `true_positives`."""
    given = (labels, predictions, weights, metrics_collections, updates_collections, name)
    return _share("precision", false_positives, *given)


def recall(
    labels: Any,
    predictions: Any,
    weights: Any = None,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    name: str | None = None,
) -> Pair:
    """The share of True labels that were predicted, 0 where none is True; as `true_positives`."""
    given = (labels, predictions, weights, metrics_collections, updates_collections, name)
    return _share("recall", false_negatives, *given)


def _share(
    kind: str,
    missed: Callable[..., Pair],
    labels: Any,
    predictions: Any,
    weights: Any,
    metrics_collections: Any,
    updates_collections: Any,
    name: str | None,
) -> Pair:
    """True positives by themselves and those that are missed."""
    with metric_scope(name, kind, (predictions, labels, weights)):
        guessed, wanted, factors = squeezed(
            cast(predictions, dtypes.bool_), cast(labels, dtypes.bool_), weights
        )
        hits, more_hits = true_positives(wanted, guessed, factors)
        misses, more_misses = missed(wanted, guessed, factors)
        return listed(
            _of_both(hits, misses, "value"),
            _of_both(more_hits, more_misses, "update_op"),
            metrics_collections,
            updates_collections,
        )


def _of_both(hits: Any, misses: Any, name: str) -> Tensor:
    some = elementwise.add(hits, misses)
    return where(greater(some, 0), elementwise.div(hits, some), 0, name=name)

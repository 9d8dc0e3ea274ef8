"""Metrics of probabilities compared with thresholds; areas under curves."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from sparkflow import logging
from sparkflow.graph.scopes import convert_to_tensor
from sparkflow.graph.tensor import Tensor
from sparkflow.metrics.scope import Pair, listed, metric_scope
from sparkflow.metrics.weights import metric_variable, squeezed
from sparkflow.ops.checks.checks import assert_greater_equal, assert_less_equal
from sparkflow.ops.checks.rank_fitting import broadcast
from sparkflow.ops.control.ordering import identity
from sparkflow.ops.elementwise import elementwise
from sparkflow.ops.elementwise.comparison import equal, greater, logical_and, logical_not, where
from sparkflow.ops.elementwise.elementwise import cast
from sparkflow.ops.reduction.reduction import argmax, argmin, cumsum, reduce_min, reduce_sum
from sparkflow.ops.shape import arrays, constants
from sparkflow.ops.state.state import assign_add
from sparkflow_runtime import dtypes
from sparkflow_runtime.dtypes import float32, int32, int64

EPSILON: Final = 1e-7
"""Keeps quotients finite, and the first and last threshold outside of [0, 1]."""

_AREA_EPSILON: Final = 1.0e-6
_KINDS: Final = {"tp": "true_positives", "fn": "false_negatives"} | {
    "tn": "true_negatives",
    "fp": "false_positives",
}
Counts = Mapping[str, Any]


def _spread(num_thresholds: int) -> list[float]:
    """So many thresholds at equal distances, the first below 0, the last above 1."""
    inner = [(i + 1) / (num_thresholds - 1) for i in range(num_thresholds - 2)]
    return [0.0 - EPSILON, *inner, 1.0 + EPSILON]


def _counts(
    labels: Any, predictions: Any, thresholds: Sequence[float], weights: Any, kinds: Sequence[str]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Variables `[thresholds]` of those counts, and the operations that add a batch."""
    guessed = convert_to_tensor(predictions)
    bounds = [
        assert_greater_equal(
            guessed, cast(0.0, guessed.dtype.base), message="predictions must be in [0, 1]"
        ),
        assert_less_equal(
            guessed, cast(1.0, guessed.dtype.base), message="predictions must be in [0, 1]"
        ),
    ]
    with guessed.graph.control_dependencies(bounds):
        guessed, wanted, factors = squeezed(
            cast(guessed, float32), cast(labels, dtypes.bool_), weights
        )
    guessed.shape.assert_is_compatible_with(wanted.shape)
    row = arrays.reshape(guessed, [1, -1])
    yes = greater(row, arrays.reshape(convert_to_tensor(list(thresholds), float32), [-1, 1]))
    truth = logical_and(arrays.reshape(wanted, [1, -1]), constants.ones_like(yes))
    if factors is not None:
        factors = arrays.reshape(broadcast(cast(factors, float32), guessed), [1, -1])
    cells = {
        "tp": lambda: logical_and(truth, yes),
        "fn": lambda: logical_and(truth, logical_not(yes)),
        "tn": lambda: logical_and(logical_not(truth), logical_not(yes)),
        "fp": lambda: logical_and(logical_not(truth), yes),
    }
    values, updates = {}, {}
    for kind in kinds:
        variable = metric_variable([len(thresholds)], _KINDS[kind])
        found = cast(cells[kind](), float32)
        if factors is not None:
            found = found * factors
        values[kind] = variable
        updates[kind] = assign_add(variable, reduce_sum(found, 1))
    return values, updates


def _streamed(
    kind: str,
    result: Callable[[Counts, str], Any],
    kinds: Sequence[str],
    thresholds: Sequence[float],
    labels: Any,
    predictions: Any,
    weights: Any,
    metrics_collections: Any,
    updates_collections: Any,
    name: str | None,
) -> Pair:
    with metric_scope(name, kind, (labels, predictions, weights)):
        values, updates = _counts(labels, predictions, thresholds, weights, kinds)
        return listed(
            result(values, "value"),
            result(updates, "update_op"),
            metrics_collections,
            updates_collections,
        )


def auc(
    labels: Any,
    predictions: Any,
    weights: Any = None,
    num_thresholds: int = 200,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    curve: str = "ROC",
    name: str | None = None,
    summation_method: str = "trapezoidal",
    thresholds: Sequence[float] | None = None,
) -> Pair:
    """The area under a curve, approximated from counts at thresholds.

    Args:
        labels: The right answers; cast to bool.
        predictions: float32 in [0, 1], of the same shape.
        weights: A scalar, or of the rank of `labels` with every size equal or 1; None for ones.
        num_thresholds: How many thresholds there are, where `thresholds` is None.
        metrics_collections: Collections to which the value is added.
        updates_collections: Collections to which the update operation is added.
        curve: `ROC` or `PR`.
        name: Name of the scope.
        summation_method: `trapezoidal`, `careful_interpolation` (for `PR`: Davis and Goadrich, "The
            relationship between precision-recall and ROC curves", 2006), `minoring`, `majoring`.
        thresholds: The inner thresholds.

    Raises:
        ValueError: The curve or the method is unknown, or the shapes do not fit.
        InvalidArgumentError: When it runs: predictions outside of [0, 1].
        RuntimeError: Operations run at once.
    """
    if curve not in ("ROC", "PR"):
        raise ValueError(f"curve must be either ROC or PR, {curve} unknown")
    if thresholds is None:
        limits = _spread(num_thresholds)
    else:
        limits = [0.0 - EPSILON, *sorted(thresholds), 1.0 + EPSILON]

    def area(counts: Counts, scope: str) -> Tensor:
        return _area(counts, curve, summation_method, scope)

    given = (labels, predictions, weights, metrics_collections, updates_collections, name)
    return _streamed("auc", area, ("tp", "fn", "tn", "fp"), limits, *given)


def _area(counts: Counts, curve: str, method: str, name: str) -> Tensor:
    tp, fn, tn, fp = (counts[kind] for kind in ("tp", "fn", "tn", "fp"))
    if curve == "PR" and method == "careful_interpolation":
        return _interpolated(tp, fp, fn)
    if curve == "PR" and method == "trapezoidal":
        logging.warning(
            "Trapezoidal rule is known to produce incorrect PR-AUCs; please switch to "
            '"careful_interpolation" instead.'
        )
    recall = elementwise.div(tp + _AREA_EPSILON, tp + fn + _AREA_EPSILON)
    if curve == "ROC":
        x, y = elementwise.div(fp, fp + tn + _AREA_EPSILON), recall
    else:
        x, y = recall, elementwise.div(tp + _AREA_EPSILON, tp + fp + _AREA_EPSILON)
    left, right = y[:-1], y[1:]
    if method in ("trapezoidal", "careful_interpolation"):
        heights = (left + right) / 2.0
    elif method == "minoring":
        heights = elementwise.minimum(left, right)
    elif method == "majoring":
        heights = elementwise.maximum(left, right)
    else:
        raise ValueError(f"Invalid summation_method: {method}")
    return reduce_sum((x[:-1] - x[1:]) * heights, name=name)


def _interpolated(tp: Any, fp: Any, fn: Any) -> Tensor:
    hits = tp[:-1] - tp[1:]
    positives = tp + fp
    above, below = positives[:-1], positives[1:]
    slope = elementwise.div_no_nan(hits, elementwise.maximum(above - below, 0), name="prec_slope")
    intercept = tp[1:] - slope * below
    ratio = where(
        logical_and(greater(above, 0), greater(below, 0)),
        elementwise.div_no_nan(above, elementwise.maximum(below, 0), name="recall_relative_ratio"),
        constants.ones_like(below),
    )
    return reduce_sum(
        elementwise.div_no_nan(
            slope * (hits + intercept * elementwise.log(ratio)),
            elementwise.maximum(tp[1:] + fn[1:], 0),
            name="pr_auc_increment",
        ),
        name="interpolate_pr_auc",
    )


def sensitivity_at_specificity(
    labels: Any,
    predictions: Any,
    specificity: float,
    weights: Any = None,
    num_thresholds: int = 200,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    name: str | None = None,
) -> Pair:
    """TP / (TP + FN) at the threshold whose specificity is nearest to the one given.

    Args:
        labels: As for `auc`.
        predictions: As for `auc`.
        specificity: TN / (TN + FP), in [0, 1].
        weights: As for `auc`.
        num_thresholds: As for `auc`.
        metrics_collections: As for `auc`.
        updates_collections: As for `auc`.
        name: Name of the scope.

    Raises:
        ValueError: The specificity is outside of [0, 1], or the shapes do not fit.
    """
    if specificity < 0 or specificity > 1:
        raise ValueError("`specificity` must be in the range [0, 1].")

    def result(counts: Counts, scope: str) -> Any:
        tn, fp = counts["tn"], counts["fp"]
        distances = abs(elementwise.div(tn, tn + fp + EPSILON) - specificity)
        index = cast(argmin(distances, 0), int32)
        tp, fn = counts["tp"][index], counts["fn"][index]
        return elementwise.div(tp, tp + fn + EPSILON, name=scope)

    given = (labels, predictions, weights, metrics_collections, updates_collections, name)
    kinds = ("tp", "fn", "tn", "fp")
    return _streamed("sensitivity_at_specificity", result, kinds, _spread(num_thresholds), *given)


def specificity_at_sensitivity(
    labels: Any,
    predictions: Any,
    sensitivity: float,
    weights: Any = None,
    num_thresholds: int = 200,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    name: str | None = None,
) -> Pair:
    """TN / (TN + FP) at the last threshold whose sensitivity is nearest to the one given.

    Arguments as for `sensitivity_at_specificity`.

    Raises:
        ValueError: The sensitivity is outside of [0, 1], or the shapes do not fit.
    """
    if sensitivity < 0 or sensitivity > 1:
        raise ValueError("`sensitivity` must be in the range [0, 1].")

    def result(counts: Counts, scope: str) -> Any:
        tp, fn = counts["tp"], counts["fn"]
        distances = abs(elementwise.div(tp, tp + fn + EPSILON) - sensitivity)
        nearest = cast(equal(distances, reduce_min(distances)), int64)
        # The first place where the running count is highest is the last of the nearest.
        index = cast(argmax(cumsum(nearest), 0), int32)
        tn, fp = counts["tn"][index], counts["fp"][index]
        return elementwise.div(tn, tn + fp + EPSILON, name=scope)

    given = (labels, predictions, weights, metrics_collections, updates_collections, name)
    kinds = ("tp", "fn", "tn", "fp")
    return _streamed("specificity_at_sensitivity", result, kinds, _spread(num_thresholds), *given)


def precision_at_thresholds(
    labels: Any,
    predictions: Any,
    thresholds: Sequence[float],
    weights: Any = None,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    name: str | None = None,
) -> Pair:
    """TP / (TP + FP) at each threshold: `[thresholds]`; other arguments as for `auc`."""

    def result(counts: Counts, scope: str) -> Any:
        tp, fp = counts["tp"], counts["fp"]
        return elementwise.div(tp, EPSILON + tp + fp, name=f"precision_{scope}")

    given = (labels, predictions, weights, metrics_collections, updates_collections, name)
    return _streamed("precision_at_thresholds", result, ("tp", "fp"), thresholds, *given)


def recall_at_thresholds(
    labels: Any,
    predictions: Any,
    thresholds: Sequence[float],
    weights: Any = None,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    name: str | None = None,
) -> Pair:
    """TP / (TP + FN) at each threshold: `[thresholds]`; other arguments as for `auc`."""

    def result(counts: Counts, scope: str) -> Any:
        tp, fn = counts["tp"], counts["fn"]
        return elementwise.div(tp, EPSILON + tp + fn, name=f"recall_{scope}")

    given = (labels, predictions, weights, metrics_collections, updates_collections, name)
    return _streamed("recall_at_thresholds", result, ("tp", "fn"), thresholds, *given)


def true_positives_at_thresholds(
    labels: Any,
    predictions: Any,
    thresholds: Sequence[float],
    weights: Any = None,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    name: str | None = None,
) -> Pair:
    """How many were True and above each threshold; other arguments as for `auc`."""
    given = (labels, predictions, weights, metrics_collections, updates_collections, name)
    return _streamed("true_positives", _count("tp"), ("tp",), thresholds, *given)


def false_negatives_at_thresholds(
    labels: Any,
    predictions: Any,
    thresholds: Sequence[float],
    weights: Any = None,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    name: str | None = None,
) -> Pair:
    """How many were True and not above each threshold; other arguments as for `auc`."""
    given = (labels, predictions, weights, metrics_collections, updates_collections, name)
    return _streamed("false_negatives", _count("fn"), ("fn",), thresholds, *given)


def true_negatives_at_thresholds(
    labels: Any,
    predictions: Any,
    thresholds: Sequence[float],
    weights: Any = None,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    name: str | None = None,
) -> Pair:
    """How many were False and not above each threshold; other arguments as for `auc`."""
    given = (labels, predictions, weights, metrics_collections, updates_collections, name)
    return _streamed("true_negatives", _count("tn"), ("tn",), thresholds, *given)


def false_positives_at_thresholds(
    labels: Any,
    predictions: Any,
    thresholds: Sequence[float],
    weights: Any = None,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    name: str | None = None,
) -> Pair:
    """How many were False and above each threshold; other arguments as for `auc`."""
    given = (labels, predictions, weights, metrics_collections, updates_collections, name)
    return _streamed("false_positives", _count("fp"), ("fp",), thresholds, *given)


def _count(kind: str) -> Callable[[Counts, str], Any]:
    return lambda counts, scope: identity(counts[kind]) if scope == "value" else counts[kind]

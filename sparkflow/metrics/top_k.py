"""Metrics of the k best predictions, where a row may have several labels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sparkflow.graph.scopes import convert_to_tensor, graph_of, name_scope
from sparkflow.graph.tensor import Tensor
from sparkflow.graph.values.sparse_tensor import SparseTensor, SparseTensorValue, as_sparse
from sparkflow.metrics.scope import Pair, listed, require_graph
from sparkflow.metrics.weights import metric_variable
from sparkflow.ops.checks.rank_fitting import broadcast, broadcastable
from sparkflow.ops.control.cond import cond
from sparkflow.ops.elementwise import elementwise
from sparkflow.ops.elementwise.comparison import equal, greater_equal, less, where
from sparkflow.ops.elementwise.elementwise import cast
from sparkflow.ops.nn.activation import top_k
from sparkflow.ops.reduction.reduction import cumsum, reduce_sum
from sparkflow.ops.shape import arrays, constants
from sparkflow.ops.sparse.sets import set_difference, set_intersection, set_size
from sparkflow.ops.sparse.sparse_layout import sparse_concat, sparse_reshape, sparse_retain
from sparkflow.ops.state.state import assign_add
from sparkflow_runtime.dtypes import float64, int32, int64

Rows = Tensor | SparseTensor


def precision_at_k(
    labels: Any,
    predictions: Any,
    k: int,
    class_id: int | None = None,
    weights: Any = None,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    name: str | None = None,
) -> Pair:
    """The share of the k best classes that are among the labels.

    Args:
        labels: int64 classes, `[..., labels]`, sparse or dense; or `[...]` for one each.
        predictions: Scores, `[..., classes]`.
        k: How many classes are taken.
        class_id: The only class that counts; None for all.
        weights: Of the rank of `labels` less one with every size equal or 1; None for ones.
        metrics_collections: Collections to which the value is added.
        updates_collections: Collections to which the update operation is added.
        name: Name of the scope.

    Returns:
        The float64 share, NaN where nothing counts; and a tensor that takes one more batch in.

    Raises:
        ValueError: The weights do not fit.
        RuntimeError: Operations run at once.
    """
    with _scope("precision_at_k", name, _named("precision", k, class_id), predictions, labels):
        _, best = top_k(predictions, k)
        given = (weights, metrics_collections, updates_collections)
        return precision_at_top_k(labels, best, k, class_id, *given, _current_scope())


def precision_at_top_k(
    labels: Any,
    predictions_idx: Any,
    k: int | None = None,
    class_id: int | None = None,
    weights: Any = None,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    name: str | None = None,
) -> Pair:
    """As `precision_at_k`, for the k best classes themselves: `[..., k]`."""
    given = (labels, predictions_idx, k, class_id, weights)
    collections = (metrics_collections, updates_collections)
    return _share("precision", _wrongly_found, "false_positive", given, collections, name)


def recall_at_k(
    labels: Any,
    predictions: Any,
    k: int,
    class_id: int | None = None,
    weights: Any = None,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    name: str | None = None,
) -> Pair:
    """The share of the labels that are among the k best classes; as `precision_at_k`."""
    with _scope("recall_at_k", name, _named("recall", k, class_id), predictions, labels):
        _, best = top_k(predictions, k)
        given = (weights, metrics_collections, updates_collections)
        return recall_at_top_k(labels, best, k, class_id, *given, _current_scope())


def recall_at_top_k(
    labels: Any,
    predictions_idx: Any,
    k: int | None = None,
    class_id: int | None = None,
    weights: Any = None,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    name: str | None = None,
) -> Pair:
    """As `recall_at_k`, for the k best classes themselves: `[..., k]`."""
    given = (labels, predictions_idx, k, class_id, weights)
    collections = (metrics_collections, updates_collections)
    return _share("recall", _not_found, "false_negative", given, collections, name)


def sparse_precision_at_k(
    labels: Any,
    predictions: Any,
    k: int,
    class_id: int | None = None,
    weights: Any = None,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    name: str | None = None,
) -> Pair:
    """The older name of `precision_at_k`."""
    given = (labels, predictions, k, class_id, weights)
    return precision_at_k(*given, metrics_collections, updates_collections, name)


def average_precision_at_k(
    labels: Any,
    predictions: Any,
    k: int,
    weights: Any = None,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    name: str | None = None,
) -> Pair:
    """The mean over rows of the average precision of the k best; arguments as `precision_at_k`.

    The precision at each of the k places that holds a label, averaged over the labels (or k). Of
    dense labels those that are no class (-1 fills a row up) do not count.
    """
    scope = f"average_precision_at_{k}"
    with _scope("sparse_precision_at_k", name, scope, predictions, labels) as own:
        _, best = top_k(predictions, k)
        rows = _of_classes(_with_rows(labels, best), convert_to_tensor(predictions))
        averages = _averages(rows, cast(best, int64), k)
        factors = None
        if weights is not None:
            factors = broadcast(cast(weights, float64), averages)
            averages = averages * factors
        with name_scope("max"):
            count = arrays.size(averages) if factors is None else reduce_sum(factors)
            added: Tensor = cast(count, float64)
        most = metric_variable([], "max", float64)
        total = metric_variable([], "total", float64)
        more = assign_add(most, added)
        more_total = assign_add(total, reduce_sum(averages))
        value = elementwise.div_no_nan(total, elementwise.maximum(most, 0), name="mean")
        update = elementwise.div_no_nan(more_total, elementwise.maximum(more, 0), name=own)
        return listed(value, update, metrics_collections, updates_collections)


def sparse_average_precision_at_k(
    labels: Any,
    predictions: Any,
    k: int,
    weights: Any = None,
    metrics_collections: Any = None,
    updates_collections: Any = None,
    name: str | None = None,
) -> Pair:
    """The older name of `average_precision_at_k`."""
    given = (labels, predictions, k, weights, metrics_collections, updates_collections, name)
    return average_precision_at_k(*given)


def _scope(metric: str, name: str | None, default: str, *values: Any) -> Any:
    require_graph(metric)
    parts = [part for value in values for part in _parts(value)]
    return name_scope(name, default, parts)


def _parts(value: Any) -> list[Any]:
    return [value.values] if isinstance(value, SparseTensor) else [value]


def _current_scope() -> str:
    """The open scope as a name that opens it again."""
    return graph_of(()).get_name_scope() + "/"


def _named(kind: str, k: int | None, class_id: int | None) -> str:
    name = f"{kind}_at_k" if k is None else f"{kind}_at_{k}"
    return name if class_id is None else f"{name}_class{class_id}"


def _share(
    kind: str,
    missed: Callable[[Rows, Rows], SparseTensor],
    missed_name: str,
    given: tuple[Any, Any, int | None, int | None, Any],
    collections: tuple[Any, Any],
    name: str | None,
) -> Pair:
    """Classes found rightly, by themselves and those that are missed."""
    labels, predictions, k, class_id, weights = given
    metric = f"{kind}_at_top_k"
    with _scope(metric, name, _named(kind, k, class_id), predictions, labels) as scope:
        rows = _with_rows(labels, predictions)
        best: Rows = cast(predictions, int64)
        if class_id is not None:
            rows, best = _only(rows, class_id), _only(best, class_id)
        hits, more_hits = _streamed(
            set_intersection(best, rows), weights, _named("true_positive", k, class_id)
        )
        misses, more_misses = _streamed(
            missed(best, rows), weights, _named(missed_name, k, class_id)
        )
        value = elementwise.div(hits, elementwise.add(hits, misses), name=scope)
        update = elementwise.div(more_hits, elementwise.add(more_hits, more_misses), name="update")
        return listed(value, update, *collections)


def _wrongly_found(best: Rows, labels: Rows) -> SparseTensor:
    return set_difference(best, labels, aminusb=True)


def _not_found(best: Rows, labels: Rows) -> SparseTensor:
    return set_difference(best, labels, aminusb=False)


def _streamed(found: SparseTensor, weights: Any, name: str) -> Pair:
    """How many elements the rows had in all batches, weighted."""
    counts: Tensor = cast(set_size(found), float64)
    if weights is not None:
        counts = counts * cast(broadcastable(cast(weights, float64), counts), float64)
    total = metric_variable([], name, float64)
    return total, assign_add(total, reduce_sum(counts))


def _with_rows(labels: Any, predictions: Any) -> Rows:
    """The labels with a last dimension, also where each row has one label and no such dimension."""
    best = convert_to_tensor(predictions)
    rank = best.shape.ndims
    if isinstance(labels, SparseTensor | SparseTensorValue):
        sparse = as_sparse(labels)
        theirs = sparse.shape.ndims
        if rank is not None and theirs is not None and theirs == rank - 1:
            shape = arrays.concat([sparse.dense_shape, [1]], 0)
            return sparse_reshape(sparse, shape)
        return sparse
    dense = convert_to_tensor(labels)
    theirs = dense.shape.ndims
    if rank is not None and theirs is not None:
        return arrays.expand_dims(dense, -1) if theirs == rank - 1 else dense
    found: Tensor = cond(
        equal(arrays.rank(best), arrays.rank(dense) + 1),
        lambda: arrays.expand_dims(dense, -1),
        lambda: dense,
    )
    return found


def _only(rows: Rows, class_id: int) -> Rows:
    """One class where it is in a row, nothing elsewhere."""
    if isinstance(rows, SparseTensor):
        return sparse_retain(rows, equal(rows.values, constants.constant(class_id, int64)))
    shape = arrays.concat([arrays.shape(rows, out_type=int64)[:-1], [1]], 0)
    return set_intersection(constants.fill(shape, constants.constant(class_id, int64)), rows)


def _averages(labels: Rows, best: Tensor, k: int) -> Tensor:
    """The average precision of each row: `[...]` float64."""
    places = arrays.expand_dims(best, -1)
    hits = cast(set_size(set_intersection(places, _repeated(labels, k))), float64)
    precisions = cumsum(hits, axis=-1) / cast(constants.range(1, k + 1), float64)
    relevant = cast(_label_count(labels, k), float64)
    return elementwise.div(reduce_sum(precisions * hits, axis=-1), relevant)


def _of_classes(labels: Rows, predictions: Tensor) -> Rows:
    """The labels, with -1 for those beyond the classes that were predicted."""
    classes = cast(arrays.shape(predictions)[-1], int64)

    def cleaned(numbers: Tensor) -> Tensor:
        numbers = cast(numbers, int64)
        return where(less(numbers, classes), numbers, -constants.ones_like(numbers))

    if isinstance(labels, SparseTensor):
        return SparseTensor(labels.indices, cleaned(labels.values), labels.dense_shape)
    return cleaned(labels)


def _label_count(labels: Rows, k: int) -> Tensor:
    if isinstance(labels, SparseTensor):
        return elementwise.minimum(set_size(labels), constants.constant(k, int32))
    counted = reduce_sum(cast(greater_equal(labels, 0), int32), axis=-1)
    return elementwise.minimum(counted, constants.constant(k, int32))


def _repeated(labels: Rows, k: int) -> Rows:
    """`[..., k, labels]`: the labels of a row beside each of its k classes."""
    if isinstance(labels, SparseTensor):
        shape = arrays.concat([labels.dense_shape[:-1], [1], labels.dense_shape[-1:]], 0)
        one = sparse_reshape(labels, shape)
        return sparse_concat(-2, [one] * k)
    dense = arrays.expand_dims(labels, -2)
    multiples = arrays.concat([constants.ones_like(arrays.shape(dense)[:-2]), [k, 1]], 0)
    return arrays.tile(dense, multiples)

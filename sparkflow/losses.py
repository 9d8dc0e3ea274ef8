"""`tf.losses`: losses of a batch, weighted, averaged and listed in the collection `losses`."""

from __future__ import annotations

from typing import Any

from sparkflow.graph.collections import GraphKeys
from sparkflow.graph.scopes import (
    add_to_collection,
    apply_op,
    convert_to_tensor,
    get_collection,
    graph_of,
)
from sparkflow.graph.tensor import Tensor
from sparkflow.ops.checks.rank_fitting import broadcastable, one_rank, squeeze_weights
from sparkflow.ops.elementwise import elementwise
from sparkflow.ops.nn import cross_entropy
from sparkflow.ops.reduction.reduction import reduce_sum
from sparkflow.ops.renamed_arguments import either
from sparkflow.ops.shape import arrays, constants
from sparkflow_runtime.dtypes import float32


class Reduction:
    """How the losses of the examples become the loss of the batch."""

    NONE = "none"
    SUM = "weighted_sum"
    SUM_OVER_BATCH_SIZE = "weighted_sum_over_batch_size"
    MEAN = "weighted_mean"
    SUM_BY_NONZERO_WEIGHTS = "weighted_sum_by_nonzero_weights"
    SUM_OVER_NONZERO_WEIGHTS = SUM_BY_NONZERO_WEIGHTS

    @classmethod
    def all(cls) -> tuple[str, ...]:
        """Every way."""
        return (cls.NONE, cls.SUM, cls.MEAN, cls.SUM_OVER_BATCH_SIZE, cls.SUM_BY_NONZERO_WEIGHTS)

    @classmethod
    def validate(cls, key: str) -> None:
        """Passes for one of the ways.

        Raises:
            ValueError: It is not one.
        """
        if key not in cls.all():
            raise ValueError(f"Invalid ReductionKey {key}.")


def compute_weighted_loss(
    losses: Any,
    weights: Any = 1.0,
    scope: str | None = None,
    loss_collection: str | None = GraphKeys.LOSSES,
    reduction: str = Reduction.SUM_BY_NONZERO_WEIGHTS,
) -> Tensor:
    """The losses times their weights, reduced to one number.

    Args:
        losses: Floating point, usually one per example.
        weights: A scalar, or of the same rank with every size equal or 1.
        scope: Name of the scope.
        loss_collection: Where the result is listed, None for nowhere.
        reduction: One of `Reduction`.

    Raises:
        ValueError: The shapes do not fit, or the reduction is unknown.
    """
    Reduction.validate(reduction)
    graph = graph_of((losses, weights))
    with graph.as_default(), graph.name_scope(scope or "weighted_loss"):
        given = convert_to_tensor(losses)
        values = elementwise.cast(given, float32)
        factors = elementwise.cast(convert_to_tensor(weights), float32)
        factors = broadcastable(factors, values)
        weighted = values * factors
        loss = _reduced(weighted, values, factors, reduction)
        loss = elementwise.cast(loss, given.dtype.base)
        if loss_collection is not None:
            add_to_collection(loss_collection, loss)
        return loss


def _reduced(weighted: Tensor, values: Tensor, weights: Tensor, reduction_: str) -> Tensor:
    if reduction_ == Reduction.NONE:
        return weighted
    total = reduce_sum(weighted)
    if reduction_ == Reduction.SUM:
        return total
    if reduction_ == Reduction.SUM_OVER_BATCH_SIZE:
        count = elementwise.cast(arrays.size(values), float32)
    else:
        if reduction_ == Reduction.SUM_BY_NONZERO_WEIGHTS:
            weights = elementwise.cast(apply_op("NotEqual", weights, 0.0), float32)
        count = reduce_sum(weights * constants.ones_like(values))
    return elementwise.div_no_nan(total, count, name="value")


def mean_squared_error(
    labels: Any,
    predictions: Any,
    weights: Any = 1.0,
    scope: str | None = None,
    loss_collection: str | None = GraphKeys.LOSSES,
    reduction: str = Reduction.SUM_BY_NONZERO_WEIGHTS,
) -> Tensor:
    """The mean of (predictions - labels)²; arguments as for `compute_weighted_loss`."""
    _given(labels=labels, predictions=predictions)
    graph = graph_of((predictions, labels, weights))
    with graph.as_default(), graph.name_scope(scope or "mean_squared_error") as name:
        predicted, wanted = _pair(predictions, labels)
        losses = elementwise.squared_difference(predicted, wanted)
        return compute_weighted_loss(losses, weights, name, loss_collection, reduction)


def absolute_difference(
    labels: Any,
    predictions: Any,
    weights: Any = 1.0,
    scope: str | None = None,
    loss_collection: str | None = GraphKeys.LOSSES,
    reduction: str = Reduction.SUM_BY_NONZERO_WEIGHTS,
) -> Tensor:
    """The mean of |predictions - labels|; arguments as for `compute_weighted_loss`."""
    _given(labels=labels, predictions=predictions)
    graph = graph_of((predictions, labels, weights))
    with graph.as_default(), graph.name_scope(scope or "absolute_difference") as name:
        predicted, wanted = _pair(predictions, labels)
        losses = abs(predicted - wanted)
        return compute_weighted_loss(losses, weights, name, loss_collection, reduction)


def log_loss(
    labels: Any,
    predictions: Any,
    weights: Any = 1.0,
    epsilon: float = 1e-7,
    scope: str | None = None,
    loss_collection: str | None = GraphKeys.LOSSES,
    reduction: str = Reduction.SUM_BY_NONZERO_WEIGHTS,
) -> Tensor:
    """The cross entropy of probabilities; arguments as for `compute_weighted_loss`."""
    _given(labels=labels, predictions=predictions)
    graph = graph_of((predictions, labels, weights))
    with graph.as_default(), graph.name_scope(scope or "log_loss") as name:
        p, z = _pair(predictions, labels)
        losses = -(z * elementwise.log(p + epsilon)) - (1 - z) * elementwise.log(1 - p + epsilon)
        return compute_weighted_loss(losses, weights, name, loss_collection, reduction)


def _pair(predictions: Any, labels: Any) -> tuple[Tensor, Tensor]:
    predicted = elementwise.cast(predictions, float32)
    wanted = elementwise.cast(labels, float32)
    predicted.shape.assert_is_compatible_with(wanted.shape)
    return predicted, wanted


def hinge_loss(
    labels: Any,
    logits: Any,
    weights: Any = 1.0,
    scope: str | None = None,
    loss_collection: str | None = GraphKeys.LOSSES,
    reduction: str = Reduction.SUM_BY_NONZERO_WEIGHTS,
) -> Tensor:
    """The mean of max(0, 1 - y · logits), y being -1 for labels 0 and 1 for labels 1."""
    _given(labels=labels, logits=logits)
    graph = graph_of((logits, labels, weights))
    with graph.as_default(), graph.name_scope(scope or "hinge_loss") as name:
        scores, wanted = _pair(logits, labels)
        signs = 2 * wanted - constants.ones_like(wanted)
        losses = apply_op("Relu", constants.ones_like(wanted) - signs * scores)
        return compute_weighted_loss(losses, weights, name, loss_collection, reduction)


def huber_loss(
    labels: Any,
    predictions: Any,
    weights: Any = 1.0,
    delta: float = 1.0,
    scope: str | None = None,
    loss_collection: str | None = GraphKeys.LOSSES,
    reduction: str = Reduction.SUM_BY_NONZERO_WEIGHTS,
) -> Tensor:
    """The mean of a loss that is quadratic up to an error of `delta` and linear beyond."""
    _given(labels=labels, predictions=predictions)
    graph = graph_of((predictions, labels, weights))
    with graph.as_default(), graph.name_scope(scope or "huber_loss") as name:
        predicted, wanted = _pair(predictions, labels)
        error = elementwise.abs(predicted - wanted)
        near = elementwise.minimum(error, delta)
        losses = 0.5 * near * near + delta * (error - near)
        return compute_weighted_loss(losses, weights, name, loss_collection, reduction)


def cosine_distance(
    labels: Any,
    predictions: Any,
    axis: Any = None,
    weights: Any = 1.0,
    scope: str | None = None,
    loss_collection: str | None = GraphKeys.LOSSES,
    reduction: str = Reduction.SUM_BY_NONZERO_WEIGHTS,
    dim: Any = None,
) -> Tensor:
    """The mean of 1 - labels · predictions along `axis`, for vectors of length 1.

    Raises:
        ValueError: No axis is given, or the shapes differ.
    """
    axis = either("axis", axis, "dim", dim)
    if axis is None:
        raise ValueError("You must specify 'axis'.")
    _given(labels=labels, predictions=predictions)
    graph = graph_of((predictions, labels, weights))
    with graph.as_default(), graph.name_scope(scope or "cosine_distance_loss") as name:
        predicted, wanted = _pair(predictions, labels)
        products = reduce_sum(elementwise.multiply(predicted, wanted), axis, keepdims=True)
        return compute_weighted_loss(1 - products, weights, name, loss_collection, reduction)


def mean_pairwise_squared_error(
    labels: Any,
    predictions: Any,
    weights: Any = 1.0,
    scope: str | None = None,
    loss_collection: str | None = GraphKeys.LOSSES,
) -> Tensor:
    """Per example the mean over pairs of elements of the squared error of their difference.

    Args:
        labels: [batch, ...].
        predictions: Of the same shape.
        weights: A scalar, or [batch, 1, ...].
        scope: Name of the scope.
        loss_collection: Where the result is listed, None for nowhere.
    """
    _given(labels=labels, predictions=predictions)
    graph = graph_of((predictions, labels, weights))
    with graph.as_default(), graph.name_scope(scope or "mean_pairwise_squared_error"):
        factors = elementwise.cast(weights, float32)
        wanted = elementwise.cast(labels, float32)
        predicted = elementwise.cast(predictions, float32)
        predicted.shape.assert_is_compatible_with(wanted.shape)
        factors = broadcastable(factors, wanted)
        delta = predicted - wanted
        rank = delta.shape.ndims
        axes: Any = constants.range(1, arrays.rank(delta)) if rank is None else list(range(1, rank))
        squares = reduce_sum(elementwise.square(delta), axes, keepdims=True)
        present = _present(delta, factors, axes)
        pairs = elementwise.maximum(present - 1, 0)
        first = 2.0 * elementwise.div_no_nan(squares, pairs, name="value")
        total = reduce_sum(delta, axes, keepdims=True)
        product = elementwise.multiply(present, pairs)
        second = 2.0 * elementwise.div_no_nan(elementwise.square(total), product, name="value")
        weighted = elementwise.multiply(first - second, factors)
        loss = reduce_sum(weighted)
        count = reduce_sum(_present(delta, factors, None))
        nothing = apply_op("Equal", count, 0.0)
        mean_loss: Tensor = apply_op(
            "Select", nothing, constants.zeros_like(loss), loss, name="value"
        )
        add_loss(mean_loss, loss_collection)
        return mean_loss


def _present(values: Tensor, weights: Tensor, axes: Any) -> Tensor:
    """How many elements have a weight that is not 0, along `axes`."""
    counted = elementwise.cast(apply_op("NotEqual", weights, 0.0), float32)
    spread = counted * constants.ones_like(values)
    return reduce_sum(spread, axes, keepdims=axes is not None)


def _given(**arguments: Any) -> None:
    for name, value in arguments.items():
        if value is None:
            raise ValueError(f"{name} must not be None.")


def softmax_cross_entropy(
    onehot_labels: Any,
    logits: Any,
    weights: Any = 1.0,
    label_smoothing: float = 0,
    scope: str | None = None,
    loss_collection: str | None = GraphKeys.LOSSES,
    reduction: str = Reduction.SUM_BY_NONZERO_WEIGHTS,
) -> Tensor:
    """The cross entropy between probabilities and softmax(logits).

    Args:
        onehot_labels: [batch, classes].
        logits: [batch, classes].
        weights: As for `compute_weighted_loss`.
        scope: As for `compute_weighted_loss`.
        loss_collection: As for `compute_weighted_loss`.
        reduction: As for `compute_weighted_loss`.
        label_smoothing: Moves this share of each label to all classes equally.
    """
    _given(onehot_labels=onehot_labels, logits=logits)
    graph = graph_of((logits, onehot_labels, weights))
    with graph.as_default(), graph.name_scope(scope or "softmax_cross_entropy_loss") as name:
        features = convert_to_tensor(logits)
        targets = elementwise.cast(onehot_labels, features.dtype.base)
        features.shape.assert_is_compatible_with(targets.shape)
        if label_smoothing:
            classes = elementwise.cast(arrays.shape(targets)[-1], features.dtype.base)
            targets = targets * (1 - label_smoothing) + label_smoothing / classes
        losses = cross_entropy.softmax_cross_entropy_with_logits_v2(
            apply_op("StopGradient", targets), features, name="xentropy"
        )
        return compute_weighted_loss(losses, weights, name, loss_collection, reduction)


def sparse_softmax_cross_entropy(
    labels: Any,
    logits: Any,
    weights: Any = 1.0,
    scope: str | None = None,
    loss_collection: str | None = GraphKeys.LOSSES,
    reduction: str = Reduction.SUM_BY_NONZERO_WEIGHTS,
) -> Tensor:
    """The cross entropy between classes and softmax(logits).

    Args:
        labels: [batch] or [batch, 1] integers in [0, classes).
        logits: [batch, classes].
        weights: As for `compute_weighted_loss`.
        scope: As for `compute_weighted_loss`.
        loss_collection: As for `compute_weighted_loss`.
        reduction: As for `compute_weighted_loss`.
    """
    _given(labels=labels, logits=logits)
    graph = graph_of((logits, labels, weights))
    with graph.as_default(), graph.name_scope(scope or "sparse_softmax_cross_entropy_loss") as name:
        classes, features = one_rank(labels, logits, expected_rank_difference=1)
        weights = squeeze_weights(weights, classes)
        losses = cross_entropy.sparse_softmax_cross_entropy_with_logits(
            labels=classes, logits=features, name="xentropy"
        )
        return compute_weighted_loss(losses, weights, name, loss_collection, reduction)


def sigmoid_cross_entropy(
    multi_class_labels: Any,
    logits: Any,
    weights: Any = 1.0,
    label_smoothing: float = 0,
    scope: str | None = None,
    loss_collection: str | None = GraphKeys.LOSSES,
    reduction: str = Reduction.SUM_BY_NONZERO_WEIGHTS,
) -> Tensor:
    """The cross entropy between labels in {0, 1} and sigmoid(logits).

    Args:
        multi_class_labels: Of the shape of `logits`.
        logits: Floating point.
        weights: As for `compute_weighted_loss`.
        scope: As for `compute_weighted_loss`.
        loss_collection: As for `compute_weighted_loss`.
        reduction: As for `compute_weighted_loss`.
        label_smoothing: Moves labels this far towards 0.5.
    """
    _given(multi_class_labels=multi_class_labels, logits=logits)
    graph = graph_of((logits, multi_class_labels, weights))
    with graph.as_default(), graph.name_scope(scope or "sigmoid_cross_entropy_loss") as name:
        features = convert_to_tensor(logits)
        targets = elementwise.cast(multi_class_labels, features.dtype.base)
        features.shape.assert_is_compatible_with(targets.shape)
        if label_smoothing:
            targets = targets * (1 - label_smoothing) + 0.5 * label_smoothing
        losses = cross_entropy.sigmoid_cross_entropy_with_logits(
            labels=targets, logits=features, name="xentropy"
        )
        return compute_weighted_loss(losses, weights, name, loss_collection, reduction)


def add_loss(loss: Tensor, loss_collection: str | None = GraphKeys.LOSSES) -> None:
    """Lists a loss made otherwise."""
    if loss_collection is not None:
        add_to_collection(loss_collection, loss)


def get_losses(scope: str | None = None, loss_collection: str = GraphKeys.LOSSES) -> list[Tensor]:
    """The losses listed in the default graph."""
    return get_collection(loss_collection, scope)


def get_regularization_losses(scope: str | None = None) -> list[Tensor]:
    """The losses that regularizers of variables listed."""
    return get_collection(GraphKeys.REGULARIZATION_LOSSES, scope)


def get_regularization_loss(
    scope: str | None = None, name: str = "total_regularization_loss"
) -> Tensor:
    """The sum of the regularization losses; 0 when there is none."""
    losses = get_regularization_losses(scope)
    return elementwise.add_n(losses, name=name) if losses else constants.constant(0.0)


def get_total_loss(
    add_regularization_losses: bool = True, name: str = "total_loss", scope: str | None = None
) -> Tensor:
    """The sum of all losses listed.

    Raises:
        ValueError: There is none.
    """
    losses = get_losses(scope)
    if add_regularization_losses:
        losses = losses + get_regularization_losses(scope)
    return elementwise.add_n(losses, name=name)

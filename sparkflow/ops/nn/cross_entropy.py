"""Cross entropy between labels and logits."""

from __future__ import annotations

import math
from typing import Any, NoReturn

from sparkflow._api import export
from sparkflow.graph.operators import Symbolic
from sparkflow.graph.scopes import apply_op, convert_to_tensor, graph_of
from sparkflow.graph.tensor import Tensor
from sparkflow.ops.checks.checks import assert_equal
from sparkflow.ops.control.ordering import with_dependencies
from sparkflow.ops.elementwise import elementwise
from sparkflow.ops.renamed_arguments import either
from sparkflow.ops.shape import arrays
from sparkflow_runtime.dtypes import float16, float32


@export("nn.softmax_cross_entropy_with_logits_v2")
def softmax_cross_entropy_with_logits_v2(
    labels: Any,
    logits: Any,
    axis: Any = None,
    name: str | None = None,
    dim: Any = None,
) -> Tensor:
    """The cross entropy between probabilities and softmax(logits), with gradients to both.

    Args:
        labels: [..., classes] probabilities, each row of which sums to 1.
        logits: [..., classes] of the same shape and dtype.
        axis: The dimension of the classes; the last when None.
        name: Name of the node.
        dim: The old name of `axis`.

    Returns:
        [...] the loss of every example.
    """
    axis = either("axis", axis, "dim", dim)
    return _softmax(labels, logits, axis, name or "softmax_cross_entropy_with_logits")


@export("nn.softmax_cross_entropy_with_logits")
def softmax_cross_entropy_with_logits(
    _sentinel: Any = None,
    labels: Any = None,
    logits: Any = None,
    dim: Any = None,
    name: str | None = None,
    axis: Any = None,
) -> Tensor:
    """Like `softmax_cross_entropy_with_logits_v2`, but no gradient flows to the labels.

    Raises:
        ValueError: Labels and logits are not named.
    """
    _named("softmax_cross_entropy_with_logits", _sentinel, labels, logits)
    axis = either("axis", axis, "dim", dim)
    graph = graph_of((labels, logits))
    with (
        graph.as_default(),
        graph.name_scope(name or "softmax_cross_entropy_with_logits_sg") as scope,
    ):
        fixed = apply_op("StopGradient", labels, name="labels_stop_gradient")
        return _softmax(fixed, logits, axis, scope)


def _softmax(labels: Any, logits: Any, axis: Any, name: str) -> Tensor:
    graph = graph_of((labels, logits))
    with graph.as_default(), graph.name_scope(name) as scope:
        given = convert_to_tensor(logits, name="logits")
        half = given.dtype.base is float16
        features = elementwise.cast(given, float32) if half else given
        targets = convert_to_tensor(
            labels, None if isinstance(labels, Symbolic) else features.dtype.base, "labels"
        )
        targets = elementwise.cast(targets, features.dtype.base)
        rank = None if features._shape is None else len(features._shape)
        if axis is not None and rank is not None and axis % rank != rank - 1:
            order = [i for i in range(rank) if i != axis % rank] + [axis % rank]
            features, targets = (arrays.transpose(each, order) for each in (features, targets))
        if rank == 2:
            loss = graph.apply("SoftmaxCrossEntropyWithLogits", (features, targets), {}, scope)[0]
        else:
            loss = _flattened(features, targets, scope)
        return elementwise.cast(loss, float16) if half else loss


def _flattened(features: Tensor, targets: Tensor, scope: str) -> Tensor:
    """Rows of all outer dimensions as one batch, and back."""
    graph = features.graph
    sizes = arrays.shape(features)
    classes = sizes[-1:]
    flat = arrays.concat([[-1], classes], 0)
    rows = [arrays.reshape(each, flat) for each in (features, targets)]
    loss = graph.apply("SoftmaxCrossEntropyWithLogits", tuple(rows), {}, scope)[0]
    result = arrays.reshape(loss, sizes[:-1])
    if features._shape is not None:
        result.set_shape(features._shape[:-1])
    return result


@export("nn.sparse_softmax_cross_entropy_with_logits")
def sparse_softmax_cross_entropy_with_logits(
    _sentinel: Any = None,
    labels: Any = None,
    logits: Any = None,
    name: str | None = None,
) -> Tensor:
    """The cross entropy between classes and softmax(logits).

    Args:
        labels: [...] int32 or int64 classes in [0, classes).
        logits: [..., classes] floating point.
        name: Name of the scope.

    Returns:
        [...] the loss of every example.

    Raises:
        ValueError: Labels and logits are not named, or their shapes do not fit.
    """
    _named("sparse_softmax_cross_entropy_with_logits", _sentinel, labels, logits)
    graph = graph_of((labels, logits))
    name = name or "SparseSoftmaxCrossEntropyWithLogits"
    with graph.as_default(), graph.name_scope(name):
        classes = convert_to_tensor(labels, name="labels")
        given = convert_to_tensor(logits, name="logits")
        half = given.dtype.base is float16
        features = elementwise.cast(given, float32) if half else given
        if features._shape == ():
            raise ValueError(f"Logits cannot be scalars - received shape {features.shape}.")
        if features._shape is not None and classes._shape is not None:
            _fitting(classes, features)
        op_type = "SparseSoftmaxCrossEntropyWithLogits"
        if features._shape is not None and len(features._shape) == 2:
            loss = apply_op(op_type, features, classes, name=name)[0]
        else:
            sizes, all_sizes = arrays.shape(classes), arrays.shape(features)
            width = all_sizes[-1:]
            if not (classes.shape.is_fully_defined() and features.shape[:-1].is_fully_defined()):
                check = assert_equal(sizes, all_sizes[:-1])
                classes = with_dependencies([check], classes)
            rows = arrays.reshape(features, arrays.concat([[-1], width], 0))
            flat = apply_op(op_type, rows, arrays.reshape(classes, [-1]), name=name)[0]
            loss = arrays.reshape(flat, sizes)
            loss.set_shape(classes.shape)
        return elementwise.cast(loss, float16) if half else loss


def _fitting(classes: Tensor, features: Tensor) -> None:
    if len(classes.shape) != len(features.shape) - 1:
        raise ValueError(
            "Rank mismatch: Rank of labels (received "
            f"{len(classes.shape)}) should equal rank of logits minus 1 (received "
            f"{len(features.shape)}). labels shape {classes.shape}, logits shape {features.shape}"
        )
    if not features.shape[:-1].is_compatible_with(classes.shape):
        raise ValueError(
            f"Shape mismatch: The shape of labels (received {classes.shape}) should equal the "
            f"shape of logits except for the last dimension (received {features.shape})."
        )


@export("nn.sigmoid_cross_entropy_with_logits")
def sigmoid_cross_entropy_with_logits(
    _sentinel: Any = None,
    labels: Any = None,
    logits: Any = None,
    name: str | None = None,
) -> Tensor:
    """The cross entropy between labels in [0, 1] and sigmoid(logits), elementwise.

    Computed as max(x, 0) - x z + log(1 + exp(-|x|)), which does not overflow.

    Raises:
        ValueError: Labels and logits are not named, or differ in shape.
    """
    _named("sigmoid_cross_entropy_with_logits", _sentinel, labels, logits)
    graph = graph_of((labels, logits))
    with graph.as_default(), graph.name_scope(name or "logistic_loss") as scope:
        x = convert_to_tensor(logits, name="logits")
        z = convert_to_tensor(
            labels, None if isinstance(labels, Symbolic) else x.dtype.base, "labels"
        )
        if not x.shape.is_compatible_with(z.shape):
            raise ValueError(f"logits and labels must have the same shape ({x.shape} vs {z.shape})")
        zeros = apply_op("ZerosLike", x)
        positive = x >= zeros
        # Select and not Maximum or Abs: their gradients at 0 would be wrong.
        relu = apply_op("Select", positive, x, zeros)
        negative_abs = apply_op("Select", positive, -x, x)
        rest = elementwise.log1p(elementwise.exp(negative_abs))
        return elementwise.add(relu - x * z, rest, name=scope)


@export("nn.weighted_cross_entropy_with_logits")
def weighted_cross_entropy_with_logits(
    labels: Any = None,
    logits: Any = None,
    pos_weight: Any = None,
    name: str | None = None,
    targets: Any = None,
) -> Tensor:
    """Like `sigmoid_cross_entropy_with_logits`, the loss of positive labels times `pos_weight`."""
    labels = either("labels", labels, "targets", targets)
    graph = graph_of((labels, logits, pos_weight))
    with graph.as_default(), graph.name_scope(name or "logistic_loss") as scope:
        x = convert_to_tensor(logits, name="logits")
        z = convert_to_tensor(
            labels, None if isinstance(labels, Symbolic) else x.dtype.base, "labels"
        )
        weight = 1 + (pos_weight - 1) * z
        log_term = elementwise.log1p(elementwise.exp(-abs(x))) + apply_op("Relu", -x)
        return elementwise.add((1 - z) * x, weight * log_term, name=scope)


@export("nn.log_poisson_loss")
def log_poisson_loss(
    targets: Any, log_input: Any, compute_full_loss: bool = False, name: str | None = None
) -> Tensor:
    """The negative log likelihood of counts under Poisson distributions, elementwise.

    Args:
        targets: The counts, of the dtype of `log_input`.
        log_input: The logarithms of the expected counts.
        compute_full_loss: Add Stirling's approximation of log(targets!), constant in `log_input`.
        name: Name of the scope.

    Raises:
        ValueError: The shapes differ.
    """
    graph = graph_of((log_input, targets))
    with graph.as_default(), graph.name_scope(name or "log_poisson_loss"):
        x = convert_to_tensor(log_input, name="log_input")
        z = convert_to_tensor(targets, name="targets")
        if not x.shape.is_compatible_with(z.shape):
            raise ValueError(
                f"log_input and targets must have the same shape ({x.shape} vs {z.shape})"
            )
        result: Tensor = elementwise.exp(x) - x * z
        if compute_full_loss:
            zeros, ones = apply_op("ZerosLike", z), apply_op("OnesLike", z)
            stirling = z * elementwise.log(z) - z + 0.5 * elementwise.log((2.0 * math.pi) * z)
            between = apply_op("LogicalAnd", z >= zeros, z <= ones)
            result = result + apply_op("Select", between, zeros, stirling)
        return result


def _named(function: str, sentinel: Any, labels: Any, logits: Any) -> None:
    if sentinel is not None:
        _refuse(function, "Only call `{}` with named arguments (labels=..., logits=..., ...)")
    if labels is None or logits is None:
        _refuse(function, "Both labels and logits must be provided to `{}`.")


def _refuse(function: str, text: str) -> NoReturn:
    raise ValueError(text.format(function))

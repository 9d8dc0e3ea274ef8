"""Labels, weights and losses of a batch, each of which must have as many rows as the logits.

Tensors of another shape would be broadcast: `[batch]` against `[batch, 1]` makes every example meet
all others. Where a shape is not known while the graph is built, it is checked when it runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sparkflow.feature_column.column import DenseColumn, Features
from sparkflow.feature_column.numeric import numeric_column
from sparkflow.graph.scopes import control_dependencies, convert_to_tensor
from sparkflow.graph.tensor import Tensor
from sparkflow.graph.values.sparse_tensor import SparseTensor, SparseTensorValue
from sparkflow.ops.checks.checks import assert_equal
from sparkflow.ops.checks.shape_checks import assert_rank, assert_rank_at_least
from sparkflow.ops.control.ordering import identity, with_dependencies
from sparkflow.ops.elementwise.elementwise import cast
from sparkflow.ops.shape import arrays
from sparkflow_runtime.dtypes import bool_, float32


def checked_logits(logits: Tensor, dimension: int) -> Tensor:
    """The logits, which are `[batch, dimension]`.

    Raises:
        ValueError: They are known to be of another shape.
        InvalidArgumentError: When it runs: they are of another shape.
    """
    text = f"logits shape must be [batch_size, {dimension}], got {logits.shape}."
    is_ranked = assert_rank_at_least(logits, 2, message=text)
    last = logits.shape.as_list()[-1] if logits.shape.ndims else None
    if last == dimension:
        return logits
    if last is not None:
        raise ValueError(text)
    with control_dependencies([is_ranked]):
        found = arrays.shape(logits)
    data = [text, "shape: ", found]
    with control_dependencies([assert_equal(found[-1], dimension, data=data)]):
        checked: Tensor = identity(logits)
    if logits.shape.ndims is not None:
        checked.set_shape(logits.shape[:-1].concatenate([dimension]))
    return checked


def dense_labels(labels: Any, logits: Tensor, dimension: int) -> Tensor:
    """`[batch, dimension]`; labels `[batch]` become `[batch, 1]`.

    Raises:
        ValueError: There are none, they are sparse, or of another shape.
        InvalidArgumentError: When it runs: they are of another shape.
    """
    if labels is None:
        raise ValueError(
            "You must provide a labels Tensor. Given: None. Suggested troubleshooting steps: Check "
            "that your data contains your label feature. Check that your input_fn properly parses "
            "and returns labels."
        )
    if isinstance(labels, SparseTensor | SparseTensorValue):
        raise ValueError(
            "SparseTensor labels are not supported. labels must be a Tensor of shape [batch_size, "
            f"{dimension}]. Suggested Fix (1): Check the label feature in your data. Each example "
            f"must contain {dimension} value(s). Suggested Fix (2): In your input_fn, use "
            "tf.sparse_tensor_to_dense() to turn labels into a Tensor."
        )
    tensor = _with_last(convert_to_tensor(labels), logits)
    text = (
        f"labels shape must be [batch_size, {dimension}]. Suggested Fix: check your n_classes "
        "argument to the estimator and/or the shape of your label."
    )
    assert_rank_at_least(tensor, 2, message=text)
    last = tensor.shape.as_list()[-1] if tensor.shape.ndims else None
    if last is not None and last != dimension:
        raise ValueError(
            f"Mismatched label shape. Expected labels dimension={dimension}. Received {last}. "
            "Suggested Fix: If your classifier expects one-hot encoding label, check your "
            "n_classes argument to the estimator and/or the shape of your label. Otherwise, check "
            "the shape of your label."
        )
    return of_batch(tensor, logits, dimension, text)


def example_weights(
    features: Mapping[str, Any], column: Any, logits: Tensor, per_logit: bool
) -> Any:
    """The weights of the examples, `[batch, 1]` float32; 1.0 without a column.

    Args:
        features: Where they are.
        column: A name or a dense column; None for none.
        logits: `[batch, logits]`.
        per_logit: Whether weights may be as the logits, too.

    Raises:
        TypeError: The column is something else.
        ValueError: There is no such feature, or it is no numbers, or of another shape.
        InvalidArgumentError: When it runs: it is of another shape.
    """
    if column is None:
        return 1.0
    if isinstance(column, str):
        column = numeric_column(column)
    if not isinstance(column, DenseColumn):
        raise TypeError(
            f"Weight column must be either a string or a dense column. Given type: {type(column)}"
        )
    key = getattr(column, "key", None)
    given = features.get(key) if isinstance(key, str) else None
    dtype = getattr(given, "dtype", float32)
    if not (dtype == bool_ or dtype.is_floating or dtype.is_integer):
        raise ValueError(f"Weight column should be castable to float. Given dtype: {dtype}")
    weights = cast(column.dense_tensor(Features(features), None, False), float32, name="weights")
    weights = _with_last(weights, logits)
    last = logits.shape.as_list()[-1] if logits.shape.ndims else None
    text = "weights shape must be [batch_size] or [batch_size, 1]"
    if per_logit and last is not None and last != 1:
        text = f"{text} or [batch_size, {last}]"
        if weights.shape.ndims and weights.shape.as_list()[-1] == last:
            return of_batch(weights, logits, last, text)
        if weights.shape.ndims is None or weights.shape.as_list()[-1] is None:
            # One or `last` columns, which only a run can tell: the rows are checked.
            rows = of_batch(weights[..., :1], logits, 1, text)
            return with_dependencies([rows.op], weights)
    return of_batch(weights, logits, 1, text)


def of_batch(tensor: Tensor, logits: Tensor, dimension: int, text: str) -> Tensor:
    """The tensor, which is `[batch, dimension]` for logits `[batch, any]`.

    Args:
        tensor: What is checked: now as far as its shape is known, and when it runs.
        logits: What tells the batch.
        dimension: The size of its last axis.
        text: What the error begins with.

    Raises:
        ValueError: Its shape is known and another one.
        InvalidArgumentError: When it runs: its shape is another one.
    """
    wanted = logits.shape[:-1].concatenate([dimension])
    if not tensor.shape.is_compatible_with(wanted):
        raise ValueError(f"{text} Expected {wanted}, but got {tensor.shape} (logits: {logits!r}).")
    if tensor.shape.is_fully_defined() and wanted.is_fully_defined():
        return tensor
    ranks = []
    if tensor.shape.ndims is None:
        # Before shapes are compared: [1] is equal to every element of [1, 1].
        ranks.append(assert_rank(tensor, arrays.rank(logits), message=text))
    expected = arrays.concat([arrays.shape(logits)[:-1], [dimension]], 0)
    with control_dependencies(ranks):
        found = arrays.shape(tensor)
    data = [text, "expected shape: ", expected, "shape: ", found, "logits: ", arrays.shape(logits)]
    with control_dependencies([assert_equal(expected, found, data=data)]):
        checked: Tensor = identity(tensor)
    checked.set_shape(wanted)
    return checked


def _with_last(tensor: Tensor, logits: Tensor) -> Tensor:
    """The tensor with a last axis of size 1 where it has one axis less than the logits."""
    ranks = tensor.shape.ndims, logits.shape.ndims
    if ranks[0] is not None and ranks[1] is not None and ranks[0] == ranks[1] - 1:
        return arrays.expand_dims(tensor, -1)
    return tensor

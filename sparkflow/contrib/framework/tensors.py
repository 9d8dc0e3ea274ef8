"""Questions about tensors and checks of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import sparkflow as tf
from sparkflow.layers.training import known_flag, smart_cond as _smart_cond
from sparkflow.ops.checks.rank_fitting import one_rank
from sparkflow.ops.checks.shape_checks import assert_same_float_dtype, assert_scalar
from sparkflow_runtime.ops import registry

__all__ = [
    "assert_same_float_dtype",
    "assert_scalar",
    "assert_scalar_int",
    "convert_to_tensor_or_sparse_tensor",
    "get_graph_from_inputs",
    "get_name_scope",
    "get_placeholders",
    "is_tensor",
    "reduce_sum_n",
    "remove_squeezable_dimensions",
    "smart_cond",
    "smart_constant_value",
    "with_same_shape",
    "with_shape",
]


def is_tensor(x: Any) -> bool:
    """Whether `x` is a tensor, a sparse tensor or a variable."""
    return bool(tf.is_tensor(x))


def assert_scalar_int(tensor: Any, name: str | None = None) -> Any:
    """The tensor.

    Raises:
        ValueError: It is no scalar integer.
    """
    tensor = tf.convert_to_tensor(tensor)
    if not tensor.dtype.base_dtype.is_integer:
        raise ValueError(f"Expected integer type for {tensor.name}, received type: {tensor.dtype}")
    return assert_scalar(tensor, name=name)


def convert_to_tensor_or_sparse_tensor(
    value: Any, dtype: Any = None, name: str | None = None
) -> Any:
    """A sparse tensor as it is, anything else as a tensor.

    Raises:
        RuntimeError: A sparse tensor of another dtype.
    """
    return tf.convert_to_tensor_or_sparse_tensor(value, dtype, name)


def get_graph_from_inputs(op_input_list: Sequence[Any], graph: Any = None) -> Any:
    """The graph of tensors; the default graph where there are none."""
    if graph is not None:
        return graph
    for each in op_input_list:
        if isinstance(each, tf.Tensor | tf.Operation | tf.Variable):
            return each.graph
    return tf.get_default_graph()


def get_name_scope() -> str:
    """The path of the open name scope."""
    return str(tf.get_default_graph().get_name_scope())


def get_placeholders(graph: Any) -> list[Any]:
    """The placeholders of a graph."""
    return [
        op.outputs[0]
        for op in graph.get_operations()
        if registry.find(op.type).is_placeholder and not op.inputs
    ]


def reduce_sum_n(tensors: Sequence[Any], name: str | None = None) -> Any:
    """The sum of all elements of all tensors.

    Raises:
        ValueError: There are none.
    """
    if not tensors:
        raise ValueError("No tensors provided.")
    with tf.name_scope(name, "reduce_sum_n", list(tensors)) as scope:
        sums = [tf.reduce_sum(tf.convert_to_tensor(each)) for each in tensors]
        return sums[0] if len(sums) == 1 else tf.add_n(sums, name=scope)


def remove_squeezable_dimensions(
    predictions: Any, labels: Any, name: str | None = None
) -> tuple[Any, Any]:
    """Both, without a last dimension of size 1 that the other one lacks."""
    with tf.name_scope(name, "remove_squeezable_dimensions", [predictions, labels]):
        labels, predictions = one_rank(labels, predictions)
        return predictions, labels


def with_shape(expected_shape: Any, tensor: Any) -> Any:
    """The tensor, checked to have a shape.

    Args:
        expected_shape: A shape, list or tensor.
        tensor: The tensor.

    Raises:
        ValueError: The shape is known and another one; what is not known is checked in every step.
    """
    tensor = tf.convert_to_tensor(tensor)
    if isinstance(expected_shape, tf.Tensor):
        static = tf.contrib.util.constant_value(expected_shape)
        if static is None:
            wanted: Any = expected_shape
            return _checked(tensor, wanted)
        expected_shape = static.tolist()
    expected = tf.TensorShape(expected_shape)
    if not tensor.shape.is_compatible_with(expected):
        raise ValueError(f"Wrong shape for {tensor.name} [{tensor.shape}], expected {expected}.")
    if tensor.shape.is_fully_defined() or not expected.is_fully_defined():
        return tensor
    checked = _checked(tensor, tf.constant(expected.as_list(), tf.int32))
    checked.set_shape(expected)
    return checked


def _checked(tensor: Any, wanted: Any) -> Any:
    actual = tf.shape(tensor)
    check = tf.Assert(
        tf.reduce_all(tf.equal(actual, tf.cast(wanted, tf.int32))),
        [f"Wrong shape for {tensor.name}.", "expected", wanted, "actual", actual],
    )
    with tf.control_dependencies([check]):
        return tf.identity(tensor)


def with_same_shape(expected_tensor: Any, tensor: Any) -> Any:
    """The tensor, checked to have the shape of another one."""
    with tf.name_scope(f"{tensor.op.name}/", values=[expected_tensor, tensor]):
        static = expected_tensor.shape
        known = static.is_fully_defined()
        return with_shape(static.as_list() if known else tf.shape(expected_tensor), tensor)


def smart_constant_value(pred: Any) -> bool | None:
    """The value of a condition if it is known statically, else None."""
    return known_flag(pred)


def smart_cond(
    pred: Any,
    true_fn: Callable[[], Any] | None = None,
    false_fn: Callable[[], Any] | None = None,
    name: str | None = None,
) -> Any:
    """Like `tf.cond`, but if the condition is known statically, calls only one function.

    Raises:
        TypeError: A function is missing.
    """
    if not callable(true_fn) or not callable(false_fn):
        raise TypeError("`true_fn` and `false_fn` must be callable.")
    if known_flag(pred) is None:
        return tf.cond(pred, true_fn, false_fn, name=name)
    return _smart_cond(pred, true_fn, false_fn)

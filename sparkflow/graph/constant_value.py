"""What the graph alone tells about a tensor's value, without running anything.

Shape inference needs the values of shape-like inputs (`Reshape`'s shape, `Sum`'s axes), which are
often computed from static shapes. Only integers and small things are followed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from sparkflow.graph.operation import Operation
from sparkflow.graph.tensor import Tensor
from sparkflow_runtime import shapes
from sparkflow_runtime.shapes import Shape

Value = np.ndarray[Any, np.dtype[Any]] | None


def constant_value(tensor: Tensor) -> Value:
    """The value of `tensor` where the graph tells it, else None."""
    op = tensor.op
    if op.graph.is_eager:
        held = getattr(tensor, "held", None)
        return np.asarray(held) if isinstance(held, np.ndarray | np.generic) else None
    if op.type == "Const":
        value: Value = op.get_attr("value")
        return value
    follow = _FOLLOW.get(op.type)
    return None if follow is None else follow(op)


def _argument(op: Operation) -> Value:
    captured = op.graph.stands_for(op.outputs[0])
    return None if captured is None else constant_value(captured)


def variable_shape(handle: Tensor) -> Shape:
    """What is known of the shape of the variable that a handle stands for."""
    op = handle.op
    while op.type != "VarHandleOp":
        captured = op.graph.stands_for(handle)
        if captured is None and op.type not in ("Identity", "Enter", "Switch"):
            return None
        handle = op.inputs[0] if captured is None else captured
        op = handle.op
    shape: Shape = op.get_attr("shape")
    return shape


def constant_value_as_shape(tensor: Tensor) -> Shape:
    """The shape that an integer vector describes, as far as it is known.

    -1 and everything unknown become unknown sizes.
    """
    value = constant_value(tensor)
    if value is not None:
        return shapes.as_shape(int(size) for size in value.reshape(-1))
    op = tensor.op
    if op.type == "_Arg":
        captured = op.graph.stands_for(tensor)
        if captured is not None:
            return constant_value_as_shape(captured)
    if op.type == "Shape":
        return op.inputs[0]._shape
    if op.type in ("Identity", "Cast"):
        return constant_value_as_shape(op.inputs[0])
    if op.type == "Pack" and tensor._shape is not None and len(tensor._shape) == 1:
        sizes = [constant_value(each) for each in op.inputs]
        return shapes.as_shape(-1 if size is None else int(size) for size in sizes)
    if op.type == "ConcatV2":
        whole: Shape = ()
        for part in op.inputs[:-1]:
            whole = shapes.concatenate(whole, constant_value_as_shape(part))
        return whole
    if op.type == "StridedSlice" and len(op.inputs[0]._shape or ()) == 1:
        source = constant_value_as_shape(op.inputs[0])
        picked = None if source is None else _picked(op, source)
        if isinstance(picked, tuple):
            return picked
    known = tensor._shape
    return None if known is None or len(known) != 1 or known[0] is None else (None,) * known[0]


def with_known_sizes(tensor: Tensor, sizes: Tensor) -> Tensor:
    """`tensor`, made in the shape that `sizes` describes, with what is known of that shape.

    Sizes computed from other shapes are known in part: [tf.shape(x)[0], 10] makes it (?, 10).
    """
    known = tensor._shape
    if known is None or (None in known and constant_value(sizes) is None):
        tensor.set_shape(constant_value_as_shape(sizes))
    return tensor


def _shape(op: Operation) -> Value:
    shape = op.inputs[0]._shape
    if not shapes.is_fully_defined(shape):
        return None
    return np.asarray(shape, op.get_attr("out_type").as_numpy_dtype)


def _rank(op: Operation) -> Value:
    shape = op.inputs[0]._shape
    return None if shape is None else np.asarray(len(shape), np.int32)


def _size(op: Operation) -> Value:
    count = shapes.num_elements(op.inputs[0]._shape)
    return None if count is None else np.asarray(count, op.get_attr("out_type").as_numpy_dtype)


def _cast(op: Operation) -> Value:
    value = constant_value(op.inputs[0])
    target = op.get_attr("DstT")
    return None if value is None or not target.is_integer else value.astype(target.as_numpy_dtype)


def _identity(op: Operation) -> Value:
    return constant_value(op.inputs[0])


def _pack(op: Operation) -> Value:
    values = [constant_value(each) for each in op.inputs]
    found = [value for value in values if value is not None]
    return np.stack(found, op.get_attr("axis")) if len(found) == len(values) else None


def _concat(op: Operation) -> Value:
    values = [constant_value(each) for each in op.inputs]
    found = [value for value in values if value is not None]
    return np.concatenate(found[:-1], int(found[-1])) if len(found) == len(values) else None


def _range(op: Operation) -> Value:
    values = [constant_value(each) for each in op.inputs]
    found = [value for value in values if value is not None]
    if len(found) < len(values):
        return None
    numbers: Any = [value.item() for value in found]
    result: Value = np.arange(*numbers, dtype=found[0].dtype)
    return result


def _strided_slice(op: Operation) -> Value:
    # The common case: one element, or a part, of a shape that may be known only in part.
    source = op.inputs[0]
    if not source.dtype.is_integer or source._shape is None or len(source._shape) != 1:
        return None
    value = constant_value(source)
    sizes = constant_value_as_shape(source) if value is None else tuple(int(v) for v in value)
    picked = None if sizes is None else _picked(op, sizes)
    if picked is None or (isinstance(picked, tuple) and None in picked):
        return None
    return np.asarray(picked, source.dtype.base.as_numpy_dtype)


def _picked(op: Operation, source: tuple[int | None, ...]) -> Any:
    begin, end, strides = (constant_value(each) for each in op.inputs[1:])
    if begin is None or end is None or strides is None or begin.size != 1:
        return None
    if op.get_attr("ellipsis_mask") or op.get_attr("new_axis_mask"):
        return None
    if op.get_attr("shrink_axis_mask"):
        index = int(begin[0])
        return source[index] if -len(source) <= index < len(source) else None
    return source[
        slice(
            None if op.get_attr("begin_mask") else int(begin[0]),
            None if op.get_attr("end_mask") else int(end[0]),
            int(strides[0]),
        )
    ]


_FOLLOW: dict[str, Callable[[Operation], Value]] = {
    "_Arg": _argument,
    "Cast": _cast,
    "ConcatV2": _concat,
    "Identity": _identity,
    "Pack": _pack,
    "Range": _range,
    "Rank": _rank,
    "Shape": _shape,
    "Size": _size,
    "StridedSlice": _strided_slice,
}

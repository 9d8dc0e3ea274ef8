"""Lists of tensors that get another length: resizing, appending, and taking off the end."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sparkflow_runtime import shapes
from sparkflow_runtime.errors import InvalidArgumentError
from sparkflow_runtime.ops.lists.tensor_list import ListOp, TensorList, element_shape_of, filled
from sparkflow_runtime.ops.op import Held, Inference
from sparkflow_runtime.ops.registry import register
from sparkflow_runtime.ops.signature import bool_attr, type_attr
from sparkflow_runtime.ops.static import constant_scalar
from sparkflow_runtime.shapes import Shape


@register
class TensorListResize(ListOp):
    """The list with `size` elements: the last ones are missing, or unset ones are added.

    Two attributes, which are ours, serve `TensorArray`, whose declared size is `size`: with
    `_keeps_all` no element may be missing, with `_keeps_size` none may be added either.
    """

    inputs = "input_handle: variant, size: int32"
    outputs = "output_handle: variant"
    attrs = {"_keeps_all": bool_attr(False), "_keeps_size": bool_attr(False)}

    def holds(self, node: Inference) -> Sequence[Held]:
        """The same elements."""
        before = node.held(0)
        return [Held(constant_scalar(node, 1, "size"), before.element, before.is_unset)]

    def compute(
        self, xp: Any, value: TensorList, size: Any, *, _keeps_all: bool, _keeps_size: bool
    ) -> Any:
        """The same list if it has this length, or a copy of its references."""
        count, have = int(size), len(value)
        if count < 0:
            raise InvalidArgumentError(
                message=f"TensorListResize expects size to be non-negative. Got: {count}"
            )
        if count == have:
            return value
        if _keeps_size:
            raise InvalidArgumentError(
                message=f"TensorArray's size is not equal to the size of lengths ({count} vs. "
                f"{have}), and the TensorArray is not marked as dynamically resizeable"
            )
        if _keeps_all and have > count:
            raise InvalidArgumentError(
                message=f"Tried to write to index {count} but array is not resizeable and size "
                f"is: {count}; {have} rows need size={have}, or dynamic_size=True"
            )
        dtype = value.dtype
        return TensorList([*value.items[:count], *[None] * (count - have)], dtype)

    def gradient(self, g: Any, op: Any, dlist: Any) -> tuple[Any, None]:
        """The gradients of the elements that are in both lists."""
        return g.TensorListResize(dlist, g.TensorListLength(op.inputs[0])), None


@register
class TensorListPushBack(ListOp):
    """The list with one element appended."""

    inputs = "input_handle: variant, tensor: element_dtype"
    outputs = "output_handle: variant"
    attrs = {"element_dtype": type_attr()}

    def compute(self, xp: Any, value: TensorList, tensor: Any) -> Any:
        """A longer copy."""
        return TensorList([*value.items, tensor], value.dtype)

    def gradient(self, g: Any, op: Any, dlist: Any) -> tuple[Any, Any]:
        """The last element and the rest."""
        dtype = op.attr("element_dtype")
        rest, last = g.TensorListPopBack(dlist, g.Shape(op.inputs[1]), element_dtype=dtype)
        return rest, last


@register
class TensorListPopBack(ListOp):
    """The list without its last element, and that element."""

    inputs = "input_handle: variant, element_shape: int32"
    outputs = "output_handle: variant, tensor: element_dtype"
    attrs = {"element_dtype": type_attr()}

    def infer(self, node: Inference) -> Sequence[Shape]:
        """The element's shape that the node specifies."""
        given = node.value(1)
        return [shapes.SCALAR, None if given is None else element_shape_of(given)]

    def compute(self, xp: Any, value: TensorList, element_shape: Any) -> tuple[Any, Any]:
        """A shorter copy."""
        if not value.items:
            raise InvalidArgumentError(message="Trying to pop from an empty list.")
        last = TensorList(value.items[-1:], value.dtype)
        item = filled(xp, last, element_shape)[0]
        return TensorList(value.items[:-1], value.dtype), item

    def gradient(self, g: Any, op: Any, dlist: Any, ditem: Any) -> tuple[Any, None]:
        """The list with the element put back."""
        dtype = op.attr("element_dtype")
        if dlist is None:
            count = g.Sub(g.TensorListLength(op.inputs[0]), 1)
            dlist = g.TensorListReserve(op.inputs[1], count, element_dtype=dtype)
        if ditem is None:
            ditem = g.ZerosLike(op.outputs[1])
        return g.TensorListPushBack(dlist, ditem, element_dtype=dtype), None

"""Lists of tensors as values, on which `TensorArray` is built.

The ops have TensorFlow's names. Lists are immutable: setting an element creates a new list that
shares the other elements.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from sparkflow_runtime import dtypes, shapes
from sparkflow_runtime.errors import InvalidArgumentError, UnimplementedError
from sparkflow_runtime.ops.inference import scalars
from sparkflow_runtime.ops.list_access import Access, ListAccess
from sparkflow_runtime.ops.op import Held, Inference, NodeView, Op, not_differentiable
from sparkflow_runtime.ops.registry import register
from sparkflow_runtime.ops.signature import bool_attr, int_attr, type_attr
from sparkflow_runtime.ops.static import constant_scalar
from sparkflow_runtime.shapes import Shape

SHAPE_TYPE = type_attr(frozenset({dtypes.int32, dtypes.int64}))


class TensorList:
    """The value of a list.

    Args:
        items: The elements; None for unset ones.
        dtype: The element type.

    Attributes:
        dtype: The numpy dtype of the elements.
        block: An array whose rows are the elements in order; None if there is none.
        is_unset: Whether it is known that no element is set.
    """

    __slots__ = ("_count", "_items", "_make", "block", "dtype", "is_unset")

    def __init__(self, items: list[Any], dtype: Any) -> None:
        self._items: list[Any] | None = items
        self._make: Callable[[], list[Any]] | None = None
        self._count = len(items)
        self.dtype = dtype
        self.block: Any = None
        self.is_unset = False

    @classmethod
    def rows_of(cls, block: Any) -> TensorList:
        """A list of the rows of an array: views, created on demand."""
        made = cls.__new__(cls)
        made._items, made._count, made.block = None, len(block), block
        made._make, made.dtype, made.is_unset = None, block.dtype, False
        return made

    @classmethod
    def made_by(cls, make: Callable[[], list[Any]], count: int, dtype: Any) -> TensorList:
        """A list of a given length whose elements are created on demand."""
        made = cls([], dtype)
        made._items, made._count, made._make = None, count, make
        return made

    @classmethod
    def unset(cls, count: int, dtype: Any) -> TensorList:
        """A list of a given length without set elements."""
        made = cls([], dtype)
        made._items, made._count, made.is_unset = None, count, True
        return made

    def __len__(self) -> int:
        return self._count

    @property
    def items(self) -> list[Any]:
        """The elements; None for unset ones."""
        make = self._make
        if self._items is None and make is not None:
            self._items, self._make = make(), None
        if self._items is None:
            block = self.block
            places = range(self._count)
            self._items = [None if block is None else block[place, ...] for place in places]
        return self._items


def element_shape_of(given: Any) -> Shape:
    """An element shape in the graph's encoding: -1 for unknown."""
    if np.ndim(given) == 0:
        return None
    return tuple(None if size < 0 else int(size) for size in np.asarray(given).tolist())


def _element(node: Inference, place: int) -> Shape:
    """The shape of the first input's elements: given by input `place`, or else known of them."""
    given = node.value(place)
    shape = None if given is None else element_shape_of(given)
    known = node.held(0).element
    return shape if known is None or shapes.is_fully_defined(shape) else known


def _complete(items: Sequence[Any], element_shape: Any) -> Shape:
    """The shape of the elements: the node's, or the common shape of all set elements."""
    shape = element_shape_of(element_shape)
    if shapes.is_fully_defined(shape):
        return shape
    seen = {tuple(item.shape) for item in items if item is not None}
    return seen.pop() if len(seen) == 1 else shape


def filled(xp: Any, value: TensorList, element_shape: Any) -> list[Any]:
    """The elements, zeros for unset ones.

    Raises:
        InvalidArgumentError: An element is not set and their shape is not known.
    """
    if all(item is not None for item in value.items):
        return value.items
    shape = _complete(value.items, element_shape)
    if not shapes.is_fully_defined(shape):
        missing = next(place for place, item in enumerate(value.items) if item is None)
        raise unwritten(missing, shape)
    zeros = xp.zeros(shape, value.dtype)
    return [zeros if item is None else item for item in value.items]


def unwritten(place: int, shape: Shape) -> InvalidArgumentError:
    """The error for reading an unset element of unknown shape."""
    return InvalidArgumentError(
        message=f"Could not read from TensorArray index {place}.  Furthermore, the element shape "
        f"is not fully defined: {shapes.text(shape)}. It is possible you are working with a "
        "resizeable TensorArray and stop_gradients is not allowing the gradients to be written. "
        "If you set the full element_shape property on the forward TensorArray, the proper "
        "all-zeros tensor will be returned instead of incurring this error."
    )


class ListOp(Op):
    """The base of the ops below: handles have no shape, and lists never change."""

    quiet = True
    infer = scalars


@register
class EmptyTensorList(ListOp):
    """A list without elements."""

    lasting = True
    inputs = "element_shape: shape_type, max_num_elements: int32"
    outputs = "handle: variant"
    attrs = {"element_dtype": type_attr(), "shape_type": SHAPE_TYPE}
    gradient = not_differentiable

    def compute(self, xp: Any, element_shape: Any, limit: Any, *, element_dtype: Any) -> Any:
        """An empty list."""
        return TensorList([], element_dtype.as_numpy_dtype)


@register
class TensorListReserve(ListOp):
    """A list of a given length without set elements."""

    lasting = True
    inputs = "element_shape: shape_type, num_elements: int32"
    outputs = "handle: variant"
    attrs = {"element_dtype": type_attr(), "shape_type": SHAPE_TYPE}
    gradient = not_differentiable

    def list_access(self, node: NodeView) -> ListAccess:
        """A list without set elements."""
        return ListAccess(Access.NEW)

    def holds(self, node: Inference) -> Sequence[Held]:
        """Nothing yet."""
        return [Held(constant_scalar(node, 1, "num_elements"), is_unset=True)]

    def compute(self, xp: Any, element_shape: Any, size: Any, *, element_dtype: Any) -> Any:
        """A list of Nones."""
        if int(size) < 0:
            raise InvalidArgumentError(
                message=f"The num_elements to reserve must be a non negative number, but got {size}"
            )
        return TensorList.unset(int(size), element_dtype.as_numpy_dtype)


@register
class TensorListLength(ListOp):
    """The number of elements of a list."""

    inputs = "input_handle: variant"
    outputs = "length: int32"
    gradient = not_differentiable

    def list_access(self, node: NodeView) -> ListAccess:
        """Its length."""
        return ListAccess(Access.LENGTH)

    def compute(self, xp: Any, value: TensorList) -> Any:
        """The length."""
        return xp.asarray(len(value), np.int32)


@register
class TensorListSetItem(ListOp):
    """The list with one element replaced.

    Two attributes serve `TensorArray`: with `resize_if_index_out_of_bounds` an index past the end
    extends the list, and with `_write_once`, which is ours, a set element cannot be set again.
    """

    inputs = "input_handle: variant, index: int32, item: element_dtype"
    outputs = "output_handle: variant"
    attrs = {
        "element_dtype": type_attr(),
        "resize_if_index_out_of_bounds": bool_attr(False),
        "_write_once": bool_attr(False),
    }

    def list_access(self, node: NodeView) -> ListAccess:
        """A write, according to the attributes."""
        attrs = node.attrs
        return ListAccess(
            Access.WRITE, attrs["_write_once"], attrs["resize_if_index_out_of_bounds"]
        )

    def holds(self, node: Inference) -> Sequence[Held]:
        """The element, if the others have its shape."""
        before, shape = node.held(0), node.shapes[2]
        length = None if node.attrs["resize_if_index_out_of_bounds"] else before.length
        is_like = shapes.is_fully_defined(shape) and (before.is_unset or before.element == shape)
        return [Held(length, shape if is_like else None)]

    def compute(
        self,
        xp: Any,
        value: TensorList,
        index: Any,
        item: Any,
        *,
        resize_if_index_out_of_bounds: bool,
        _write_once: bool,
    ) -> Any:
        """A copy of the list of references."""
        place = int(index)
        if item.dtype != value.dtype:
            raise InvalidArgumentError(
                message=f"TensorArray dtype is {np.dtype(value.dtype).name} but Op is trying to "
                f"write dtype {item.dtype.name}"
            )
        items = list(value.items)
        if place >= len(items) and resize_if_index_out_of_bounds:
            items += [None] * (place + 1 - len(items))
        if not 0 <= place < len(items):
            raise InvalidArgumentError(
                message=f"Tried to write to index {place} but array is not resizeable and size "
                f"is: {len(items)}"
            )
        if _write_once and items[place] is not None:
            raise InvalidArgumentError(
                message=f"Could not write to TensorArray index {place} because it has already "
                "been written to."
            )
        items[place] = item
        return TensorList(items, value.dtype)

    def gradient(self, g: Any, op: Any, dlist: Any) -> tuple[Any, None, Any]:
        """The element's gradient is the list's at its index; the old element gets none."""
        _, index, item = op.inputs
        dtype = op.attr("element_dtype")
        ditem = g.TensorListGetItem(dlist, index, g.Shape(item), element_dtype=dtype)
        return g._TensorListUnset(dlist, index, element_dtype=dtype), None, ditem


@register
class TensorListUnset(ListOp):
    """The list with one element unset; ours, for the gradient of setting it."""

    type = "_TensorListUnset"
    inputs = "input_handle: variant, index: int32"
    outputs = "output_handle: variant"
    attrs = {"element_dtype": type_attr()}

    def list_access(self, node: NodeView) -> ListAccess:
        """Unsets an element."""
        return ListAccess(Access.CLEAR)

    def holds(self, node: Inference) -> Sequence[Held]:
        """The other elements."""
        return [node.held(0)]

    def compute(self, xp: Any, value: TensorList, index: Any) -> Any:
        """A copy with a hole."""
        items = list(value.items)
        if int(index) < len(items):
            items[int(index)] = None
        return TensorList(items, value.dtype)

    def gradient(self, g: Any, op: Any, dlist: Any) -> tuple[Any, None]:
        """The same hole."""
        dtype = op.attr("element_dtype")
        return g._TensorListUnset(dlist, op.inputs[1], element_dtype=dtype), None


@register
class TensorListGetItem(ListOp):
    """One element; zeros if it is not set and the shape is known."""

    inputs = "input_handle: variant, index: int32, element_shape: Tshape"
    outputs = "item: element_dtype"
    attrs = {"element_dtype": type_attr(), "Tshape": type_attr(dtypes.INDEX, dtypes.int32)}

    def list_access(self, node: NodeView) -> ListAccess:
        """A read."""
        return ListAccess(Access.READ)

    def infer(self, node: Inference) -> Sequence[Shape]:
        """The shape that the node specifies, or that of all elements."""
        return [_element(node, 2)]

    def compute(self, xp: Any, value: TensorList, index: Any, element_shape: Any) -> Any:
        """Looks it up."""
        place = int(index)
        if not 0 <= place < len(value.items):
            raise InvalidArgumentError(
                message=f"Tried to read from index {place} but array size is: {len(value.items)}"
            )
        item = value.items[place]
        if item is None:
            shape = _complete(value.items, element_shape)
            if not shapes.is_fully_defined(shape):
                raise unwritten(place, shape)
            return xp.zeros(shape, value.dtype)
        return item

    def gradient(self, g: Any, op: Any, ditem: Any) -> tuple[Any, None, None]:
        """A list with only this element set."""
        value, index, _ = op.inputs
        dtype = op.attr("element_dtype")
        empty = g.TensorListReserve(g.Shape(ditem), g.TensorListLength(value), element_dtype=dtype)
        return g.TensorListSetItem(empty, index, ditem, element_dtype=dtype), None, None


@register
class TensorListStack(ListOp):
    """All elements as one tensor with a new first dimension; a view if they are one block."""

    inputs = "input_handle: variant, element_shape: int32"
    outputs = "tensor: element_dtype"
    aliases = frozenset({"input_handle"})
    attrs = {"element_dtype": type_attr(), "num_elements": int_attr(-1)}

    def infer(self, node: Inference) -> Sequence[Shape]:
        """The number of elements before their shape."""
        shape, count = _element(node, 1), node.attrs["num_elements"]
        length = node.held(0).length if count < 0 else count
        return [None if shape is None else (length, *shape)]

    def compute(self, xp: Any, value: TensorList, element_shape: Any) -> Any:
        """Stacks."""
        if value.block is not None:
            return value.block
        items = filled(xp, value, element_shape)
        if not items:
            shape = element_shape_of(element_shape)
            if not shapes.is_fully_defined(shape):
                raise UnimplementedError(
                    message="TensorArray has size zero, but element shape "
                    f"{shapes.text(shape)} is not fully defined. Currently only static shapes "
                    "are supported when packing zero-size TensorArrays."
                )
            assert shape is not None
            return xp.empty((0, *shape), value.dtype)
        first = items[0].shape
        for index, item in enumerate(items):
            if item.shape != first:
                raise InvalidArgumentError(
                    message="TensorArray has inconsistent shapes. Index 0 has shape: "
                    f"{list(first)} but index {index} has shape: {list(item.shape)}"
                )
        return xp.stack(items)

    def gradient(self, g: Any, op: Any, dtensor: Any) -> tuple[Any, None]:
        """The rows as a list."""
        dtype = op.attr("element_dtype")
        return g.TensorListFromTensor(dtensor, op.inputs[1], element_dtype=dtype), None


@register
class TensorListFromTensor(ListOp):
    """The rows of a tensor as a list."""

    lasting = True
    inputs = "tensor: element_dtype, element_shape: shape_type"
    outputs = "output_handle: variant"
    attrs = {"element_dtype": type_attr(), "shape_type": SHAPE_TYPE}

    def holds(self, node: Inference) -> Sequence[Held]:
        """The rows."""
        shape = node.shapes[0]
        return [Held(shape[0], shape[1:])] if shape else []

    def compute(self, xp: Any, tensor: Any, element_shape: Any) -> Any:
        """Views of the rows."""
        if tensor.ndim == 0:
            raise InvalidArgumentError(
                message="TensorListFromTensor requires a tensor of rank at least 1, got a scalar"
            )
        return TensorList.rows_of(tensor)

    def gradient(self, g: Any, op: Any, dlist: Any) -> tuple[Any, None]:
        """The list's elements stacked again."""
        tensor = op.inputs[0]
        dtype = op.attr("element_dtype")
        shape = g.StridedSlice(g.Shape(tensor), [1], [0], [1], end_mask=1)
        return g.TensorListStack(dlist, shape, element_dtype=dtype), None


@register
class TensorListGather(ListOp):
    """Some elements as one tensor with a new first dimension."""

    inputs = "input_handle: variant, indices: int32, element_shape: int32"
    outputs = "values: element_dtype"
    aliases: frozenset[str] = frozenset()
    attrs = {"element_dtype": type_attr()}

    def infer(self, node: Inference) -> Sequence[Shape]:
        """The number of indices before the shape of the elements."""
        shape = _element(node, 2)
        if shape is None:
            return [None]
        indices = node.shapes[1]
        return [(None if indices is None else indices[0], *shape)]

    def compute(self, xp: Any, value: TensorList, indices: Any, element_shape: Any) -> Any:
        """Stacks the selected elements."""
        places = np.asarray(indices).tolist()
        for place in places:
            if not 0 <= place < len(value.items):
                raise InvalidArgumentError(
                    message=f"Tried to read from index {place} but array size is: "
                    f"{len(value.items)}"
                )
        chosen = TensorList([value.items[place] for place in places], value.dtype)
        items = filled(xp, chosen, element_shape)
        if not items:
            shape = element_shape_of(element_shape) or ()
            return xp.empty((0, *(size or 0 for size in shape)), value.dtype)
        return xp.stack(items)

    def gradient(self, g: Any, op: Any, dvalues: Any) -> tuple[Any, None, None]:
        """The rows scattered back to their indices."""
        value, indices, shape = op.inputs
        dtype = op.attr("element_dtype")
        dlist = g.TensorListScatterV2(
            dvalues, indices, shape, g.TensorListLength(value), element_dtype=dtype
        )
        return dlist, None, None


@register
class TensorListScatterV2(ListOp):
    """A list whose elements at `indices` are the rows of a tensor; repeated ones add up."""

    quiet = False  # rows at the same index are added
    inputs = "tensor: element_dtype, indices: int32, element_shape: shape_type, num_elements: int32"
    outputs = "output_handle: variant"
    attrs = {"element_dtype": type_attr(), "shape_type": SHAPE_TYPE}

    def compute(
        self, xp: Any, tensor: Any, indices: Any, element_shape: Any, num_elements: Any
    ) -> Any:
        """Puts rows at their places."""
        places = np.asarray(indices).tolist()
        size = max(int(num_elements), max(places, default=-1) + 1)
        items: list[Any] = [None] * size
        for place, row in zip(places, tensor, strict=True):
            items[place] = row if items[place] is None else items[place] + row
        return TensorList(items, tensor.dtype)

    def gradient(self, g: Any, op: Any, dlist: Any) -> tuple[Any, None, None, None]:
        """The elements read back."""
        _, indices, shape, _ = op.inputs
        dtype = op.attr("element_dtype")
        return g.TensorListGather(dlist, indices, shape, element_dtype=dtype), None, None, None


@register
class TensorListScatterIntoExistingList(ListOp):
    """The list with the elements at `indices` replaced by the rows of a tensor.

    Two attributes, which are ours, serve `TensorArray`: with `_write_once` a set element cannot be
    set again, with `_keeps_size` an index past the end does not extend the list.
    """

    inputs = "input_handle: variant, tensor: element_dtype, indices: int32"
    outputs = "output_handle: variant"
    attrs = {
        "element_dtype": type_attr(),
        "_write_once": bool_attr(False),
        "_keeps_size": bool_attr(False),
    }

    def compute(
        self,
        xp: Any,
        value: TensorList,
        tensor: Any,
        indices: Any,
        *,
        _write_once: bool,
        _keeps_size: bool,
    ) -> Any:
        """A copy of the list of references."""
        places = np.asarray(indices).tolist()
        items = list(value.items)
        wrong = [at for at in places if at < 0 or (_keeps_size and at >= len(items))]
        if wrong:
            raise InvalidArgumentError(
                message=f"Tried to write to index {wrong[0]} but array is not resizeable and size "
                f"is: {len(items)}"
            )
        items += [None] * (max(places, default=-1) + 1 - len(items))
        for place, row in zip(places, tensor, strict=True):
            if _write_once and items[place] is not None:
                raise InvalidArgumentError(
                    message=f"Could not write to TensorArray index {place} because it has already "
                    "been written to."
                )
            items[place] = row
        return TensorList(items, value.dtype)

    def gradient(self, g: Any, op: Any, dlist: Any) -> tuple[Any, Any, None]:
        """The rows read back; the old list gets none for those."""
        _, tensor, indices = op.inputs
        dtype = op.attr("element_dtype")
        shape = g.StridedSlice(g.Shape(tensor), [1], [0], [1], end_mask=1)
        dtensor = g.TensorListGather(dlist, indices, shape, element_dtype=dtype)
        # The replaced elements get no gradient, only the others do.
        return g._TensorListUnsetMany(dlist, indices, element_dtype=dtype), dtensor, None


@register
class TensorListUnsetMany(ListOp):
    """The list with some elements unset; ours, for the gradient of setting them."""

    type = "_TensorListUnsetMany"
    inputs = "input_handle: variant, indices: int32"
    outputs = "output_handle: variant"
    attrs = {"element_dtype": type_attr()}
    gradient = not_differentiable

    def compute(self, xp: Any, value: TensorList, indices: Any) -> Any:
        """A copy with holes."""
        items = list(value.items)
        for place in np.asarray(indices).tolist():
            items[place] = None
        return TensorList(items, value.dtype)

"""Mutable arrays and stacks of tensors, as in graphs of TensorFlow 1.

`tf.TensorArray` used to be an array on the device, identified by a handle; "flow" is a scalar that
only orders reads and writes. The gradient of a read is written to another array, which belongs to
the first and sums repeated writes. Loops saved values for their gradients on stacks. An array or
stack belongs to the step that created it.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import numpy as np

from sparkflow_runtime import dtypes, shapes
from sparkflow_runtime.errors import InvalidArgumentError, UnimplementedError
from sparkflow_runtime.ops.inference import same_as, scalars, unknown
from sparkflow_runtime.ops.lists.tensor_list import unwritten
from sparkflow_runtime.ops.lists.tensor_list_joining import check_joinable
from sparkflow_runtime.ops.op import Inference, Op, not_differentiable
from sparkflow_runtime.ops.registry import register
from sparkflow_runtime.ops.signature import (
    bool_attr,
    shape_attr,
    string_attr,
    type_attr,
)
from sparkflow_runtime.shapes import Shape

_FLOW = "handle: resource, flow_in: float"


class ArrayOfTensors:
    """An array; `_lock` guards `_gradients`, all else is accessed in flow order.

    Args:
        dtype: The numpy dtype of the elements.
        size: Number of elements.
        element_shape: Their shape as far as known.
        dynamic: Whether a write past the end extends it.
        clear_after_read: Whether an element can be read only once.
        adds: Whether a second write adds to the first; otherwise it fails.
    """

    def __init__(
        self,
        dtype: Any,
        size: int,
        element_shape: Shape,
        dynamic: bool = False,
        clear_after_read: bool = False,
        adds: bool = False,
    ) -> None:
        self.dtype = dtype
        self.items: list[Any] = [None] * size
        self.element_shape = element_shape
        self._dynamic = dynamic
        self._clear_after_read = clear_after_read
        self._adds = adds
        self._cleared: set[int] = set()
        self._shapes: dict[int, tuple[int, ...]] = {}
        self._gradients: dict[str, ArrayOfTensors] = {}
        self._lock = threading.Lock()

    def gradient(self, source: str) -> ArrayOfTensors:
        """The array of the gradients for one call of `tf.gradients`, empty at first."""
        with self._lock:
            found = self._gradients.get(source)
            if found is None:
                found = ArrayOfTensors(self.dtype, len(self.items), self.element_shape, adds=True)
                found._shapes = self._shapes
                self._gradients[source] = found
        return found

    def write(self, place: int, item: Any) -> None:
        """Sets or adds to an element.

        Raises:
            InvalidArgumentError: The index is out of bounds or already written, or the dtype
        differs.
        """
        if item.dtype != self.dtype:
            raise InvalidArgumentError(
                message=f"TensorArray dtype is {np.dtype(self.dtype).name} but Op is trying to "
                f"write dtype {item.dtype.name}"
            )
        if not shapes.is_compatible(tuple(item.shape), self.element_shape):
            raise InvalidArgumentError(
                message=f"Could not write to TensorArray index {place} because the value shape is "
                f"{list(item.shape)} which is incompatible with the TensorArray's inferred element "
                f"shape: {shapes.text(self.element_shape)} (consider setting infer_shape=False)."
            )
        if self._dynamic and place >= len(self.items):
            self.items += [None] * (place + 1 - len(self.items))
        if not 0 <= place < len(self.items):
            raise InvalidArgumentError(
                message=f"Tried to write to index {place} but array is not resizeable and size "
                f"is: {len(self.items)}"
            )
        before = self.items[place]
        if before is not None and not self._adds:
            raise InvalidArgumentError(
                message=f"Could not write to TensorArray index {place} because it has already "
                "been written to."
            )
        self.items[place] = item if before is None else before + item
        self._shapes[place] = tuple(item.shape)

    def read(self, xp: Any, place: int) -> Any:
        """An element; zeros if it was not written and the shape is known.

        Raises:
            InvalidArgumentError: The index is out of bounds, or the element was cleared by a read.
        """
        if not 0 <= place < len(self.items):
            raise InvalidArgumentError(
                message=f"Tried to read from index {place} but array size is: {len(self.items)}"
            )
        if place in self._cleared:
            raise InvalidArgumentError(
                message=f"Could not read index {place} twice because it was cleared after a "
                "previous read (perhaps try setting clear_after_read = false?)"
            )
        item = self.items[place]
        if item is None:
            shape: Shape = self._shapes.get(place, self.element_shape)
            if not shapes.is_fully_defined(shape):
                raise unwritten(place, shape)
            item = xp.zeros(shape, self.dtype)
        if self._clear_after_read:
            self._cleared.add(place)
            self.items[place] = None
        return item

    def empty(self, xp: Any, element_shape: Shape) -> Any:
        """A tensor of no elements.

        Raises:
            UnimplementedError: The shape of the elements is not known.
        """
        shape = self.element_shape if element_shape is None else element_shape
        if not shapes.is_fully_defined(shape):
            raise UnimplementedError(
                message=f"TensorArray has size zero, but element shape {shapes.text(shape)} is not "
                "fully defined. Currently only static shapes are supported when packing zero-size "
                "TensorArrays."
            )
        return xp.empty((0, *(shape or ())), self.dtype)


class _ArrayOp(Op):
    stateful = True
    kernels = {"CPU": None, "GPU": None}
    gradient = not_differentiable
    infer = scalars


class _ElementsOp(_ArrayOp):
    """Any later op in the flow may return written values."""

    ends_with_step = True


_FLOW_OUT = np.float32(0)


@register
class TensorArrayV3(_ElementsOp):
    """A new array."""

    inputs = "size: int32"
    outputs = "handle: resource, flow: float"
    attrs = {
        "dtype": type_attr(),
        "element_shape": shape_attr(None),
        "dynamic_size": bool_attr(False),
        "clear_after_read": bool_attr(True),
        "identical_element_shapes": bool_attr(False),
        "tensor_array_name": string_attr(""),
    }

    def compute(
        self,
        xp: Any,
        size: Any,
        *,
        dtype: dtypes.DType,
        element_shape: Shape,
        dynamic_size: bool,
        clear_after_read: bool,
    ) -> Any:
        """Nothing is written yet."""
        if int(size) < 0:
            raise InvalidArgumentError(message=f"Size should be >= 0, got {size}")
        made = ArrayOfTensors(
            dtype.as_numpy_dtype, int(size), element_shape, dynamic_size, clear_after_read
        )
        return made, _FLOW_OUT


@register
class TensorArrayGradV3(_ElementsOp):
    """The array of gradients."""

    inputs = _FLOW
    outputs = "grad_handle: resource, flow_out: float"
    aliases = frozenset({"flow_in"})
    attrs = {"source": string_attr()}

    def compute(self, xp: Any, array: ArrayOfTensors, flow: Any, *, source: str) -> Any:
        """Created at first use in a step."""
        return array.gradient(source), _FLOW_OUT


@register
class TensorArrayWriteV3(_ElementsOp):
    """Sets an element."""

    inputs = "handle: resource, index: int32, value: T, flow_in: float"
    outputs = "flow_out: float"
    aliases = frozenset({"value", "flow_in"})
    attrs = {"T": type_attr()}

    def compute(self, xp: Any, array: ArrayOfTensors, index: Any, value: Any, flow: Any) -> Any:
        """Keeps the value without copying: kernels do not change their inputs."""
        array.write(int(index), value)
        return _FLOW_OUT


@register
class TensorArrayReadV3(_ElementsOp):
    """One element."""

    inputs = "handle: resource, index: int32, flow_in: float"
    outputs = "value: dtype"
    aliases = frozenset({"flow_in"})
    attrs = {"dtype": type_attr()}
    infer = unknown

    def compute(self, xp: Any, array: ArrayOfTensors, index: Any, flow: Any) -> Any:
        """Looks it up."""
        return array.read(xp, int(index))


@register
class TensorArraySizeV3(_ElementsOp):
    """The number of elements."""

    inputs = _FLOW
    outputs = "size: int32"

    def compute(self, xp: Any, array: ArrayOfTensors, flow: Any) -> Any:
        """The length."""
        return np.int32(len(array.items))


@register
class TensorArrayGatherV3(_ElementsOp):
    """Some elements as one tensor with a new first dimension."""

    inputs = "handle: resource, indices: int32, flow_in: float"
    outputs = "value: dtype"
    attrs = {"dtype": type_attr(), "element_shape": shape_attr(None)}

    def infer(self, node: Inference) -> Sequence[Shape]:
        """The number of indices before the shape of the elements."""
        shape, indices = node.attrs["element_shape"], node.shapes[1]
        return [None if shape is None else (None if indices is None else indices[0], *shape)]

    def compute(
        self, xp: Any, array: ArrayOfTensors, indices: Any, flow: Any, *, element_shape: Shape
    ) -> Any:
        """Stacks the selected elements."""
        items = [array.read(xp, place) for place in np.asarray(indices).tolist()]
        if not items:
            return array.empty(xp, element_shape)
        for place, item in enumerate(items):
            if item.shape != items[0].shape:
                raise InvalidArgumentError(
                    message="TensorArray has inconsistent shapes. Index 0 has shape: "
                    f"{list(items[0].shape)} but index {place} has shape: {list(item.shape)}"
                )
        return xp.stack(items)


@register
class TensorArrayScatterV3(_ElementsOp):
    """Sets elements to the rows of a tensor."""

    inputs = "handle: resource, indices: int32, value: T, flow_in: float"
    outputs = "flow_out: float"
    aliases = frozenset({"value", "flow_in"})
    attrs = {"T": type_attr()}

    def compute(self, xp: Any, array: ArrayOfTensors, indices: Any, value: Any, flow: Any) -> Any:
        """Row after row."""
        places = np.asarray(indices).tolist()
        if value.ndim == 0 or len(value) != len(places):
            raise InvalidArgumentError(
                message=f"Expected len(indices) == values.shape[0], but saw: {len(places)} vs. "
                f"{list(value.shape)}"
            )
        for place, row in zip(places, value, strict=True):
            array.write(place, xp.asarray(row))
        return _FLOW_OUT


@register
class TensorArrayConcatV3(_ElementsOp):
    """All elements concatenated along their first dimension, and their lengths."""

    inputs = _FLOW
    outputs = "value: dtype, lengths: int64"
    attrs = {"dtype": type_attr(), "element_shape_except0": shape_attr(None)}

    def infer(self, node: Inference) -> Sequence[Shape]:
        """The first dimension is not known."""
        rest = node.attrs["element_shape_except0"]
        return [None if rest is None else (None, *rest), (None,)]

    def compute(
        self, xp: Any, array: ArrayOfTensors, flow: Any, *, element_shape_except0: Shape
    ) -> Any:
        """Joins."""
        items = [array.read(xp, place) for place in range(len(array.items))]
        lengths = xp.asarray([item.shape[0] if item.ndim else 0 for item in items], np.int64)
        if not items:
            return array.empty(xp, element_shape_except0), lengths
        check_joinable(items)
        return xp.concatenate(items), lengths


@register
class TensorArraySplitV3(_ElementsOp):
    """Sets the elements to pieces of a tensor along its first dimension."""

    inputs = "handle: resource, value: T, lengths: int64, flow_in: float"
    outputs = "flow_out: float"
    aliases = frozenset({"value", "flow_in"})
    attrs = {"T": type_attr()}

    def compute(self, xp: Any, array: ArrayOfTensors, value: Any, lengths: Any, flow: Any) -> Any:
        """Cuts."""
        sizes = np.asarray(lengths).tolist()
        if value.ndim == 0 or sum(sizes) != len(value):
            raise InvalidArgumentError(
                message="Expected sum of lengths to be equal to values.shape[0], but sum of "
                f"lengths is {sum(sizes)} and value's shape is: {list(value.shape)}"
            )
        start = 0
        for place, size in enumerate(sizes):
            array.write(place, value[start : start + size])
            start += size
        return _FLOW_OUT


@register
class TensorArrayCloseV3(_ElementsOp):
    """Clears the elements."""

    inputs = "handle: resource"

    def compute(self, xp: Any, array: ArrayOfTensors) -> None:
        """Later ops find nothing written."""
        array.items = [None] * len(array.items)


@register
class StackV2(_ArrayOp):
    """A new stack."""

    inputs = "max_size: int32"
    outputs = "handle: resource"
    attrs = {"elem_type": type_attr(), "stack_name": string_attr("")}

    def compute(self, xp: Any, max_size: Any) -> list[Any]:
        """Nothing is on it."""
        return []


@register
class StackPushV2(_ArrayOp):
    """Pushes a tensor onto a stack, and returns it."""

    inputs = "handle: resource, elem: T"
    outputs = "output: T"
    aliases = frozenset({"elem"})
    attrs = {"T": type_attr(), "swap_memory": bool_attr(False)}
    infer = same_as(1)

    def compute(self, xp: Any, stack: list[Any], elem: Any) -> Any:
        """Keeps the tensor without copying: kernels do not change their inputs."""
        stack.append(elem)
        return elem


@register
class StackPopV2(_ArrayOp):
    """Pops the last tensor from a stack."""

    inputs = "handle: resource"
    outputs = "elem: elem_type"
    attrs = {"elem_type": type_attr()}
    infer = unknown

    def compute(self, xp: Any, stack: list[Any]) -> Any:
        """Fails if the stack is empty."""
        if not stack:
            raise InvalidArgumentError(message="Stack is empty when calling Pop()")
        return stack.pop()


@register
class StackCloseV2(_ArrayOp):
    """Closes a stack."""

    inputs = "handle: resource"

    def compute(self, xp: Any, stack: list[Any]) -> None:
        """Empties it."""
        stack.clear()

"""`tf.TensorArray`: a list of tensors that loops read and write by index."""

from __future__ import annotations

from typing import Any

from sparkflow._api import export
from sparkflow.graph.constant_value import constant_value
from sparkflow.graph.operators import Symbolic
from sparkflow.graph.scopes import (
    apply_op,
    convert_to_tensor,
    get_default_graph,
    name_scope,
    output_of,
)
from sparkflow.graph.shapes.tensor_shape import TensorShape, to_shape
from sparkflow.graph.tensor import Tensor
from sparkflow_runtime import shapes
from sparkflow_runtime.dtypes import DType, as_dtype, int32, int64
from sparkflow_runtime.shapes import Shape


@export("TensorArray")
class TensorArray:
    """Tensors of one dtype by index, each written once.

    Writing gives a new `TensorArray`, which must be used from then on: hand it from one iteration
    of a loop to the next. Gradients flow through all methods.

    Args:
        dtype: The dtype of the elements.
        size: How many there are, an int32 scalar; needed unless `flow` is given.
        dynamic_size: Let writing past the end make it longer.
        clear_after_read: Accepted for TensorFlow's sake: elements can always be read again.
        tensor_array_name: Accepted for TensorFlow's sake.
        handle: The same as `flow`.
        flow: The value of another array, to go on with it.
        infer_shape: Require all elements to have one shape, which writing makes known.
        element_shape: The static shape of the elements.
        colocate_with_first_write_call: Accepted for TensorFlow's sake.
        name: Name of the scope.

    Raises:
        ValueError: Not exactly one of `size` and `flow` is given.
    """

    def __init__(
        self,
        dtype: Any,
        size: Any = None,
        dynamic_size: bool | None = None,
        clear_after_read: bool | None = None,
        tensor_array_name: str | None = None,
        handle: Any = None,
        flow: Any = None,
        infer_shape: bool = True,
        element_shape: Any = None,
        colocate_with_first_write_call: bool = True,
        name: str | None = None,
    ) -> None:
        given = flow if handle is None else handle
        if given is not None and size is not None:
            raise ValueError("Cannot provide both a handle and size at the same time")
        if given is None and size is None:
            raise ValueError("Size must be provided if handle is not provided")
        self._dtype = as_dtype(dtype).base
        self._dynamic_size = bool(dynamic_size)
        self._infer_shape = infer_shape
        # Shared by all that comes of this array: what one of them learns, all know.
        self._known: list[Shape] = [to_shape(element_shape)]
        self._size: Tensor | None = None
        self._is_new = given is None
        if given is not None:
            self._flow: Tensor = given
            return
        graph = get_default_graph()
        with graph.name_scope(name or "TensorArray"):
            count = self._size = convert_to_tensor(size, int32, name="size")
            self._flow = graph.apply(
                "TensorListReserve",
                (self._shape_vector(), count),
                {"element_dtype": self._dtype},
                "TensorArrayV3",
            )

    def _shape_vector(self) -> Any:
        shape = self._known[0]
        if shape is None:
            return convert_to_tensor(-1, int32)
        sizes = [-1 if size is None else size for size in shape]
        return convert_to_tensor(sizes, int32) if sizes else convert_to_tensor([], int32)

    def _with_flow(self, flow: Tensor) -> TensorArray:
        other = TensorArray.__new__(TensorArray)
        other._dtype = self._dtype
        other._dynamic_size = self._dynamic_size
        other._infer_shape = self._infer_shape
        other._known = self._known
        other._size = self._size
        other._is_new = False
        other._flow = flow
        return other

    def _learn(self, shape: Shape) -> None:
        """Takes note of the shape of an element.

        Raises:
            ValueError: It is not the shape that elements have.
        """
        if not shapes.is_compatible(self._known[0], shape):
            raise ValueError(
                f"Inconsistent shapes: saw {shapes.text(shape)} but expected "
                f"{shapes.text(self._known[0])}"
            )
        if self._infer_shape:
            self._known[0] = shapes.merge(self._known[0], shape)

    # ------------------------------------------------------------------ what it is

    @property
    def dtype(self) -> DType:
        """The dtype of the elements."""
        return self._dtype

    @property
    def element_shape(self) -> TensorShape:
        """The static shape of the elements."""
        return TensorShape(self._known[0])

    @property
    def dynamic_size(self) -> bool:
        """Whether it grows."""
        return self._dynamic_size

    @property
    def flow(self) -> Tensor:
        """The tensor that is its value."""
        return self._flow

    @property
    def handle(self) -> Tensor:
        """The same as `flow`."""
        return self._flow

    def identity(self) -> TensorArray:
        """The same array as a new tensor, which control dependencies apply to."""
        return self._with_flow(apply_op("Identity", self._flow))

    def grad(self, source: str, flow: Tensor | None = None, name: str | None = None) -> TensorArray:
        """Gradients need no array of their own here: `tf.gradients` follows the flow.

        Raises:
            NotImplementedError: Always.
        """
        raise NotImplementedError(
            "TensorArray.grad is not needed: tf.gradients goes through TensorArrays by itself"
        )

    # ------------------------------------------------------------------ elements

    def read(self, index: Any, name: str | None = None) -> Tensor:
        """The element at `index`, an int32 scalar."""
        return output_of(
            "TensorListGetItem",
            self._flow,
            index,
            self._shape_vector(),
            element_dtype=self._dtype,
            name=name or "TensorArrayReadV3",
        )

    def write(self, index: Any, value: Any, name: str | None = None) -> TensorArray:
        """An array with `value` at `index`.

        Raises:
            ValueError: The shape is not that of the other elements.
            InvalidArgumentError: When it runs: the index is out of range or was written before.
        """
        tensor = convert_to_tensor(value, None if isinstance(value, Symbolic) else self._dtype)
        self._learn(tensor._shape)
        flow = apply_op(
            "TensorListSetItem",
            self._flow,
            index,
            tensor,
            element_dtype=tensor.dtype.base,
            resize_if_index_out_of_bounds=self._dynamic_size,
            _write_once=True,
            name=name or "TensorArrayWriteV3",
        )
        return self._with_flow(flow)

    def _converted(self, value: Any) -> Tensor:
        tensor = convert_to_tensor(value, None if isinstance(value, Symbolic) else self._dtype)
        if tensor.dtype.base is not self._dtype:
            raise TypeError(
                f"TensorArray dtype is {self._dtype.name} but Op is trying to write dtype "
                f"{tensor.dtype.base.name}"
            )
        return tensor

    def stack(self, name: str | None = None) -> Tensor:
        """All elements: [size, ...]."""
        value = None if self._size is None else constant_value(self._size)
        known = -1 if value is None or self._dynamic_size else int(value)
        with name_scope(name, "TensorArrayStack", [self._flow]):
            tensor: Tensor = apply_op(
                "TensorListStack",
                self._flow,
                self._shape_vector(),
                element_dtype=self._dtype,
                num_elements=known,
                name=name or "TensorArrayGatherV3",
            )
        if self._infer_shape and self._known[0] is not None:
            tensor.set_shape(TensorShape([None, *self._known[0]]))
        return tensor

    def pack(self, name: str | None = None) -> Tensor:
        """Old name of `stack`."""
        return self.stack(name)

    def gather(self, indices: Any, name: str | None = None) -> Tensor:
        """The elements at `indices`: [len(indices), ...]."""
        return output_of(
            "TensorListGather",
            self._flow,
            indices,
            self._shape_vector(),
            element_dtype=self._dtype,
            name=name or "TensorArrayGatherV3",
        )

    def concat(self, name: str | None = None) -> Tensor:
        """All elements joined along their first dimension; zeros for those never written."""
        tensor, _ = apply_op(
            "TensorListConcatV2",
            self._flow,
            self._shape_vector(),
            convert_to_tensor([], int64),
            element_dtype=self._dtype,
            name=name or "TensorArrayConcatV3",
        )
        known = self._known[0]
        if known:
            tensor.set_shape(TensorShape([None, *known[1:]]))
        result: Tensor = tensor
        return result

    def unstack(self, value: Any, name: str | None = None) -> TensorArray:
        """An array whose first elements are the rows of `value`: [rows, ...].

        Raises:
            InvalidArgumentError: When it runs: there are more rows than elements and
                `dynamic_size` is not set, or one of the elements was written before.
        """
        tensor = self._converted(value)
        if not self._is_new:
            count = apply_op("Shape", tensor, out_type=int32)[0]
            return self.scatter(apply_op("Range", 0, count, 1), tensor, name)
        if tensor._shape is not None:
            self._learn(tensor._shape[1:])
        flow = apply_op(
            "TensorListFromTensor",
            tensor,
            self._shape_vector(),
            element_dtype=self._dtype,
            name=name or "TensorArrayUnstack",
        )
        return self._with_flow(self._sized(flow, tensor._shape[0] if tensor._shape else None))

    def _sized(self, flow: Tensor, rows: int | None, of_lengths: bool = False) -> Tensor:
        """A list with as many elements as this new array; no node if it is known to have them.

        Args:
            flow: The list.
            rows: Its static length.
            of_lengths: The elements that are missing are an error, not unset ones.
        """
        assert self._size is not None
        size, known = self._size, constant_value(self._size)
        if known is not None and (rows == known or (self._dynamic_size and not known)):
            return flow
        if self._dynamic_size:
            size = apply_op("Maximum", size, apply_op("TensorListLength", flow))
        result: Tensor = apply_op(
            "TensorListResize",
            flow,
            size,
            _keeps_all=not self._dynamic_size,
            _keeps_size=of_lengths,
        )
        return result

    def unpack(self, value: Any, name: str | None = None) -> TensorArray:
        """Old name of `unstack`."""
        return self.unstack(value, name)

    def scatter(self, indices: Any, value: Any, name: str | None = None) -> TensorArray:
        """An array with the rows of `value` at `indices`.

        Raises:
            InvalidArgumentError: When it runs: an index is out of range and `dynamic_size` is not
                set, or was written before.
        """
        tensor = self._converted(value)
        if tensor._shape is not None:
            self._learn(tensor._shape[1:])
        flow = apply_op(
            "TensorListScatterIntoExistingList",
            self._flow,
            tensor,
            indices,
            element_dtype=self._dtype,
            _write_once=True,
            _keeps_size=not self._dynamic_size,
            name=name or "TensorArrayScatterV3",
        )
        return self._with_flow(flow)

    def split(self, value: Any, lengths: Any, name: str | None = None) -> TensorArray:
        """An array of pieces of `value` along its first dimension, of these lengths.

        Raises:
            InvalidArgumentError: When it runs: there are not as many lengths as elements and
                `dynamic_size` is not set.
        """
        tensor = self._converted(value)
        sizes = convert_to_tensor(lengths, None if isinstance(lengths, Symbolic) else int64)
        known = constant_value(sizes)
        if tensor._shape and known is not None and known.size and known.min() == known.max():
            self._learn((int(known.flat[0]), *tensor._shape[1:]))
        flow = apply_op(
            "TensorListSplit",
            tensor,
            convert_to_tensor(-1, int32),
            sizes if sizes.dtype.base is int64 else apply_op("Cast", sizes, DstT=int64),
            element_dtype=self._dtype,
            name=name or "TensorArraySplitV3",
        )
        if self._is_new:
            rows = sizes._shape[0] if sizes._shape else None
            flow = self._sized(flow, rows, not self._dynamic_size)
        return self._with_flow(flow)

    def size(self, name: str | None = None) -> Tensor:
        """How many elements it has, int32."""
        return output_of("TensorListLength", self._flow, name=name or "TensorArraySizeV3")

    def close(self, name: str | None = None) -> Any:
        """Nothing: an array is a value, and freed when nobody needs it."""
        return apply_op("NoOp", name=name)

"""`tf.TensorSpec` and its like: what a value that is to come is like."""

from __future__ import annotations

from typing import Any

from sparkflow._api import export
from sparkflow.graph.scopes import convert_to_tensor
from sparkflow.graph.shapes.tensor_shape import TensorShape
from sparkflow.graph.tensor import Tensor
from sparkflow.graph.values.indexed_slices import IndexedSlices
from sparkflow.graph.values.sparse_tensor import SparseTensor
from sparkflow_runtime.dtypes import DType, as_dtype, float32, int64


@export("TypeSpec")
class TypeSpec:
    """Description of a value: shape, dtype, and further properties of its kind."""

    _shape: TensorShape
    _dtype: DType

    @property
    def value_type(self) -> Any:
        """The class of the values."""
        raise NotImplementedError(type(self).__name__)

    @property
    def shape(self) -> TensorShape:
        """The shape."""
        return self._shape

    @property
    def dtype(self) -> DType:
        """The dtype."""
        return self._dtype

    def is_compatible_with(self, spec_or_value: Any) -> bool:
        """Whether a value, or another description of the kind, fits this one."""
        other = spec_or_value
        if not isinstance(other, TypeSpec):
            other = type_spec_from_value(other)
        return (
            type(other) is type(self)
            and self._dtype.is_compatible_with(other.dtype)
            and self._shape.is_compatible_with(other.shape)
        )

    def is_subtype_of(self, other: Any) -> bool:
        """Whether all values of this kind are of the other too."""
        return (
            type(other) is type(self)
            and self._dtype is other.dtype
            and self._shape.is_subtype_of(other.shape)
        )

    def most_specific_common_supertype(self, others: Any) -> Any:
        """The narrowest description that fits these and the others, None where there is none."""
        shape: Any = self._shape
        for other in others:
            if type(other) is not type(self) or other.dtype is not self._dtype:
                return None
            shape = shape.most_specific_compatible_shape(other.shape)
        return self._with_shape(shape)

    def most_specific_compatible_type(self, other: Any) -> Any:
        """The narrowest description that fits both.

        Raises:
            ValueError: There is none.
        """
        found = self.most_specific_common_supertype([other])
        if found is None:
            raise ValueError(f"No TypeSpec is compatible with both {self} and {other}")
        return found

    def _with_shape(self, shape: TensorShape) -> Any:
        """The same of another shape."""
        return type(self)(shape, self._dtype)  # type: ignore[call-arg]  # that of those here

    def _key(self) -> tuple[Any, ...]:
        return str(self._shape), self._dtype

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return NotImplemented
        return self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._shape!r}, {self._dtype!r})"


@export("TensorSpec")
class TensorSpec(TypeSpec):
    """Shape, dtype and name of a tensor.

    Args:
        shape: The shape, as for `TensorShape`.
        dtype: The dtype.
        name: A name, None for none.
    """

    __slots__ = ("_dtype", "_name", "_shape")

    def __init__(self, shape: Any, dtype: Any = float32, name: str | None = None) -> None:
        self._shape = TensorShape(shape)
        self._dtype = as_dtype(dtype)
        self._name = name

    @classmethod
    def from_spec(cls, spec: Any, name: str | None = None) -> TensorSpec:
        """A copy with another name."""
        return cls(spec.shape, spec.dtype, name or getattr(spec, "name", None))

    @classmethod
    def from_tensor(cls, tensor: Any, name: str | None = None) -> TensorSpec:
        """What describes a tensor."""
        tensor = convert_to_tensor(tensor)
        return cls(tensor.shape, tensor.dtype, name or tensor.op.name)

    @property
    def name(self) -> str | None:
        """The name."""
        return self._name

    @property
    def value_type(self) -> Any:
        """`tf.Tensor`."""
        return Tensor

    def is_compatible_with(self, spec_or_tensor: Any) -> bool:
        """Whether a tensor, or another description, has this dtype and can have this shape."""
        return self._dtype.is_compatible_with(spec_or_tensor.dtype) and (
            self._shape.is_compatible_with(spec_or_tensor.shape)
        )

    def _with_shape(self, shape: TensorShape) -> TensorSpec:
        return TensorSpec(shape, self._dtype, self._name)

    def _key(self) -> tuple[Any, ...]:
        return str(self._shape), self._dtype, self._name

    def __repr__(self) -> str:
        return f"TensorSpec(shape={self._shape}, dtype=tf.{self._dtype.name}, name={self._name!r})"


@export("SparseTensorSpec")
class SparseTensorSpec(TypeSpec):
    """Shape and dtype of a sparse tensor.

    Args:
        shape: That of the whole, as for `TensorShape`; None where it is not known.
        dtype: That of the values.
    """

    def __init__(self, shape: Any = None, dtype: Any = float32) -> None:
        self._shape = TensorShape(shape)
        self._dtype = as_dtype(dtype)

    @classmethod
    def from_value(cls, value: Any) -> SparseTensorSpec:
        """What describes a sparse tensor."""
        return cls(value.shape, value.dtype)

    @property
    def value_type(self) -> Any:
        """`tf.SparseTensor`."""
        return SparseTensor


@export("IndexedSlicesSpec")
class IndexedSlicesSpec(TypeSpec):
    """Shape, dtypes and number of rows of `IndexedSlices`.

    Args:
        shape: That of the whole, as for `TensorShape`; None where it is not known.
        dtype: That of the values.
        indices_dtype: That of the indices.
        dense_shape_dtype: That of `dense_shape`, None where the slices have none.
        indices_shape: The shape of the indices; None where it is not known.
    """

    def __init__(
        self,
        shape: Any = None,
        dtype: Any = float32,
        indices_dtype: Any = int64,
        dense_shape_dtype: Any = None,
        indices_shape: Any = None,
    ) -> None:
        self._shape = TensorShape(shape)
        self._dtype = as_dtype(dtype)
        self._indices_dtype = as_dtype(indices_dtype)
        self._dense_shape_dtype = None if dense_shape_dtype is None else as_dtype(dense_shape_dtype)
        self._indices_shape = TensorShape(indices_shape).with_rank(1)

    @property
    def value_type(self) -> Any:
        """`tf.IndexedSlices`."""
        return IndexedSlices

    def _with_shape(self, shape: TensorShape) -> IndexedSlicesSpec:
        return IndexedSlicesSpec(shape, *self._rest())

    def _rest(self) -> tuple[Any, ...]:
        return self._dtype, self._indices_dtype, self._dense_shape_dtype, self._indices_shape

    def _key(self) -> tuple[Any, ...]:
        return (str(self._shape), *self._rest()[:3], str(self._indices_shape))

    def __repr__(self) -> str:
        parts = ", ".join(repr(each) for each in (self._shape, *self._rest()))
        return f"IndexedSlicesSpec({parts})"


@export("type_spec_from_value")
def type_spec_from_value(value: Any) -> Any:
    """What describes a tensor, a sparse tensor, slices, or a value that can become a tensor."""
    if isinstance(value, SparseTensor):
        return SparseTensorSpec.from_value(value)
    if isinstance(value, IndexedSlices):
        return IndexedSlicesSpec(
            value.shape,
            value.dtype,
            value.indices.dtype,
            None if value.dense_shape is None else value.dense_shape.dtype,
            value.indices.shape,
        )
    described = getattr(value, "_type_spec", None)
    return TensorSpec.from_tensor(value) if described is None else described

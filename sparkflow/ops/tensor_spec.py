"""`tf.TensorSpec`: dtype and shape of a tensor that is to come."""

from __future__ import annotations

from typing import Any

from sparkflow.graph.scopes import convert_to_tensor
from sparkflow.graph.tensor_shape import TensorShape
from sparkflow_runtime.dtypes import DType, as_dtype, float32


class TypeSpec:
    """What a value is like."""


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
        return cls(spec.shape, spec.dtype, name or spec.name)

    @classmethod
    def from_tensor(cls, tensor: Any, name: str | None = None) -> TensorSpec:
        """What describes a tensor."""
        tensor = convert_to_tensor(tensor)
        return cls(tensor.shape, tensor.dtype, name or tensor.op.name)

    @property
    def shape(self) -> TensorShape:
        """The shape."""
        return self._shape

    @property
    def dtype(self) -> DType:
        """The dtype."""
        return self._dtype

    @property
    def name(self) -> str | None:
        """The name."""
        return self._name

    def is_compatible_with(self, spec_or_tensor: Any) -> bool:
        """Whether a tensor, or another description, has this dtype and can have this shape."""
        return self._dtype.is_compatible_with(spec_or_tensor.dtype) and (
            self._shape.is_compatible_with(spec_or_tensor.shape)
        )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, TensorSpec):
            return NotImplemented
        return self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def _key(self) -> tuple[Any, ...]:
        return str(self._shape), self._dtype, self._name

    def __repr__(self) -> str:
        return f"TensorSpec(shape={self._shape}, dtype=tf.{self._dtype.name}, name={self._name!r})"


def type_spec_from_value(value: Any) -> TensorSpec:
    """What describes a tensor, or a value that can become one."""
    return TensorSpec.from_tensor(value)

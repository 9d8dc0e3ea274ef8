"""`tf.RaggedTensorSpec`: what a ragged tensor is like."""

from __future__ import annotations

from typing import Any, ClassVar

from sparkflow._api import export
from sparkflow.graph.shapes.tensor_shape import TensorShape
from sparkflow.ops.tensor_spec import TypeSpec
from sparkflow_runtime.dtypes import DType, as_dtype, float32, int64


@export("RaggedTensorSpec")
class RaggedTensorSpec(TypeSpec):
    """Shape, dtypes and ragged rank of a ragged tensor.

    Args:
        shape: As for `TensorShape`, None where rows differ.
        dtype: That of the values.
        ragged_rank: How many dimensions may have rows of different lengths; all but the first of
            `shape` when None.
        row_splits_dtype: int32 or int64.
        flat_values_spec: Accepted.

    Raises:
        ValueError: The ragged rank is not below the rank.
    """

    _described: ClassVar[type]
    """The class of the values, which says so itself: it is made of what is described here."""

    def __init__(
        self,
        shape: Any = None,
        dtype: Any = float32,
        ragged_rank: int | None = None,
        row_splits_dtype: Any = int64,
        flat_values_spec: Any = None,
    ) -> None:
        self._shape = TensorShape(shape)
        self._dtype = as_dtype(dtype)
        self._row_splits_dtype = as_dtype(row_splits_dtype)
        self.flat_values_spec = flat_values_spec
        rank = self._shape.ndims
        if ragged_rank is None:
            if rank is None:
                raise ValueError("Must specify ragged_rank or a shape with a known rank.")
            ragged_rank = rank - 1
        if rank is not None and ragged_rank >= rank:
            raise ValueError(
                f"Argument `ragged_rank` ({ragged_rank}) must be less than rank ({rank})."
            )
        self._ragged_rank = ragged_rank

    @classmethod
    def from_value(cls, value: Any) -> RaggedTensorSpec:
        """What describes a ragged tensor."""
        spec: RaggedTensorSpec = value._type_spec
        return spec

    @property
    def ragged_rank(self) -> int:
        """How many dimensions may have rows of different lengths."""
        return self._ragged_rank

    @property
    def row_splits_dtype(self) -> DType:
        """The dtype of the splits."""
        return self._row_splits_dtype

    @property
    def value_type(self) -> Any:
        """`tf.RaggedTensor`."""
        return self._described

    def is_compatible_with(self, spec_or_value: Any) -> bool:
        """Whether a value, or another description of the kind, fits this one."""
        other = getattr(spec_or_value, "_type_spec", spec_or_value)
        return super().is_compatible_with(other) and self._key()[2:] == other._key()[2:]

    def _with_shape(self, shape: TensorShape) -> RaggedTensorSpec:
        return RaggedTensorSpec(shape, self._dtype, self._ragged_rank, self._row_splits_dtype)

    def _key(self) -> tuple[Any, ...]:
        return str(self._shape), self._dtype, self._ragged_rank, self._row_splits_dtype

    def __repr__(self) -> str:
        return (
            f"RaggedTensorSpec({self._shape!r}, {self._dtype!r}, {self._ragged_rank}, "
            f"{self._row_splits_dtype!r})"
        )

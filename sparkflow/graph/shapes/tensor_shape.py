"""`TensorShape`: a static shape as the graph programmer sees it.

The runtime's plain tuples (`sparkflow_runtime.shapes`) are the storage; this class adds TensorFlow
1's interface. Error texts and printed forms are TensorFlow's.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sparkflow._api import export
from sparkflow.graph.shapes.dimension import Dimension, dimension_value
from sparkflow_runtime import shapes
from sparkflow_runtime.protos import tensor_shape_pb2
from sparkflow_runtime.shapes import Shape


@export("TensorShape")
class TensorShape:
    """A possibly partial shape: `TensorShape([None, 3])`; of unknown rank: `TensorShape(None)`.

    Args:
        dims: A sequence of sizes, a `TensorShape`, a `TensorShapeProto`, one size, or None.
    """

    __slots__ = ("_shape",)

    def __init__(self, dims: Any) -> None:
        self._shape = to_shape(dims)

    @property
    def dims(self) -> list[Dimension] | None:
        """The sizes as `Dimension` objects, None when the rank is unknown."""
        return None if self._shape is None else [Dimension(d) for d in self._shape]

    @property
    def ndims(self) -> int | None:
        """The number of dimensions, None when unknown."""
        return None if self._shape is None else len(self._shape)

    rank = ndims

    def as_tuple(self) -> Shape:
        """The runtime's form: a tuple of sizes and None, or None for unknown rank."""
        return self._shape

    def as_list(self) -> list[int | None]:
        """The sizes, None where unknown.

        Raises:
            ValueError: The rank is unknown.
        """
        if self._shape is None:
            raise ValueError("as_list() is not defined on an unknown TensorShape.")
        return list(self._shape)

    def as_proto(self) -> tensor_shape_pb2.TensorShapeProto:
        """The shape as a message."""
        if self._shape is None:
            return tensor_shape_pb2.TensorShapeProto(unknown_rank=True)
        sizes = [-1 if d is None else d for d in self._shape]
        dim = tensor_shape_pb2.TensorShapeProto.Dim
        return tensor_shape_pb2.TensorShapeProto(dim=[dim(size=size) for size in sizes])

    def num_elements(self) -> int | None:
        """The product of the sizes, None when not fully defined."""
        return shapes.num_elements(self._shape)

    def is_fully_defined(self) -> bool:
        """Whether rank and every size are known."""
        return shapes.is_fully_defined(self._shape)

    def assert_is_fully_defined(self) -> None:
        """Passes when rank and every size are known.

        Raises:
            ValueError: One is not.
        """
        if not self.is_fully_defined():
            raise ValueError(f"Shape {self} is not fully defined")

    def is_compatible_with(self, other: Any) -> bool:
        """Whether one concrete shape could satisfy both."""
        return shapes.is_compatible(self._shape, to_shape(other))

    def assert_is_compatible_with(self, other: Any) -> None:
        """Passes when one concrete shape could satisfy both.

        Raises:
            ValueError: None could.
        """
        if not self.is_compatible_with(other):
            raise ValueError(f"Shapes {self} and {TensorShape(other)} are incompatible")

    def merge_with(self, other: Any) -> TensorShape:
        """The most specific shape compatible with both.

        Raises:
            ValueError: They contradict each other.
        """
        if not self.is_compatible_with(other):
            raise ValueError(f"Shapes {self} and {TensorShape(other)} are not compatible")
        return TensorShape(shapes.merge(self._shape, to_shape(other)))

    def most_specific_compatible_shape(self, other: Any) -> TensorShape:
        """The most specific shape that both are compatible with: sizes that differ are unknown."""
        mine, others = self._shape, to_shape(other)
        if mine is None or others is None or len(mine) != len(others):
            return unknown_shape()
        pairs = zip(mine, others, strict=True)
        return TensorShape([size if size == their else None for size, their in pairs])

    def most_specific_common_supertype(self, others: Any) -> TensorShape:
        """The same for several shapes."""
        found = self
        for other in others:
            found = found.most_specific_compatible_shape(other)
        return found

    def is_subtype_of(self, other: Any) -> bool:
        """Whether every shape that this one allows is allowed by the other."""
        mine, others = self._shape, to_shape(other)
        if others is None:
            return True
        if mine is None or len(mine) != len(others):
            return False
        return all(their in (None, size) for size, their in zip(mine, others, strict=True))

    def concatenate(self, other: Any) -> TensorShape:
        """This shape followed by `other`."""
        return TensorShape(shapes.concatenate(self._shape, to_shape(other)))

    def with_rank(self, rank: int) -> TensorShape:
        """This shape, known to have `rank` dimensions.

        Raises:
            ValueError: It has another number.
        """
        try:
            return self.merge_with(unknown_shape(rank))
        except ValueError:
            raise ValueError(f"Shape {self} must have rank {rank}") from None

    def with_rank_at_least(self, rank: int) -> TensorShape:
        """This shape, checked to have `rank` dimensions or more.

        Raises:
            ValueError: It has fewer.
        """
        if self._shape is not None and len(self._shape) < rank:
            raise ValueError(f"Shape {self} must have rank at least {rank}")
        return self

    def with_rank_at_most(self, rank: int) -> TensorShape:
        """This shape, checked to have at most `rank` dimensions.

        Raises:
            ValueError: It has more.
        """
        if self._shape is not None and len(self._shape) > rank:
            raise ValueError(f"Shape {self} must have rank at most {rank}")
        return self

    def assert_has_rank(self, rank: int) -> None:
        """Passes when the rank is `rank` or unknown.

        Raises:
            ValueError: It is another one.
        """
        if self._shape is not None and len(self._shape) != rank:
            raise ValueError(f"Shape {self} must have rank {rank}")

    def assert_same_rank(self, other: Any) -> None:
        """Passes when both ranks could be the same.

        Raises:
            ValueError: Both are known and differ.
        """
        shape = to_shape(other)
        if self._shape is not None and shape is not None and len(self._shape) != len(shape):
            raise ValueError(f"Shapes {self} and {TensorShape(other)} must have the same rank")

    def __len__(self) -> int:
        if self._shape is None:
            raise ValueError("Cannot take the length of shape with unknown rank.")
        return len(self._shape)

    def __bool__(self) -> bool:
        return self._shape is not None

    def __iter__(self) -> Iterator[Dimension]:
        if self._shape is None:
            raise ValueError("Cannot iterate over a shape with unknown rank.")
        return iter([Dimension(d) for d in self._shape])

    def __getitem__(self, key: Any) -> Any:
        """A `Dimension` for an index, a `TensorShape` for a slice."""
        if self._shape is None:
            if not isinstance(key, slice):
                return Dimension(None)
            start, stop = key.start or 0, key.stop
            if key.step is not None or stop is None or start < 0 or stop < 0:
                return unknown_shape()
            return unknown_shape(max(stop - start, 0))
        part = self._shape[key]
        return TensorShape(part) if isinstance(key, slice) else Dimension(part)

    def __add__(self, other: Any) -> TensorShape:
        return self.concatenate(other)

    def __radd__(self, other: Any) -> TensorShape:
        return TensorShape(other).concatenate(self)

    def __eq__(self, other: object) -> bool:
        try:
            return self._shape == to_shape(other)
        except (TypeError, ValueError):
            return NotImplemented

    def __hash__(self) -> int:
        return hash(self._shape)

    def __str__(self) -> str:
        return shapes.text(self._shape)

    def __repr__(self) -> str:
        return f"TensorShape({self.dims})"


def to_shape(value: Any) -> Shape:
    """The runtime's tuple for anything that describes a shape.

    Raises:
        ValueError: A negative size.
        TypeError: `value` does not describe a shape.
    """
    if value is None:
        return None
    if isinstance(value, TensorShape):
        return value.as_tuple()
    if isinstance(value, tensor_shape_pb2.TensorShapeProto):
        if value.unknown_rank:
            return None
        return tuple(None if dim.size == -1 else int(dim.size) for dim in value.dim)
    if hasattr(value, "__iter__"):
        return tuple(dimension_value(size) for size in value)
    return (dimension_value(value),)


def as_shape(value: Any) -> TensorShape:
    """`value` as a `TensorShape`; the same object when it is one."""
    return value if isinstance(value, TensorShape) else TensorShape(value)


def unknown_shape(ndims: int | None = None) -> TensorShape:
    """A shape with this many unknown sizes; of unknown rank for None."""
    return TensorShape(shapes.unknown(ndims))

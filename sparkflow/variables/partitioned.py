"""`PartitionedVariable`: one large variable in several parts, which may be on several tasks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from sparkflow.graph.graph import Graph
from sparkflow.graph.operators import Operators
from sparkflow.graph.shapes.tensor_shape import TensorShape
from sparkflow.graph.tensor import Tensor
from sparkflow.ops.control import ordering as control
from sparkflow.ops.control.ordering import group
from sparkflow.ops.shape import arrays
from sparkflow.variables.save_slice import SaveSliceInfo
from sparkflow.variables.variable import Variable
from sparkflow_runtime.dtypes import DType


class PartitionedVariable(Operators):
    """A list of variables that together are one; in expressions, their concatenation.

    Args:
        name: The name of the whole.
        shape: Its shape.
        dtype: Its element type.
        variable_list: The parts in order, each with a `SaveSliceInfo` of this name.
        partitions: Into how many parts each axis is cut; more than one for one axis at most.

    Raises:
        TypeError: A list is none.
        ValueError: The parts do not belong together.
    """

    def __init__(
        self,
        name: str,
        shape: Any,
        dtype: Any,
        variable_list: Sequence[Variable],
        partitions: Sequence[int],
    ) -> None:
        for given, what in ((variable_list, "variable_list"), (partitions, "partitions")):
            if not isinstance(given, list | tuple):
                raise TypeError(f"{what} is not a list or tuple: {given}")
        if not all(partition >= 1 for partition in partitions):
            raise ValueError(f"partition values must be positive: {partitions}")
        if not variable_list:
            raise ValueError("variable_list may not be empty")
        for variable in variable_list:
            part = variable._get_save_slice_info()
            if part is None or not str(part.full_name).startswith(name):
                raise ValueError(
                    f"All variables must have a save_slice_info of the variable {name!r}; "
                    f"{variable.name} has {None if part is None else part.full_name!r}"
                )
        self._name = name
        self._shape = TensorShape(shape)
        self._dtype = dtype
        self._variable_list = sorted(variable_list, key=_offset)
        self._partitions = list(partitions)

    def __iter__(self) -> Iterator[Variable]:
        return iter(self._variable_list)

    def __len__(self) -> int:
        return len(self._variable_list)

    # Parts are compared by identity, as variables are.
    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:
        return id(self)

    @property
    def name(self) -> str:
        """The name of the whole."""
        return self._name

    @property
    def dtype(self) -> DType:
        """The element type."""
        kind: DType = self._dtype
        return kind

    @property
    def shape(self) -> TensorShape:
        """The shape of the whole."""
        return self._shape

    @property
    def graph(self) -> Graph:
        """The graph of the parts."""
        return self._variable_list[0].graph

    @property
    def initializer(self) -> Any:
        """An operation that initialises every part."""
        return group(*[variable.initializer for variable in self._variable_list])

    def get_shape(self) -> TensorShape:
        """The same as `shape`."""
        return self._shape

    def as_tensor(self) -> Tensor:
        """A new node with the value of the whole."""
        graph = self.graph
        with graph.init_scope(), graph.name_scope(None):
            if len(self._variable_list) == 1:
                whole = self._variable_list[0].value()
            else:
                with graph.name_scope(f"{self._name}/ConcatPartitions/"):
                    parts = [variable.value() for variable in self._variable_list]
                    whole = arrays.concat(parts, self._partition_axis())
            result: Tensor = control.identity(whole, name=self._name)
        return result

    def _to_tensor(self, as_ref: bool = False) -> Tensor:
        return self.as_tensor()

    def _get_variable_list(self) -> list[Variable]:
        return self._variable_list

    def _get_partitions(self) -> list[int]:
        return self._partitions

    def _partition_axes(self) -> list[int]:
        return [self._partition_axis()]

    def _partition_axis(self) -> int:
        return next((axis for axis, count in enumerate(self._partitions) if count > 1), 0)

    def assign(
        self,
        value: Any,
        use_locking: bool = False,
        name: str | None = None,
        read_value: bool = True,
    ) -> list[Any]:
        """Nodes that set each part: from a whole, or from another partitioned variable or list."""
        return self._each(Variable.assign, value, use_locking, name, read_value)

    def assign_add(
        self,
        value: Any,
        use_locking: bool = False,
        name: str | None = None,
        read_value: bool = True,
    ) -> list[Any]:
        """Nodes that add to each part."""
        return self._each(Variable.assign_add, value, use_locking, name, read_value)

    def assign_sub(
        self,
        value: Any,
        use_locking: bool = False,
        name: str | None = None,
        read_value: bool = True,
    ) -> list[Any]:
        """Nodes that subtract from each part."""
        return self._each(Variable.assign_sub, value, use_locking, name, read_value)

    def _each(
        self,
        change: Callable[..., Any],
        value: Any,
        use_locking: bool,
        name: str | None,
        read_value: bool,
    ) -> list[Any]:
        if isinstance(value, list | PartitionedVariable):
            parts = list(value)
            if len(parts) != len(self):
                raise ValueError(
                    f"{self._name} has {len(self)} parts, but {len(parts)} values are given"
                )
        else:
            axis = self._partition_axis()
            sizes = [variable.shape.as_list()[axis] for variable in self._variable_list]
            parts = arrays.split(value, sizes, axis) if len(sizes) > 1 else [value]
        return [
            change(variable, part, use_locking, None if name is None else f"{name}_{i}", read_value)
            for i, (variable, part) in enumerate(zip(self._variable_list, parts, strict=True))
        ]

    def __repr__(self) -> str:
        return (
            f"<tf.PartitionedVariable '{self._name}' shape={self._shape} "
            f"dtype={self._dtype.name} partitions={len(self)}>"
        )


def _offset(variable: Variable) -> list[int]:
    part = variable._get_save_slice_info()
    assert part is not None
    return list(part.var_offset or ())


class PartitionInfo:
    """The part of a variable that an initializer is called for.

    Attributes:
        full_shape: The shape of the whole.
        var_offset: Where the part begins, per axis.
    """

    def __init__(self, full_shape: Sequence[int], var_offset: Sequence[int]) -> None:
        if len(full_shape) != len(var_offset):
            raise ValueError(
                f"Expected equal lengths, but full_shape is {full_shape} and var_offset is "
                f"{var_offset}"
            )
        self.full_shape = full_shape
        self.var_offset = var_offset

    def single_offset(self, shape: Sequence[int]) -> int:
        """The offset along the one axis that is cut, for a part of this shape."""
        axis = self.single_slice_dim(shape)
        return 0 if axis is None else self.var_offset[axis]

    def single_slice_dim(self, shape: Sequence[int]) -> int | None:
        """The axis that is cut, None when none is.

        Raises:
            ValueError: More than one is, or the part does not fit.
        """
        cut = [
            axis
            for axis, (size, full) in enumerate(zip(shape, self.full_shape, strict=True))
            if size != full
        ]
        if len(cut) > 1:
            raise ValueError(
                f"Cannot use single_slice_dim() with shape {shape} and full_shape "
                f"{self.full_shape} since slice dim could be either dim {cut[0]} or {cut[1]}."
            )
        return cut[0] if cut else None


def parts_of(full_shape: Sequence[int], partitions: Sequence[int]) -> list[tuple[Any, Any]]:
    """(offset, shape) of each part; the first ones are one larger where it does not come out even.

    Raises:
        ValueError: More than one axis is cut.
    """
    cut = [axis for axis, count in enumerate(partitions) if count > 1]
    if len(cut) > 1:
        raise ValueError(
            f"Can only slice a variable along one dimension: shape: {list(full_shape)}, "
            f"partitioning: {list(partitions)}"
        )
    axis = cut[0] if cut else 0
    found = []
    offset = 0
    for rows in np.array_split(np.arange(full_shape[axis]), partitions[axis]):
        start, shape = [0] * len(full_shape), list(full_shape)
        start[axis], shape[axis] = offset, len(rows)
        offset += len(rows)
        found.append((start, shape))
    return found


def called_partitioner(partitioner: Any, shape: TensorShape, dtype: DType) -> list[int]:
    """What a partitioner says, checked.

    Raises:
        ValueError: It cannot be called, or says nothing useful.
    """
    if not callable(partitioner):
        raise ValueError(f"Partitioner must be callable, but received: {partitioner}")
    if not shape.is_fully_defined():
        raise ValueError(
            f"Shape of a new partitioned variable must be fully defined, but instead was {shape}."
        )
    if shape.ndims is None or shape.ndims < 1:
        raise ValueError(f"A partitioned Variable must have rank at least 1, shape: {shape}")
    slicing = partitioner(shape=shape, dtype=dtype)
    if not isinstance(slicing, list | tuple):
        raise ValueError(f"Partitioner must return a sequence, but saw: {slicing}")
    if len(slicing) != shape.ndims:
        raise ValueError(
            f"Partitioner returned a partition list that does not match the Variable's rank: "
            f"{slicing} vs. {shape}"
        )
    if any(count < 1 for count in slicing):
        raise ValueError(f"Partitioner returned zero partitions for some axes: {slicing}")
    if sum(count > 1 for count in slicing) > 1:
        raise ValueError(
            f"Can only slice a variable along one dimension: shape: {shape}, "
            f"partitioning: {list(slicing)}"
        )
    return [int(count) for count in slicing]


__all__ = [
    "PartitionInfo",
    "PartitionedVariable",
    "SaveSliceInfo",
    "called_partitioner",
    "parts_of",
]

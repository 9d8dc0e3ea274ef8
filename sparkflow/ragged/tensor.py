"""`tf.RaggedTensor`: rows of different lengths, as values in a row and where each row ends."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any

import numpy as np

from sparkflow._api import export
from sparkflow.graph.composite import Composite
from sparkflow.graph.graph import Graph
from sparkflow.graph.operation import Operation
from sparkflow.graph.scopes import apply_op, convert_to_tensor, name_scope, output_of
from sparkflow.graph.shapes.tensor_shape import TensorShape
from sparkflow.graph.tensor import Tensor
from sparkflow.graph.values.sparse_tensor import SparseTensor, as_sparse
from sparkflow.ragged import rows
from sparkflow.ragged.registered import registered
from sparkflow.ragged.spec import RaggedTensorSpec
from sparkflow.ragged.value import RaggedTensorValue, nested_value
from sparkflow_runtime.dtypes import DType, as_dtype, float32, int32, int64


@export("RaggedTensor")
class RaggedTensor(Composite):
    """Rows of different lengths. Made by the methods `from_...`, or `tf.ragged.constant`.

    Args:
        values: The rows one after another: a tensor, or a ragged tensor.
        row_splits: [rows + 1] int32 or int64.
    """

    __slots__ = ("_row_splits", "_values")

    def __init__(self, values: Any, row_splits: Tensor) -> None:
        self._values = values
        self._row_splits = row_splits

    # ------------------------------------------------------------------ making them

    @classmethod
    def from_row_splits(
        cls, values: Any, row_splits: Any, name: str | None = None, validate: bool = True
    ) -> RaggedTensor:
        """Row i is `values[row_splits[i]:row_splits[i + 1]]`.

        Args:
            values: A tensor of rank 1 or more, or a ragged tensor.
            row_splits: [rows + 1] int32 or int64, sorted, from 0 to the number of values.
            name: A name scope.
            validate: Accepted: splits that do not fit fail where rows are read.

        Raises:
            ValueError: `row_splits` is empty, or of another rank or dtype.
        """
        with _scope(name or "RaggedFromRowSplits", values, row_splits):
            splits = rows.index(row_splits)
            if splits.shape.ndims not in (1, None):
                raise ValueError(f"Shape {splits.shape} must have rank 1")
            if splits.shape.ndims == 1 and splits.shape[0].value == 0:
                raise ValueError("row_splits tensor may not be empty.")
            if not isinstance(values, RaggedTensor):
                values = convert_to_tensor(values, name="values")
                values.shape.with_rank_at_least(1)
            elif values.row_splits.dtype is not splits.dtype:
                values = values.with_row_splits_dtype(splits.dtype)
            return cls(values, splits)

    @classmethod
    def from_row_lengths(
        cls, values: Any, row_lengths: Any, name: str | None = None, validate: bool = True
    ) -> RaggedTensor:
        """Row i has `row_lengths[i]` values; other arguments as for `from_row_splits`."""
        with _scope(name or "RaggedFromRowLengths", values, row_lengths):
            return cls.from_row_splits(values, rows.splits_of_lengths(row_lengths))

    @classmethod
    def from_value_rowids(
        cls,
        values: Any,
        value_rowids: Any,
        nrows: Any = None,
        name: str | None = None,
        validate: bool = True,
    ) -> RaggedTensor:
        """Value i belongs to row `value_rowids[i]`; these are sorted.

        Args:
            values: See `from_row_splits`.
            value_rowids: [values].
            nrows: How many rows there are; up to the last that has a value when None.
            name: A name scope.
            validate: Accepted.
        """
        with _scope(name or "RaggedFromValueRowIds", values, value_rowids):
            splits = rows.segment_ids_to_row_splits(value_rowids, nrows)
            return cls.from_row_splits(values, splits)

    @classmethod
    def from_row_starts(
        cls, values: Any, row_starts: Any, name: str | None = None, validate: bool = True
    ) -> RaggedTensor:
        """Row i begins at `row_starts[i]`; other arguments as for `from_row_splits`."""
        with _scope(name or "RaggedFromRowStarts", values, row_starts):
            starts = rows.index(row_starts)
            count = apply_op("Cast", count_of(values), DstT=starts.dtype.base)
            return cls.from_row_splits(
                values, apply_op("ConcatV2", [starts, apply_op("ExpandDims", count, 0)], 0)
            )

    @classmethod
    def from_row_limits(
        cls, values: Any, row_limits: Any, name: str | None = None, validate: bool = True
    ) -> RaggedTensor:
        """Row i ends before `row_limits[i]`; other arguments as for `from_row_splits`."""
        with _scope(name or "RaggedFromRowLimits", values, row_limits):
            return cls.from_row_splits(values, apply_op("Pad", rows.index(row_limits), [[1, 0]]))

    @classmethod
    def from_uniform_row_length(
        cls,
        values: Any,
        uniform_row_length: Any,
        nrows: Any = None,
        validate: bool = True,
        name: str | None = None,
    ) -> RaggedTensor:
        """All rows have `uniform_row_length` values; of 0, `nrows` says how many there are."""
        with _scope(name or "RaggedFromUniformRowLength", values, uniform_row_length):
            length = rows.index(uniform_row_length)
            count = apply_op("Cast", count_of(values), DstT=length.dtype.base)
            if nrows is None:
                nrows = apply_op("FloorDiv", count, length)
            places = apply_op("Range", 0, apply_op("Cast", nrows, DstT=int32) + 1, 1)
            return cls.from_row_splits(values, apply_op("Cast", places, DstT=length.dtype) * length)

    @classmethod
    def from_nested_row_splits(
        cls,
        flat_values: Any,
        nested_row_splits: Any,
        name: str | None = None,
        validate: bool = True,
    ) -> RaggedTensor:
        """Of several splits, the outermost first."""
        return cls._nested(cls.from_row_splits, flat_values, nested_row_splits, name)

    @classmethod
    def from_nested_row_lengths(
        cls,
        flat_values: Any,
        nested_row_lengths: Any,
        name: str | None = None,
        validate: bool = True,
    ) -> RaggedTensor:
        """Of several lists of lengths, the outermost first."""
        return cls._nested(cls.from_row_lengths, flat_values, nested_row_lengths, name)

    @classmethod
    def from_nested_value_rowids(
        cls,
        flat_values: Any,
        nested_value_rowids: Any,
        nested_nrows: Any = None,
        name: str | None = None,
        validate: bool = True,
    ) -> RaggedTensor:
        """Of several lists of rows' numbers, the outermost first."""
        counts = nested_nrows or [None] * len(nested_value_rowids)
        result = flat_values
        for ids, count in reversed([*zip(nested_value_rowids, counts, strict=True)]):
            result = cls.from_value_rowids(result, ids, count)
        return result  # type: ignore[no-any-return]  # nested at least once

    @classmethod
    def _nested(cls, make: Callable[..., Any], values: Any, nested: Any, name: Any) -> RaggedTensor:
        result = values
        for each in reversed(list(nested)):
            result = make(result, each, name)
        return result  # type: ignore[no-any-return]  # nested at least once

    @classmethod
    def from_tensor(
        cls,
        tensor: Any,
        lengths: Any = None,
        padding: Any = None,
        ragged_rank: int = 1,
        name: str | None = None,
        row_splits_dtype: Any = int64,
    ) -> RaggedTensor:
        """The rows of a tensor, whole or cut.

        Args:
            tensor: Of rank 2 or more.
            lengths: [rows] how many values of each row are taken.
            padding: A value; what has it at the end of a row is left out.
            ragged_rank: How many dimensions may have rows of different lengths; 1 with `lengths`
                or `padding`.
            name: A name scope.
            row_splits_dtype: int32 or int64.

        Raises:
            ValueError: Both `lengths` and `padding` are given, or the rank does not fit.
        """
        if lengths is not None and padding is not None:
            raise ValueError("Specify argument `lengths` or `padding`, but not both.")
        with _scope(name or "RaggedFromTensor", tensor):
            dense = convert_to_tensor(tensor, name="tensor")
            if dense.shape.ndims is not None and dense.shape.ndims <= ragged_rank:
                raise ValueError(
                    f"ragged_rank={ragged_rank} must be less than rank {dense.shape.ndims}"
                )
            dtype = as_dtype(row_splits_dtype)
            sizes = apply_op("Shape", dense, out_type=dtype)
            flat = apply_op(
                "Reshape",
                dense,
                apply_op("ConcatV2", [[-1], apply_op("Cast", sizes[2:], DstT=int32)], 0),
            )
            if dense.shape.ndims is not None:
                flat.set_shape([None, *dense.shape.as_list()[2:]])
            whole = cls.from_uniform_row_length(flat, sizes[1], sizes[0])
            if padding is not None:
                lengths = _unpadded_lengths(dense, padding, dtype)
            if lengths is None:
                if ragged_rank > 1:
                    inner = cls.from_tensor(
                        flat, ragged_rank=ragged_rank - 1, row_splits_dtype=dtype
                    )
                    return cls(inner, whole.row_splits)
                return whole
            given = apply_op("Cast", lengths, DstT=dtype)
            kept = apply_op(
                "Minimum", apply_op("Maximum", given, apply_op("ZerosLike", given)), sizes[1]
            )
            return whole._cut(whole.row_starts(), kept)

    @classmethod
    def from_sparse(
        cls, st_input: Any, name: str | None = None, row_splits_dtype: Any = int64
    ) -> RaggedTensor:
        """The rows of a sparse matrix whose elements fill each row from its start on.

        Raises:
            ValueError: It is no matrix.
        """
        sparse = as_sparse(st_input)
        if sparse.shape.ndims not in (2, None):
            raise ValueError(f"rank(st_input) must be 2, got {sparse.shape}")
        with _scope(name or "RaggedFromSparse", sparse.values):
            ids = apply_op("Cast", sparse.indices[:, 0], DstT=as_dtype(row_splits_dtype))
            count = apply_op("Cast", sparse.dense_shape[0], DstT=as_dtype(row_splits_dtype))
            return cls.from_value_rowids(sparse.values, ids, count)

    # ------------------------------------------------------------------ what it is

    @property
    def values(self) -> Any:
        """The rows one after another: a tensor, or a ragged tensor."""
        return self._values

    @property
    def row_splits(self) -> Tensor:
        """[rows + 1], where each row begins, and the end of the last."""
        return self._row_splits

    @property
    def flat_values(self) -> Tensor:
        """The innermost values."""
        found: Tensor = getattr(self._values, "flat_values", self._values)
        return found

    @property
    def nested_row_splits(self) -> tuple[Tensor, ...]:
        """The splits, outermost first."""
        return (self._row_splits, *getattr(self._values, "nested_row_splits", ()))

    @property
    def ragged_rank(self) -> int:
        """How many dimensions may have rows of different lengths."""
        return len(self.nested_row_splits)

    @property
    def uniform_row_length(self) -> Any:
        """None: lengths are not looked at before anything runs."""
        return None

    @property
    def dtype(self) -> DType:
        """The element type."""
        return self.flat_values.dtype

    @property
    def shape(self) -> TensorShape:
        """The static shape; None in dimensions whose rows may differ in length."""
        splits = self._row_splits.shape
        count = None if splits.ndims is None else splits[0].value
        first = TensorShape([None if count is None else count - 1, None])
        return first.concatenate(self._values.shape[1:])

    def get_shape(self) -> TensorShape:
        """The same as `shape`."""
        return self.shape

    @property
    def graph(self) -> Graph:
        """The graph it belongs to."""
        return self._row_splits.graph

    @property
    def op(self) -> Operation:
        """The operation that makes the innermost values."""
        return self.flat_values.op

    @property
    def name(self) -> str:
        """The name of the innermost values."""
        return self.flat_values.name

    @property
    def _type_spec(self) -> RaggedTensorSpec:
        return RaggedTensorSpec(self.shape, self.dtype, self.ragged_rank, self._row_splits.dtype)

    def nrows(self, out_type: Any = None, name: str | None = None) -> Tensor:
        """How many rows there are, a scalar."""
        dtype = self._row_splits.dtype if out_type is None else as_dtype(out_type)
        count: Tensor = apply_op("Size", self._row_splits, out_type=dtype, name=name)
        return count - 1

    def row_starts(self, name: str | None = None) -> Tensor:
        """[rows], where each begins."""
        return self._row_splits[:-1]  # type: ignore[no-any-return]  # of a Tensor

    def row_limits(self, name: str | None = None) -> Tensor:
        """[rows], the end of each."""
        return self._row_splits[1:]  # type: ignore[no-any-return]  # of a Tensor

    def row_lengths(self, axis: int = 1, name: str | None = None) -> Any:
        """How long the rows of a dimension are: [rows] for 1, ragged for more.

        Raises:
            ValueError: Another dimension than one of those with rows of different lengths.
        """
        if axis == 0:
            return self.nrows()
        if axis == 1:
            return self._row_splits[1:] - self._row_splits[:-1]
        if not isinstance(self._values, RaggedTensor):
            raise ValueError(f"axis={axis} must be between 0 and ragged_rank {self.ragged_rank}")
        return self.with_values(self._values.row_lengths(axis - 1))

    def nested_row_lengths(self, name: str | None = None) -> tuple[Tensor, ...]:
        """The lengths of all dimensions, outermost first, each [rows]."""
        return tuple(splits[1:] - splits[:-1] for splits in self.nested_row_splits)

    def value_rowids(self, name: str | None = None) -> Tensor:
        """[values], the number of the row of each."""
        return rows.row_splits_to_segment_ids(self._row_splits)

    def nested_value_rowids(self, name: str | None = None) -> tuple[Tensor, ...]:
        """The same of all dimensions, outermost first."""
        return tuple(rows.row_splits_to_segment_ids(each) for each in self.nested_row_splits)

    def bounding_shape(
        self, axis: Any = None, name: str | None = None, out_type: Any = None
    ) -> Tensor:
        """The shape [rank] of the result of `to_tensor`, or one of its sizes if `axis` is given."""
        dtype = self._row_splits.dtype.base if out_type is None else as_dtype(out_type)
        sizes = [self.nrows(dtype)]
        for lengths in self.nested_row_lengths():
            most = apply_op("Max", apply_op("Pad", lengths, [[0, 1]]), [0])
            sizes.append(apply_op("Cast", most, DstT=dtype))
        inner = apply_op("Shape", self.flat_values, out_type=dtype)[1:]
        whole: Tensor = apply_op("ConcatV2", [apply_op("Pack", sizes), inner], 0)
        return whole if axis is None else apply_op("GatherV2", whole, axis, 0)

    def consumers(self) -> list[Operation]:
        """The operations that read one of its tensors."""
        return [op for tensor in self._components() for op in tensor.consumers()]

    # ------------------------------------------------------------------ others like it

    def with_values(self, new_values: Any) -> RaggedTensor:
        """The same rows of other values, as many."""
        if not isinstance(new_values, RaggedTensor):
            new_values = convert_to_tensor(new_values)
        return RaggedTensor(new_values, self._row_splits)

    def with_flat_values(self, new_values: Any) -> RaggedTensor:
        """The same rows of other innermost values, as many."""
        if isinstance(self._values, RaggedTensor):
            return RaggedTensor(self._values.with_flat_values(new_values), self._row_splits)
        return self.with_values(new_values)

    def with_row_splits_dtype(self, dtype: Any) -> RaggedTensor:
        """The same with splits of int32 or int64."""
        wanted = as_dtype(dtype)
        values = self._values
        if isinstance(values, RaggedTensor):
            values = values.with_row_splits_dtype(wanted)
        return RaggedTensor(values, apply_op("Cast", self._row_splits, DstT=wanted))

    def merge_dims(self, outer_axis: int, inner_axis: int) -> Any:
        """The dimensions from `outer_axis` to `inner_axis` as one."""
        if outer_axis == inner_axis:
            return self
        if outer_axis > 1:
            return self.with_values(self._values.merge_dims(outer_axis - 1, inner_axis - 1))
        if outer_axis == 0:
            merged = self._values
            for _ in range(inner_axis - 1):
                merged = merged.values
            return merged
        splits, values = self._row_splits, self._values
        for _ in range(inner_axis - 1):
            splits = apply_op("GatherV2", values.row_splits, splits, 0)
            values = values.values
        return RaggedTensor(values, splits)

    def to_tensor(
        self, default_value: Any = None, name: str | None = None, shape: Any = None
    ) -> Tensor:
        """The rows filled up to the longest.

        Args:
            default_value: What to fill up with; 0 or "" when None.
            name: A name scope.
            shape: The sizes of the result, None where they are as needed; longer rows are cut.
        """
        found: Tensor = registered("to_tensor")(self, default_value, name, shape)
        return found

    def to_sparse(self, name: str | None = None) -> SparseTensor:
        """The same elements at their coordinates."""
        found: SparseTensor = registered("to_sparse")(self, name)
        return found

    def _coordinates(self) -> Tensor:
        """[values, ragged_rank + 1] int64, the place of each of the innermost values."""
        found: Tensor = registered("coordinates")(self)
        return found

    def _cut(self, starts: Tensor, lengths: Tensor) -> RaggedTensor:
        """Of each row, `lengths[i]` values from `starts[i]` on."""
        values = registered("gather")(self._values, rows.positions(starts, lengths))
        return RaggedTensor(values, rows.splits_of_lengths(lengths))

    # ------------------------------------------------------------------ values

    def _components(self) -> list[Tensor]:
        return [self.flat_values, *self.nested_row_splits]

    def _value_of(self, arrays: Sequence[Any]) -> Any:
        return nested_value(arrays[0], arrays[1:])

    def _arrays_of(self, value: Any) -> list[Any]:
        if not isinstance(value, RaggedTensorValue) or value.ragged_rank != self.ragged_rank:
            raise ValueError(
                f"A RaggedTensor of ragged_rank {self.ragged_rank} is fed such a RaggedTensorValue "
                f"(tf.ragged.constant_value makes one), got {value!r}"
            )
        return [value.flat_values, *value.nested_row_splits]

    def eval(self, feed_dict: Any = None, session: Any = None) -> Any:
        """Its value, computed by `session` or the default session.

        Raises:
            ValueError: There is no session.
        """
        from sparkflow.graph.default_stack import sessions

        found = sessions.top() if session is None else session
        if found is None:
            raise ValueError("Cannot evaluate a ragged tensor: there is no default session.")
        return found.run(self, feed_dict)

    def to_list(self) -> list[Any]:
        """The rows as nested lists, in eager execution.

        Raises:
            ValueError: A graph is built; fetch it, which gives a `RaggedTensorValue`.
        """
        return self._now().to_list()  # type: ignore[no-any-return]  # of a value

    def numpy(self) -> Any:
        """An array of rows, in eager execution; see `to_list`."""
        value = self._now()
        listed = value.to_list()
        if len({len(row) for row in listed}) <= 1:
            return np.array(listed, value.dtype)
        found = np.empty(len(listed), np.object_)
        found[:] = [
            np.array(row, value.dtype if value.ragged_rank == 1 else None) for row in listed
        ]
        return found

    def _now(self) -> Any:
        if not self.graph.is_eager:
            raise ValueError("RaggedTensor.to_list() is only supported in eager mode.")
        parts: list[Any] = self._components()
        return self._value_of([each.numpy() for each in parts])

    # ------------------------------------------------------------------ computing

    def _counterpart(self, name: str) -> Callable[..., Any]:
        return registered(name)

    def _elementwise(
        self, op_type: str, values: Sequence[Any], attrs: Mapping[str, Any], name: str | None
    ) -> Any:
        return registered("applied")(op_type, values, attrs, name)

    def _binary(self, op_type: str, name: str, other: Any, reflected: bool = False) -> Any:
        pair = (other, self) if reflected else (self, other)
        return self._elementwise(op_type, pair, {}, name)

    def _addition(self) -> str:
        return "Add" if self.dtype.base.name == "string" else "AddV2"

    def _divide(self, other: Any, reflected: bool = False) -> Any:
        if not self.dtype.is_integer:
            return self._binary("RealDiv", "truediv", other, reflected)
        wide = float32 if self.dtype.size <= 2 else as_dtype("float64")
        mine = self._elementwise("Cast", [self], {"DstT": wide}, None)
        other = apply_op("Cast", other, DstT=wide)
        pair = (other, mine) if reflected else (mine, other)
        return self._elementwise("RealDiv", pair, {}, "truediv")

    def __neg__(self) -> Any:
        return self._elementwise("Neg", [self], {}, None)

    def __abs__(self) -> Any:
        return self._elementwise("Abs", [self], {}, None)

    def __invert__(self) -> Any:
        return self._elementwise("LogicalNot", [self], {}, None)

    def __getitem__(self, key: Any) -> Any:
        return registered("sliced")(self, key)

    def __len__(self) -> int:
        raise TypeError("len is not well defined for a RaggedTensor; use nrows()")

    def __iter__(self) -> Any:
        raise TypeError("'RaggedTensor' object is not iterable")

    def __hash__(self) -> int:
        return id(self)

    def __eq__(self, other: object) -> bool:
        return self is other

    def __repr__(self) -> str:
        if self.graph.is_eager:
            return f"<tf.RaggedTensor {self.to_list()}>"
        return f"tf.RaggedTensor(values={self._values}, row_splits={self._row_splits})"

    __str__ = __repr__


RaggedTensorSpec._described = RaggedTensor


def _scope(name: str, *values: Any) -> AbstractContextManager[str]:
    return name_scope(name, None, values)


def count_of(values: Any) -> Tensor:
    """How many rows a tensor or ragged tensor has, int64."""
    if isinstance(values, RaggedTensor):
        return values.nrows(int64)
    found: Tensor = apply_op("Shape", values, out_type=int64)[0]
    return found


def numbers_below(count: Tensor) -> Tensor:
    """0, 1, ... below `count`, int64."""
    zero, one = convert_to_tensor(0, int64), convert_to_tensor(1, int64)
    return output_of("Range", zero, count, one)


def _unpadded_lengths(dense: Tensor, padding: Any, dtype: DType) -> Tensor:
    """[rows] how many values each row has without those at its end that are padding."""
    other = apply_op("NotEqual", dense, convert_to_tensor(padding, dense.dtype.base))
    rank = dense.shape.ndims or 2
    if rank > 2:
        other = apply_op("Any", other, list(range(2, rank)))
    width = apply_op("Shape", dense, out_type=dtype)[1]
    places = apply_op(
        "Cast", apply_op("Range", 1, apply_op("Cast", width, DstT=int32) + 1, 1), DstT=dtype
    )
    return output_of("Max", apply_op("Cast", other, DstT=dtype) * places, [1])

"""The row format: the typed columns of rows outside Spark, and their tensors.

The driver derives a `RowFormat` from the DataFrame's schema and a profile of its rows, and sends it
to the tasks as JSON. It determines the columns of their Arrow files and the components of every
batch, in the order in which `IteratorGetNext` returns them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import pyarrow as pa

from sparkflow_runtime import dtypes
from sparkflow_runtime.dtypes import DType

DENSE, SPARSE, RAGGED = "dense", "sparse", "ragged"

TRAIN_DATA, EVAL_DATA = "train_data", "eval_data"
"""The shared names of the sources from which a worker's graphs draw batches."""

ROW_NUMBER = "row_number"
"""The int64 column that orders the rows; it is never fed."""

VALIDATES = "validates"
"""The boolean column that marks validation rows; absent if there are none."""

_ARROW = {"float32": pa.float32(), "int64": pa.int64(), "string": pa.binary()}


def arrow_type(dtype: str) -> pa.DataType:
    """Returns the type of elements in the Arrow file."""
    return _ARROW[dtype]


@dataclass(frozen=True, slots=True)
class Input:
    """One column of the rows and the tensor, or `tf.SparseTensor`, that a batch of it becomes.

    Attributes:
        name: Its key in the dictionary of features, `label` or `weight`; unique in a row.
        kind: `dense`: every row has `shape`. `sparse`: a row is a sparse vector of `shape[0]`
            elements. `ragged`: a row is a list of any length; becomes a SparseTensor whose second
            dimension is the longest list of the batch, as `tf.VarLenFeature` has it.
        dtype: `float32`, `int64` or `string`.
        shape: The shape of one row: () for scalars, (n,) for vectors, (28, 28, 1) for images; (n,)
            if sparse; () if ragged.
    """

    name: str
    kind: str
    dtype: str
    shape: tuple[int, ...]

    @property
    def column_type(self) -> pa.DataType:
        """The type of the column in the Arrow file.

        Dense: the scalar, or a fixed-size list of all elements in row-major order. Sparse: a struct
        of `indices` list<int32>, ascending, and `values` list<float>. Ragged: list<element>.
        """
        element = arrow_type(self.dtype)
        if self.kind == SPARSE:
            return pa.struct({"indices": pa.list_(pa.int32()), "values": pa.list_(element)})
        if self.kind == RAGGED:
            return pa.list_(element)
        return element if self.shape == () else pa.list_(element, self.size)

    @property
    def size(self) -> int:
        """The number of elements of a dense row."""
        size = 1
        for length in self.shape:
            size *= length
        return size

    @property
    def components(self) -> list[tuple[DType, tuple[int | None, ...]]]:
        """Dtype and static shape of each tensor that the feed returns for a batch.

        One tensor [batch, *shape] if dense; else the three of a SparseTensor: indices [n, 2] int64,
        values [n], dense_shape [2] int64.
        """
        dtype = dtypes.as_dtype(self.dtype)
        if self.kind == DENSE:
            return [(dtype, (None, *self.shape))]
        return [(dtypes.int64, (None, 2)), (dtype, (None,)), (dtypes.int64, (2,))]


@dataclass(frozen=True, slots=True)
class RowFormat:
    """All columns of a row.

    Attributes:
        features: One or more.
        label: The label column; None if there is none.
        weight: The column of row weights, a float32 scalar; None if there is none.
        named: Whether `model_fn` gets a dictionary of features; otherwise it gets the tensor of the
            only feature column.
    """

    features: tuple[Input, ...]
    label: Input | None
    weight: Input | None
    named: bool

    @property
    def inputs(self) -> tuple[Input, ...]:
        """Features, label, weight, in the order of the columns and of the batch's components."""
        return (*self.features, *(each for each in (self.label, self.weight) if each is not None))

    @property
    def schema(self) -> pa.Schema:
        """The schema of the Arrow file: the inputs and the row's number."""
        columns = {each.name: each.column_type for each in self.inputs}
        return pa.schema({**columns, ROW_NUMBER: pa.int64()})

    @property
    def components(self) -> list[tuple[DType, tuple[int | None, ...]]]:
        """The components of a batch: those of the inputs, then `waited_s`, then the number of rows.

        waited_s, a float32 scalar, is the time that the step waited for this batch. The number of
        rows, a float32 scalar, is 0 in batches that only keep a replica in step with the others.
        """
        scalar: tuple[int | None, ...] = ()
        parts = [part for each in self.inputs for part in each.components]
        return [*parts, (dtypes.float32, scalar), (dtypes.float32, scalar)]

    def to_json(self) -> dict[str, Any]:
        """Returns the object as JSON types."""
        return asdict(self)

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> RowFormat:
        """Creates the object from the result of `to_json`."""
        label, weight = (
            None if value[name] is None else _input(value[name]) for name in ("label", "weight")
        )
        return cls(tuple(map(_input, value["features"])), label, weight, value["named"])


def _input(value: Mapping[str, Any]) -> Input:
    return Input(value["name"], value["kind"], value["dtype"], tuple(value["shape"]))

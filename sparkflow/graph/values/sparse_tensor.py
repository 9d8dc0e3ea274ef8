"""`SparseTensor`: a tensor that is mostly zero, as the coordinates and values of the rest."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, NamedTuple

from sparkflow._api import export
from sparkflow.graph.constant_value import constant_value_as_shape
from sparkflow.graph.default_stack import sessions
from sparkflow.graph.graph import Graph
from sparkflow.graph.operation import Operation
from sparkflow.graph.operators import Symbolic
from sparkflow.graph.scopes import apply_op, convert_to_tensor, graph_of
from sparkflow.graph.shapes.tensor_shape import TensorShape
from sparkflow.graph.tensor import Tensor
from sparkflow_runtime.dtypes import DType, int64


@export("SparseTensorValue")
class SparseTensorValue(NamedTuple):
    """A sparse tensor as arrays: the fed or fetched value of a `SparseTensor`.

    Attributes:
        indices: [n, rank] int64.
        values: [n].
        dense_shape: [rank] int64.
    """

    indices: Any
    values: Any
    dense_shape: Any


@export("SparseTensor", "sparse.SparseTensor")
class SparseTensor(Symbolic):
    """The elements `values[i]` at the coordinates `indices[i]` of a tensor of zeros.

    Most functions want the coordinates in row-major order, see `tf.sparse.reorder`.

    Args:
        indices: [n, rank] int64.
        values: [n] of any dtype.
        dense_shape: [rank] int64.

    Raises:
        ValueError: The shapes contradict each other.
    """

    __slots__ = ("_dense_shape", "_indices", "_known_shape", "_values")

    def __init__(self, indices: Any, values: Any, dense_shape: Any) -> None:
        graph = graph_of((indices, values, dense_shape))
        with graph.as_default(), graph.name_scope("SparseTensor"):
            self._indices = convert_to_tensor(indices, int64, "indices")
            self._values = convert_to_tensor(values, name="values")
            self._dense_shape = convert_to_tensor(dense_shape, int64, "dense_shape")
        self._known_shape: TensorShape | None = None
        coordinates = self._indices.shape.with_rank(2)
        count = self._values.shape.with_rank(1)
        rank = self._dense_shape.shape.with_rank(1)
        coordinates.merge_with([count.as_list()[0], rank.as_list()[0]])

    @classmethod
    def from_value(cls, sparse_tensor_value: Any) -> SparseTensor:
        """A sparse tensor of constants.

        Raises:
            TypeError: Neither a `SparseTensor` nor a `SparseTensorValue`.
        """
        if not isinstance(sparse_tensor_value, SparseTensor | SparseTensorValue):
            raise TypeError(
                f"Neither a SparseTensor nor SparseTensorValue: {sparse_tensor_value!r}."
            )
        given = sparse_tensor_value
        return cls(given.indices, given.values, given.dense_shape)

    @property
    def indices(self) -> Tensor:
        """[n, rank] int64, the coordinates."""
        return self._indices

    @property
    def values(self) -> Tensor:
        """[n] the elements."""
        return self._values

    @property
    def dense_shape(self) -> Tensor:
        """[rank] int64, the shape of the whole."""
        return self._dense_shape

    @property
    def shape(self) -> TensorShape:
        """The static shape of the dense tensor."""
        if self._known_shape is not None:
            return self._known_shape
        return TensorShape(constant_value_as_shape(self._dense_shape))

    def set_shape(self, shape: Any) -> None:
        """Adds knowledge about the static shape of the whole.

        Raises:
            ValueError: It contradicts what is known.
        """
        self._known_shape = self.shape.merge_with(shape)

    def get_shape(self) -> TensorShape:
        """The same as `shape`."""
        return self.shape

    @property
    def op(self) -> Operation:
        """The operation that makes `values`."""
        return self._values.op

    @property
    def dtype(self) -> DType:
        """The element type."""
        return self._values.dtype

    @property
    def graph(self) -> Graph:
        """The graph it belongs to."""
        return self._indices.graph

    @property
    def name(self) -> str:
        """The name of `values`."""
        return self._values.name

    def consumers(self) -> list[Operation]:
        """The operations that read one of the three tensors."""
        found: list[Operation] = []
        for tensor in (self._indices, self._values, self._dense_shape):
            found += [each for each in tensor.consumers() if each not in found]
        return found

    def eval(self, feed_dict: Any = None, session: Any = None) -> SparseTensorValue:
        """Its value, computed by `session` or the default session.

        Raises:
            ValueError: There is no session.
        """
        if session is None:
            session = sessions.top()
        if session is None:
            raise ValueError(
                "Cannot evaluate a sparse tensor using `eval()`: No default session is registered."
            )
        value: SparseTensorValue = session.run(self, feed_dict)
        return value

    def with_values(self, new_values: Any) -> SparseTensor:
        """The same coordinates with other values."""
        return SparseTensor(self._indices, new_values, self._dense_shape)

    def _to_tensor(self, as_ref: bool = False) -> Tensor:
        raise TypeError(
            f"Failed to convert object of type {type(self)} to Tensor. Contents: {self}. Consider "
            "casting elements to a supported type."
        )

    def _with_dense(self, op_type: str, other: Any, name: str) -> SparseTensor:
        with self.graph.as_default(), self.graph.name_scope(name) as scope:
            dense = convert_to_tensor(other, self.dtype.base)
            values = apply_op(
                op_type, self._indices, self._values, self._dense_shape, dense, name=scope
            )
            return SparseTensor(self._indices, values, self._dense_shape)

    def __mul__(self, other: Any) -> SparseTensor:
        return self._with_dense("SparseDenseCwiseMul", other, "mul")

    def __rmul__(self, other: Any) -> SparseTensor:
        return self.__mul__(other)

    def __truediv__(self, other: Any) -> SparseTensor:
        return self._with_dense("SparseDenseCwiseDiv", other, "truediv")

    def __neg__(self) -> SparseTensor:
        return self.with_values(-self._values)

    def __add__(self, other: Any) -> Any:
        return added(self, other)

    def __radd__(self, other: Any) -> Any:
        return self.__add__(other)

    def __sub__(self, other: Any) -> Any:
        return self.__add__(-other)

    def __rsub__(self, other: Any) -> Any:
        return (-self).__add__(other)

    def __str__(self) -> str:
        return (
            f"SparseTensor(indices={self._indices}, values={self._values}, "
            f"dense_shape={self._dense_shape})"
        )

    def __repr__(self) -> str:
        return str(self)

    def __iter__(self) -> Iterable[Any]:
        raise TypeError("'SparseTensor' object is not iterable")


def as_sparse(value: Any) -> SparseTensor:
    """`value` as a `SparseTensor`.

    Raises:
        TypeError: It is neither that nor a `SparseTensorValue`.
    """
    if isinstance(value, SparseTensor):
        return value
    if isinstance(value, SparseTensorValue):
        return SparseTensor.from_value(value)
    raise TypeError(f"Input must be a SparseTensor, got {value!r}.")


def added(a: Any, b: Any, least: Any = None) -> Any:
    """The sum of two tensors of one shape, one of them sparse; see `tf.sparse_add`.

    Raises:
        ValueError: The static shapes differ.
    """
    if isinstance(a, _SPARSE) and isinstance(b, _SPARSE):
        first, second = as_sparse(a), as_sparse(b)
        first.shape.assert_is_compatible_with(second.shape)
        limit = convert_to_tensor(0 if least is None else least, first.dtype.real_dtype, "thresh")
        result = SparseTensor(*apply_op("SparseAdd", *_parts(first), *_parts(second), limit))
        result.set_shape(first.shape.merge_with(second.shape))
        return result
    sparse, dense = (a, b) if isinstance(a, _SPARSE) else (b, a)
    return apply_op("SparseTensorDenseAdd", *_parts(as_sparse(sparse)), dense)


def _parts(sparse: SparseTensor) -> tuple[Tensor, Tensor, Tensor]:
    return sparse.indices, sparse.values, sparse.dense_shape


_SPARSE: Final = (SparseTensor, SparseTensorValue)

"""Sparse tensors as strings: each of the three tensors is a serialized TensorProto."""

from __future__ import annotations

from typing import Any

import numpy as np
from google.protobuf.message import DecodeError

from sparkflow_runtime.dtypes import DType, string
from sparkflow_runtime.errors import InvalidArgumentError
from sparkflow_runtime.ops.inference import sizes
from sparkflow_runtime.ops.op import Array, Op, not_differentiable
from sparkflow_runtime.ops.registry import register
from sparkflow_runtime.ops.signature import type_attr
from sparkflow_runtime.ops.sparse.sparse_layout import check_parts
from sparkflow_runtime.ops.static import bracketed
from sparkflow_runtime.protos import tensor_pb2
from sparkflow_runtime.tensor_proto import export_tensor, import_tensor

_TEXT = type_attr(frozenset({string}), string)
_PARTS = "sparse_indices: int64, sparse_values: T, sparse_shape: int64"


def _texts(*arrays: Array) -> list[bytes]:
    return [export_tensor(each).SerializeToString() for each in arrays]


def _array(text: bytes) -> Array:
    message = tensor_pb2.TensorProto()
    try:
        message.ParseFromString(text)
    except DecodeError as error:
        raise InvalidArgumentError(
            message="Could not parse a serialized sparse tensor: not a TensorProto"
        ) from error
    return import_tensor(message)


class _Serialize(Op):
    inputs = _PARTS
    attrs = {"T": type_attr(), "out_type": _TEXT}
    kernels = {"CPU": None}
    gradient = not_differentiable


@register
class SerializeSparse(_Serialize):
    """Serializes a sparse tensor as three strings."""

    outputs = "serialized_sparse: out_type"
    infer = sizes((3,))

    def compute(self, xp: Any, indices: Array, values: Array, shape: Array) -> Array:
        """[3] strings."""
        check_parts(indices, values, shape)
        return np.array(_texts(indices, values, shape), object)


@register
class SerializeManySparse(_Serialize):
    """Serializes the slices of a sparse tensor along its first dimension, three strings each."""

    outputs = "serialized_sparse: out_type"
    infer = sizes((None, 3))

    def compute(self, xp: Any, indices: Array, values: Array, shape: Array) -> Array:
        """[n, 3] strings.

        Raises:
            InvalidArgumentError: Fewer than two dimensions.
        """
        check_parts(indices, values, shape)
        if len(shape) < 2:
            raise InvalidArgumentError(
                message=f"Rank of input SparseTensor should be > 1, but saw rank: {len(shape)}"
            )
        result = np.empty((int(shape[0]), 3), object)
        for row in range(len(result)):
            kept = indices[:, 0] == row
            result[row] = _texts(indices[kept, 1:], values[kept], shape[1:])
        return result


class _Deserialize(Op):
    outputs = "sparse_indices: int64, sparse_values: dtype, sparse_shape: int64"
    kernels = {"CPU": None}
    gradient = not_differentiable
    infer = sizes((None, None), (None,), (None,))

    def joined(self, texts: Array, dtype: DType, minibatch: bool) -> tuple[Array, Array, Array]:
        """Parses [n, 3] strings into one sparse tensor with a new first dimension.

        Raises:
            InvalidArgumentError: A string is not a tensor, or one of another type or rank.
        """
        parts = [[_array(text) for text in row] for row in texts.reshape(-1, 3)]
        indices, values, shape = [], [], None
        for row, (places, items, size) in enumerate(parts):
            if items.dtype != dtype.as_numpy_dtype:
                raise InvalidArgumentError(
                    message=f"Requested SparseTensor of type {dtype.name} but "
                    f"SparseTensor[{row}].values.dtype() == {items.dtype}"
                )
            check_parts(places, items, size)
            if shape is not None and len(shape) != len(size):
                raise InvalidArgumentError(
                    message=f"Inconsistent rank across SparseTensors: {len(shape)} and {len(size)}"
                )
            shape = size if shape is None else np.maximum(shape, size)
            indices.append(np.insert(places, 0, row, axis=1) if minibatch else places)
            values.append(items)
        if shape is None:
            raise InvalidArgumentError(message="There is no serialized sparse tensor to read")
        whole = np.concatenate([[len(parts)], shape]) if minibatch else shape
        return (
            np.concatenate(indices).astype(np.int64),
            np.concatenate(values),
            whole.astype(np.int64),
        )


@register
class DeserializeManySparse(_Deserialize):
    """The inverse of `SerializeManySparse`."""

    widens = ()  # the bits count
    inputs = "serialized_sparse: string"
    attrs = {"dtype": type_attr()}

    def compute(self, xp: Any, texts: Array, *, dtype: DType) -> tuple[Array, ...]:
        """(indices, values, shape).

        Raises:
            InvalidArgumentError: Not [n, 3] strings of sparse tensors of one rank.
        """
        if texts.ndim != 2 or texts.shape[1] != 3:
            raise InvalidArgumentError(
                message=f"Serialized sparse should have 3 columns, got {bracketed(texts.shape)}"
            )
        return self.joined(texts, dtype, minibatch=True)


@register
class DeserializeSparse(_Deserialize):
    """The inverse of `SerializeSparse`, also for stacks of its results."""

    inputs = "serialized_sparse: Tserialized"
    attrs = {"dtype": type_attr(), "Tserialized": _TEXT}

    def compute(self, xp: Any, texts: Array, *, dtype: DType) -> tuple[Array, ...]:
        """(indices, values, shape), with the dimensions of the stack first.

        Raises:
            InvalidArgumentError: Not [..., 3] strings of sparse tensors of one rank.
        """
        if not texts.ndim or texts.shape[-1] != 3:
            raise InvalidArgumentError(
                message=f"Serialized sparse should have 3 as the last dimension, got "
                f"{bracketed(texts.shape)}"
            )
        lead = texts.shape[:-1]
        indices, values, shape = self.joined(texts, dtype, minibatch=bool(lead))
        if len(lead) > 1:
            first = np.stack(np.unravel_index(indices[:, 0], lead), axis=1)
            indices = np.concatenate([first, indices[:, 1:]], axis=1)
            shape = np.concatenate([np.array(lead, np.int64), shape[1:]])
        return indices, values, shape

"""Sparse tensors as one tensor of three elements: indices, values and shape.

An element is a string, a serialized TensorProto; or, in a variant tensor, the array itself, which
is how datasets pass sparse tensors on.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from google.protobuf.message import DecodeError

from sparkflow_runtime.dtypes import DType, string, variant
from sparkflow_runtime.errors import InvalidArgumentError
from sparkflow_runtime.ops.inference import sizes
from sparkflow_runtime.ops.op import Array, Op, not_differentiable
from sparkflow_runtime.ops.registry import register
from sparkflow_runtime.ops.signature import type_attr
from sparkflow_runtime.ops.sparse.sparse_layout import check_parts
from sparkflow_runtime.ops.static import bracketed
from sparkflow_runtime.protos import tensor_pb2
from sparkflow_runtime.tensor_proto import export_tensor, import_tensor

_FORM = type_attr(frozenset({string, variant}), string)
_PARTS = "sparse_indices: int64, sparse_values: T, sparse_shape: int64"


def _put(target: Array, parts: Sequence[Array], form: DType) -> None:
    """Sets the three elements."""
    for place, part in enumerate(parts):
        target[place] = part if form is variant else export_tensor(part).SerializeToString()


def _part(element: Any) -> Array:
    """The array of an element: of a string also in variant tensors, as old caches have them.

    Raises:
        InvalidArgumentError: It is neither an array nor a serialized one.
    """
    if isinstance(element, np.ndarray):
        return element
    message = tensor_pb2.TensorProto()
    try:
        message.ParseFromString(element)
    except (DecodeError, TypeError) as error:
        raise InvalidArgumentError(
            message="Could not parse a serialized sparse tensor: not a TensorProto"
        ) from error
    return import_tensor(message)


class _Serialize(Op):
    inputs = _PARTS
    outputs = "serialized_sparse: out_type"
    attrs = {"T": type_attr(), "out_type": _FORM}
    kernels = {"CPU": None}
    gradient = not_differentiable


@register
class SerializeSparse(_Serialize):
    """Serializes a sparse tensor as three elements."""

    infer = sizes((3,))

    def compute(
        self, xp: Any, indices: Array, values: Array, shape: Array, *, out_type: DType
    ) -> Array:
        """[3] strings or arrays."""
        check_parts(indices, values, shape)
        result = np.empty(3, object)
        _put(result, (indices, values, shape), out_type)
        return result


@register
class SerializeManySparse(_Serialize):
    """Serializes the slices of a sparse tensor along its first dimension, three elements each."""

    infer = sizes((None, 3))

    def compute(
        self, xp: Any, indices: Array, values: Array, shape: Array, *, out_type: DType
    ) -> Array:
        """[n, 3] strings or arrays.

        Raises:
            InvalidArgumentError: Fewer than two dimensions.
        """
        check_parts(indices, values, shape)
        if len(shape) < 2:
            raise InvalidArgumentError(
                message=f"Rank of input SparseTensor should be > 1, but saw rank: {len(shape)}"
            )
        order = np.argsort(indices[:, 0], kind="stable")
        indices, values, inner = indices[order], values[order], shape[1:]
        result = np.empty((int(shape[0]), 3), object)
        ends = np.searchsorted(indices[:, 0], np.arange(len(result) + 1))
        for row, (start, end) in enumerate(pairwise(ends)):
            _put(result[row], (indices[start:end, 1:], values[start:end], inner), out_type)
        return result


class _Deserialize(Op):
    outputs = "sparse_indices: int64, sparse_values: dtype, sparse_shape: int64"
    kernels = {"CPU": None}
    gradient = not_differentiable
    infer = sizes((None, None), (None,), (None,))

    def joined(self, elements: Array, dtype: DType, minibatch: bool) -> tuple[Array, Array, Array]:
        """Joins [n, 3] elements to one sparse tensor, with a new first dimension for a minibatch.

        Raises:
            InvalidArgumentError: An element is not a tensor, or one of another type or rank.
        """
        parts = [[_part(element) for element in row] for row in elements.reshape(-1, 3)]
        if not parts:
            raise InvalidArgumentError(message="There is no serialized sparse tensor to read")
        kind, rank = dtype.as_numpy_dtype, len(parts[0][2])
        for row, (places, items, size) in enumerate(parts):
            if items.dtype != kind:
                raise InvalidArgumentError(
                    message=f"Requested SparseTensor of type {dtype.name} but "
                    f"SparseTensor[{row}].values.dtype() == {items.dtype}"
                )
            check_parts(places, items, size)
            if len(size) != rank:
                raise InvalidArgumentError(
                    message=f"Inconsistent rank across SparseTensors: {rank} and {len(size)}"
                )
        if not minibatch:
            indices, values, shape = parts[0]
            return indices.astype(np.int64), values.copy(), shape.astype(np.int64)
        each_indices, each_values, each_shape = zip(*parts, strict=True)
        values = np.concatenate(each_values)
        counts = [len(items) for items in each_values]
        indices = np.empty((len(values), 1 + rank), np.int64)
        indices[:, 0] = np.repeat(np.arange(len(parts)), counts)
        indices[:, 1:] = np.concatenate(each_indices)
        shape = np.empty(1 + rank, np.int64)
        shape[0] = len(parts)
        shape[1:] = np.max(each_shape, axis=0)
        return indices, values, shape


@register
class DeserializeManySparse(_Deserialize):
    """The inverse of `SerializeManySparse`."""

    widens = ()  # the bits count
    inputs = "serialized_sparse: string"
    attrs = {"dtype": type_attr()}

    def compute(self, xp: Any, elements: Array, *, dtype: DType) -> tuple[Array, ...]:
        """(indices, values, shape).

        Raises:
            InvalidArgumentError: Not [n, 3] strings of sparse tensors of one rank.
        """
        if elements.ndim != 2 or elements.shape[1] != 3:
            raise InvalidArgumentError(
                message=f"Serialized sparse should have 3 columns, got {bracketed(elements.shape)}"
            )
        return self.joined(elements, dtype, minibatch=True)


@register
class DeserializeSparse(_Deserialize):
    """The inverse of `SerializeSparse`, also for stacks of its results."""

    inputs = "serialized_sparse: Tserialized"
    attrs = {"dtype": type_attr(), "Tserialized": _FORM}

    def compute(self, xp: Any, elements: Array, *, dtype: DType) -> tuple[Array, ...]:
        """(indices, values, shape), with the dimensions of the stack first.

        Raises:
            InvalidArgumentError: Not [..., 3] elements of sparse tensors of one rank.
        """
        if not elements.ndim or elements.shape[-1] != 3:
            raise InvalidArgumentError(
                message=f"Serialized sparse should have 3 as the last dimension, got "
                f"{bracketed(elements.shape)}"
            )
        lead = elements.shape[:-1]
        indices, values, shape = self.joined(elements, dtype, minibatch=bool(lead))
        if len(lead) > 1:
            first = np.stack(np.unravel_index(indices[:, 0], lead), axis=1)
            indices = np.concatenate([first, indices[:, 1:]], axis=1)
            shape = np.concatenate([np.array(lead, np.int64), shape[1:]])
        return indices, values, shape

"""Parsing and serializing `tf.train.Example` and SequenceExample messages, and tensors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
from google.protobuf import json_format

from sparkflow_runtime import shapes
from sparkflow_runtime.dtypes import DType
from sparkflow_runtime.errors import InvalidArgumentError
from sparkflow_runtime.ops.files.example_batch import ExampleBatch, wanted_features
from sparkflow_runtime.ops.files.example_features import FEATURE_TYPES, parsed
from sparkflow_runtime.ops.inference import scalars, unknown
from sparkflow_runtime.ops.kernel import KernelContext
from sparkflow_runtime.ops.op import Array, Inference, NodeView
from sparkflow_runtime.ops.registry import register
from sparkflow_runtime.ops.signature import Attr, int_attr, list_attr, type_attr
from sparkflow_runtime.ops.strings.string_arrays import (
    StringOp,
    array_of,
    flat_strings,
    mapped,
    scalar_text,
    strings_of,
)
from sparkflow_runtime.protos.example_pb2 import Example
from sparkflow_runtime.protos.tensor_pb2 import TensorProto
from sparkflow_runtime.shapes import Shape
from sparkflow_runtime.tensor_proto import dtype_of, export_tensor, import_tensor

_UNNAMED: Final = ("<unknown>",)


def feature_types(**keywords: Any) -> Attr:
    """A list of dtypes that features have."""
    return Attr("list(type)", allowed=FEATURE_TYPES, minimum=0, **keywords)


def is_variable(shape: Shape) -> bool:
    """Whether a dense feature may have any number of rows."""
    return shape is not None and len(shape) > 0 and shape[0] is None


def _sparse_shapes(count: int, rank: int) -> list[Shape]:
    return [*[(None, rank)] * count, *[(None,)] * count, *[(rank,)] * count]


def grouped(triples: Sequence[tuple[Array, Array, Array]]) -> list[Array]:
    """All indices, then all values, then all shapes."""
    return [triple[part] for part in range(3) for triple in triples]


@register
class ParseExample(StringOp):
    """Parses a batch of Example messages into one tensor per feature."""

    inputs = (
        "serialized: string, names: string, sparse_keys: Nsparse * string, "
        "dense_keys: Ndense * string, dense_defaults: Tdense"
    )
    outputs = (
        "sparse_indices: Nsparse * int64, sparse_values: sparse_types, "
        "sparse_shapes: Nsparse * int64, dense_values: Tdense"
    )
    attrs = {
        "Nsparse": int_attr(minimum=0),
        "Ndense": int_attr(minimum=0),
        "sparse_types": feature_types(),
        "Tdense": feature_types(),
        "dense_shapes": list_attr("shape", minimum=0),
    }

    def infer(self, node: Inference) -> list[Shape]:
        """A row per message.

        Raises:
            InvalidArgumentError: The messages are not a vector.
        """
        batch = node.with_rank(0, 1, "Shape")
        dense: list[Shape] = [
            (*batch, *shape) if shape is not None else None for shape in node.attrs["dense_shapes"]
        ]
        return [*_sparse_shapes(node.attrs["Nsparse"], 2), *dense]

    def compute(
        self,
        xp: Any,
        serialized: Array,
        names: Array,
        *rest: Array,
        Nsparse: int,
        Ndense: int,
        sparse_types: Sequence[DType],
        Tdense: Sequence[DType],
        dense_shapes: Sequence[Shape],
    ) -> tuple[Array, ...]:
        """Fails for malformed messages, and for features of another dtype or size."""
        keys = [scalar_text(key, "key").decode() for key in rest[: Nsparse + Ndense]]
        defaults = rest[Nsparse + Ndense :]
        messages = flat_strings(serialized)
        given = [name.decode("utf-8", "replace") for name in strings_of(names)]
        wanted = wanted_features(
            tuple(keys),
            (*sparse_types, *Tdense),
            (*[None] * Nsparse, *map(known, dense_shapes)),
        )
        batch = ExampleBatch(messages, given or ["<unknown>"] * len(messages), wanted)
        sparse = [
            batch.sparse(key, dtype)
            for key, dtype in zip(keys[:Nsparse], sparse_types, strict=True)
        ]
        readers = map(_dense, keys[Nsparse:], Tdense, dense_shapes)
        dense = [read(batch, default) for read, default in zip(readers, defaults, strict=True)]
        return (*grouped(sparse), *dense)


def _dense(key: str, dtype: DType, shape: Shape) -> Callable[[ExampleBatch, Array], Array]:
    """Returns what returns a dense feature of messages, given its default."""
    if is_variable(shape):
        return lambda batch, default: batch.ragged(key, dtype, shape, default)
    fixed = _fixed(shape, key)
    return lambda batch, default: batch.dense(key, dtype, fixed, default)


def known(shape: Shape) -> tuple[int, ...] | None:
    """Returns a shape if all sizes are known."""
    if shape is None or None in shape:
        return None
    return tuple(size for size in shape if size is not None)


def _fixed(shape: Shape, key: str) -> tuple[int, ...]:
    sizes = known(shape)
    if sizes is None:
        raise InvalidArgumentError(
            message=f"dense_shapes for {key!r} must be known but for the first size, "
            f"got {shapes.text(shape)}"
        )
    return sizes


@register
class ParseSingleExample(StringOp):
    """Parses one Example message into one tensor per feature."""

    inputs = "serialized: string, dense_defaults: Tdense"
    outputs = (
        "sparse_indices: num_sparse * int64, sparse_values: sparse_types, "
        "sparse_shapes: num_sparse * int64, dense_values: Tdense"
    )
    attrs = {
        "num_sparse": int_attr(minimum=0),
        "sparse_keys": list_attr("string", minimum=0),
        "dense_keys": list_attr("string", minimum=0),
        "sparse_types": feature_types(),
        "Tdense": feature_types(),
        "dense_shapes": list_attr("shape", minimum=0),
    }

    def infer(self, node: Inference) -> list[Shape]:
        """The features' shapes.

        Raises:
            InvalidArgumentError: The message is not a scalar.
        """
        node.with_rank(0, 0, "Shape")
        return [*_sparse_shapes(node.attrs["num_sparse"], 1), *node.attrs["dense_shapes"]]

    def bind(self, node: NodeView, context: KernelContext) -> Callable[..., Any]:
        """The kernel: fails for malformed messages, and features of another dtype or size."""
        attrs = node.attrs
        sparse = tuple(zip(attrs["sparse_keys"], attrs["sparse_types"], strict=True))
        keys, types, shapes = (attrs[name] for name in ("dense_keys", "Tdense", "dense_shapes"))
        wanted = wanted_features(
            (*attrs["sparse_keys"], *keys),
            (*attrs["sparse_types"], *types),
            (*[None] * len(sparse), *map(known, shapes)),
        )
        readers = [_dense(*each) for each in zip(keys, types, shapes, strict=True)]
        rows = [wanted.rows[key] for key in keys]
        is_plain = len(wanted.rows) == len(sparse) + len(keys)  # no key twice

        def run(serialized: Array, *defaults: Array) -> tuple[Array, ...]:
            messages = np.empty(1, np.object_)
            messages[0] = scalar_text(serialized, "serialized")
            batch = ExampleBatch(messages, _UNNAMED, wanted)
            vectors = [batch.vector(*each) for each in sparse]
            found = [batch.decoded[row] if is_plain else None for row in rows]
            dense = [
                first(read(batch, default) if values is None else values)
                for values, read, default in zip(found, readers, defaults, strict=True)
            ]
            return (*grouped(vectors), *dense)

        return run


def first(rows: Array) -> Array:
    """Returns the first row as an array; that of a vector of strings would be bytes."""
    row: Array = rows[0, ...]
    return row


def without_messages(indices: Array, values: Array, shape: Array) -> tuple[Array, Array, Array]:
    """Returns a sparse tensor of one message without the dimension of messages."""
    return indices[:, 1:], values, shape[1:]


@register
class ParseTensor(StringOp):
    """Parses a TensorProto message."""

    widens = ()  # the bits count
    inputs = "serialized: string"
    outputs = "output: out_type"
    attrs = {"out_type": type_attr()}
    infer = unknown

    def compute(self, xp: Any, serialized: Array, *, out_type: DType) -> Array:
        """Fails for malformed messages, and for a tensor of another dtype."""
        data = scalar_text(serialized, "serialized")
        array = import_tensor(parsed(TensorProto, data, "serialized tensor proto"))
        found = dtype_of(array)
        if found is not out_type:
            raise InvalidArgumentError(
                message=f"Type mismatch between parsed tensor ({found.name}) and dtype "
                f"({out_type.name})"
            )
        return array


@register
class SerializeTensor(StringOp):
    """Serializes a tensor as a TensorProto message."""

    widens = ()  # the bits count
    inputs = "tensor: T"
    outputs = "serialized: string"
    attrs = {"T": type_attr()}
    infer = scalars

    def compute(self, xp: Any, tensor: Array) -> Array:
        """With its values as bytes."""
        return array_of([export_tensor(np.asarray(tensor)).SerializeToString()], ())


@register
class DecodeJSONExample(StringOp):
    """Example messages from their JSON form."""

    inputs = "json_examples: string"
    outputs = "binary_examples: string"

    def compute(self, xp: Any, texts: Array) -> Array:
        """Fails for malformed JSON, or JSON that is not an Example."""

        def converted(data: bytes) -> bytes:
            try:
                message = json_format.Parse(data, Example())
            except (json_format.ParseError, UnicodeDecodeError) as error:
                raise InvalidArgumentError(message=f"Error while parsing JSON: {error}") from error
            return message.SerializeToString(deterministic=True)

        return mapped(converted, texts)

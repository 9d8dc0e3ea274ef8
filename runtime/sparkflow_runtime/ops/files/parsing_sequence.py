"""`tf.train.SequenceExample` messages: features of the whole, and lists of features."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from sparkflow_runtime.dtypes import DType, string
from sparkflow_runtime.errors import InvalidArgumentError
from sparkflow_runtime.ops.files.example_features import (
    as_array,
    dense_feature,
    parsed,
    sparse_batch,
    sparse_vector,
    values_of,
)
from sparkflow_runtime.ops.files.parsing import feature_types
from sparkflow_runtime.ops.op import Array, Inference
from sparkflow_runtime.ops.registry import register
from sparkflow_runtime.ops.signature import int_attr, list_attr
from sparkflow_runtime.ops.strings.string_arrays import StringOp, scalar_text, strings_of
from sparkflow_runtime.protos.example_pb2 import SequenceExample
from sparkflow_runtime.shapes import Shape


@register
class ParseSingleSequenceExample(StringOp):
    """Parses one SequenceExample message into one tensor per feature and per feature list."""

    inputs = (
        "serialized: string, feature_list_dense_missing_assumed_empty: string, "
        "context_sparse_keys: Ncontext_sparse * string, "
        "context_dense_keys: Ncontext_dense * string, "
        "feature_list_sparse_keys: Nfeature_list_sparse * string, "
        "feature_list_dense_keys: Nfeature_list_dense * string, "
        "context_dense_defaults: Tcontext_dense, debug_name: string"
    )
    outputs = (
        "context_sparse_indices: Ncontext_sparse * int64, "
        "context_sparse_values: context_sparse_types, "
        "context_sparse_shapes: Ncontext_sparse * int64, context_dense_values: Tcontext_dense, "
        "feature_list_sparse_indices: Nfeature_list_sparse * int64, "
        "feature_list_sparse_values: feature_list_sparse_types, "
        "feature_list_sparse_shapes: Nfeature_list_sparse * int64, "
        "feature_list_dense_values: feature_list_dense_types"
    )
    attrs = {
        "Ncontext_sparse": int_attr(0, minimum=0),
        "Ncontext_dense": int_attr(0, minimum=0),
        "Nfeature_list_sparse": int_attr(0, minimum=0),
        "Nfeature_list_dense": int_attr(0, minimum=0),
        "context_sparse_types": feature_types(default=[]),
        "Tcontext_dense": feature_types(default=[]),
        "feature_list_dense_types": feature_types(default=[]),
        "context_dense_shapes": list_attr("shape", [], minimum=0),
        "feature_list_sparse_types": feature_types(default=[]),
        "feature_list_dense_shapes": list_attr("shape", [], minimum=0),
    }

    def infer(self, node: Inference) -> list[Shape]:
        """Vectors and matrices for sparse features; lists have an unknown length.

        Raises:
            InvalidArgumentError: The message is not a scalar.
        """
        node.with_rank(0, 0, "Shape")
        attrs = node.attrs
        result: list[Shape] = []
        for count, rank in ((attrs["Ncontext_sparse"], 1), (attrs["Nfeature_list_sparse"], 2)):
            result += [(None, rank)] * count + [(None,)] * count + [(rank,)] * count
            if rank == 1:
                result += attrs["context_dense_shapes"]
        for shape in attrs["feature_list_dense_shapes"]:
            result.append(None if shape is None else (None, *shape))
        return result

    def compute(
        self,
        xp: Any,
        serialized: Array,
        assumed_empty: Array,
        *rest: Array,
        Ncontext_sparse: int,
        Ncontext_dense: int,
        Nfeature_list_sparse: int,
        Nfeature_list_dense: int,
        context_sparse_types: Sequence[DType],
        Tcontext_dense: Sequence[DType],
        feature_list_dense_types: Sequence[DType],
        context_dense_shapes: Sequence[Shape],
        feature_list_sparse_types: Sequence[DType],
        feature_list_dense_shapes: Sequence[Shape],
    ) -> tuple[Array, ...]:
        """Fails for malformed messages, and for features of another dtype or size."""
        left = iter(rest)
        context_sparse = _keys(left, Ncontext_sparse)
        context_dense = _keys(left, Ncontext_dense)
        list_sparse = _keys(left, Nfeature_list_sparse)
        list_dense = _keys(left, Nfeature_list_dense)
        defaults = [next(left) for _ in Tcontext_dense]
        name = strings_of(next(left))[0].decode() or "<unknown>"
        may_miss = {key.decode() for key in strings_of(assumed_empty)}
        message = parsed(
            SequenceExample, scalar_text(serialized, "serialized"), "sequence example input"
        )
        context, lists = message.context.feature, message.feature_lists.feature_list
        vectors = [
            sparse_vector(values_of(context.get(key), dtype, name, key) or (), dtype)
            for key, dtype in zip(context_sparse, context_sparse_types, strict=True)
        ]
        dense = [
            dense_feature(context.get(key), dtype, _known(shape), default, name, key)
            for key, dtype, shape, default in zip(
                context_dense, Tcontext_dense, context_dense_shapes, defaults, strict=True
            )
        ]
        matrices = [
            _sparse_sequence(lists.get(key), dtype, name, key)
            for key, dtype in zip(list_sparse, feature_list_sparse_types, strict=True)
        ]
        sequences = [
            _sequence(lists.get(key), dtype, _known(shape), key in may_miss, name, key)
            for key, dtype, shape in zip(
                list_dense, feature_list_dense_types, feature_list_dense_shapes, strict=True
            )
        ]
        return (
            *[triple[part] for part in range(3) for triple in vectors],
            *dense,
            *[triple[part] for part in range(3) for triple in matrices],
            *sequences,
        )


@register
class ParseSequenceExample(StringOp):
    """Parses a batch of SequenceExample messages into one tensor per feature and feature list."""

    inputs = "serialized: string, debug_name: string, context_dense_defaults: Tcontext_dense"
    outputs = (
        "context_sparse_indices: Ncontext_sparse * int64, "
        "context_sparse_values: context_sparse_types, "
        "context_sparse_shapes: Ncontext_sparse * int64, context_dense_values: Tcontext_dense, "
        "feature_list_sparse_indices: Nfeature_list_sparse * int64, "
        "feature_list_sparse_values: feature_list_sparse_types, "
        "feature_list_sparse_shapes: Nfeature_list_sparse * int64, "
        "feature_list_dense_values: feature_list_dense_types, "
        "feature_list_dense_lengths: Nfeature_list_dense * int64"
    )
    attrs = {
        "feature_list_dense_missing_assumed_empty": list_attr("string", minimum=0),
        "context_sparse_keys": list_attr("string", minimum=0),
        "context_dense_keys": list_attr("string", minimum=0),
        "feature_list_sparse_keys": list_attr("string", minimum=0),
        "feature_list_dense_keys": list_attr("string", minimum=0),
        **ParseSingleSequenceExample.attrs,
    }

    def infer(self, node: Inference) -> list[Shape]:
        """A row per message; the longest list is unknown.

        Raises:
            InvalidArgumentError: The messages are not a vector.
        """
        batch = node.with_rank(0, 1, "Shape")
        attrs = node.attrs
        result: list[Shape] = []
        for count, rank in ((attrs["Ncontext_sparse"], 2), (attrs["Nfeature_list_sparse"], 3)):
            result += [(None, rank)] * count + [(None,)] * count + [(rank,)] * count
            if rank == 2:
                result += [
                    None if shape is None else (*batch, *shape)
                    for shape in attrs["context_dense_shapes"]
                ]
        for shape in attrs["feature_list_dense_shapes"]:
            result.append(None if shape is None else (*batch, None, *shape))
        return result + [batch] * attrs["Nfeature_list_dense"]

    def compute(
        self,
        xp: Any,
        serialized: Array,
        debug_name: Array,
        *defaults: Array,
        feature_list_dense_missing_assumed_empty: Sequence[str],
        context_sparse_keys: Sequence[str],
        context_dense_keys: Sequence[str],
        feature_list_sparse_keys: Sequence[str],
        feature_list_dense_keys: Sequence[str],
        Ncontext_sparse: int,
        Ncontext_dense: int,
        Nfeature_list_sparse: int,
        Nfeature_list_dense: int,
        context_sparse_types: Sequence[DType],
        Tcontext_dense: Sequence[DType],
        feature_list_dense_types: Sequence[DType],
        context_dense_shapes: Sequence[Shape],
        feature_list_sparse_types: Sequence[DType],
        feature_list_dense_shapes: Sequence[Shape],
    ) -> tuple[Array, ...]:
        """Fails for malformed messages, and for features of another dtype or size."""
        messages = [
            parsed(SequenceExample, data, "sequence example input")
            for data in strings_of(serialized)
        ]
        names = _names(debug_name, len(messages))
        contexts = [message.context.feature for message in messages]
        lists = [message.feature_lists.feature_list for message in messages]
        matrices = [
            sparse_batch(
                [
                    values_of(context.get(key), dtype, name, key) or ()
                    for context, name in zip(contexts, names, strict=True)
                ],
                dtype,
            )
            for key, dtype in zip(context_sparse_keys, context_sparse_types, strict=True)
        ]
        dense = [
            _stacked(
                [
                    dense_feature(context.get(key), dtype, _known(shape), default, name, key)
                    for context, name in zip(contexts, names, strict=True)
                ],
                dtype,
                _known(shape),
            )
            for key, dtype, shape, default in zip(
                context_dense_keys, Tcontext_dense, context_dense_shapes, defaults, strict=True
            )
        ]
        cubes = [
            _sparse_sequences(
                [
                    _sparse_sequence(each.get(key), dtype, name, key)
                    for each, name in zip(lists, names, strict=True)
                ],
                dtype,
            )
            for key, dtype in zip(feature_list_sparse_keys, feature_list_sparse_types, strict=True)
        ]
        sequences = [
            _padded(
                [
                    _sequence(
                        each.get(key),
                        dtype,
                        _known(shape),
                        key in feature_list_dense_missing_assumed_empty,
                        name,
                        key,
                    )
                    for each, name in zip(lists, names, strict=True)
                ],
                dtype,
                _known(shape),
            )
            for key, dtype, shape in zip(
                feature_list_dense_keys,
                feature_list_dense_types,
                feature_list_dense_shapes,
                strict=True,
            )
        ]
        return (
            *[triple[part] for part in range(3) for triple in matrices],
            *dense,
            *[triple[part] for part in range(3) for triple in cubes],
            *[pair[part] for part in range(2) for pair in sequences],
        )


def _names(given: Array, count: int) -> list[str]:
    """Returns the name of each message in error texts."""
    names = [name.decode("utf-8", "replace") for name in strings_of(given)]
    if names and len(names) != count:
        raise InvalidArgumentError(
            message="Expected len(debug_name) == len(serialized), but got: "
            f"{len(names)} vs. {count}"
        )
    return names or ["<unknown>"] * count


def _stacked(rows: Sequence[Array], dtype: DType, shape: tuple[int, ...]) -> Array:
    result = np.empty((len(rows), *shape), dtype.as_numpy_dtype)
    for index, row in enumerate(rows):
        result[index, ...] = row
    return result


def _padded(rows: Sequence[Array], dtype: DType, shape: tuple[int, ...]) -> tuple[Array, Array]:
    """Returns lists as rows padded to the longest, and their lengths."""
    lengths = np.array([len(row) for row in rows], np.int64)
    full = (len(rows), int(lengths.max(initial=0)), *shape)
    result = np.full(full, b"" if dtype is string else 0, dtype.as_numpy_dtype)
    for index, row in enumerate(rows):
        result[index, : len(row)] = row
    return result, lengths


def _sparse_sequences(
    rows: Sequence[tuple[Array, Array, Array]], dtype: DType
) -> tuple[Array, Array, Array]:
    """Stacks sparse matrices into one sparse tensor with a new first axis."""
    places = [np.insert(indices, 0, index, axis=1) for index, (indices, _, _) in enumerate(rows)]
    sizes = np.array([shape for _, _, shape in rows], np.int64).reshape(-1, 2)
    return (
        np.concatenate([np.empty((0, 3), np.int64), *places]),
        np.concatenate([as_array([], dtype, (0,)), *(values for _, values, _ in rows)]),
        np.array([len(rows), *sizes.max(axis=0, initial=0)], np.int64),
    )


def _keys(inputs: Iterator[Array], count: int) -> list[str]:
    return [scalar_text(next(inputs), "key").decode() for _ in range(count)]


def _known(shape: Shape) -> tuple[int, ...]:
    return tuple(size or 0 for size in shape or ())


def _sparse_sequence(found: Any, dtype: DType, name: str, key: str) -> tuple[Array, Array, Array]:
    features = () if found is None else found.feature
    return sparse_batch([values_of(each, dtype, name, key) or () for each in features], dtype)


def _sequence(
    found: Any, dtype: DType, shape: tuple[int, ...], may_miss: bool, name: str, key: str
) -> Array:
    if found is None:
        if not may_miss:
            raise InvalidArgumentError(
                message=f"Name: {name}, Feature list '{key}' is required but could not be found.  "
                "Did you mean to include it in feature_list_dense_missing_assumed_empty or "
                "feature_list_dense_defaults?"
            )
        return as_array([], dtype, (0, *shape))
    rows = np.empty((len(found.feature), *shape), dtype.as_numpy_dtype)
    nothing = np.empty(0, dtype.as_numpy_dtype)
    for index, feature in enumerate(found.feature):
        rows[index, ...] = dense_feature(
            feature, dtype, shape, nothing, name, f"{key}, Index: {index}"
        )
    return rows

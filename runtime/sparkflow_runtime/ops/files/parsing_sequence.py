"""`tf.train.SequenceExample` messages: features of the whole, and lists of features."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from sparkflow_runtime.dtypes import DType
from sparkflow_runtime.errors import InvalidArgumentError
from sparkflow_runtime.ops.files.example_batch import wanted_features
from sparkflow_runtime.ops.files.parsing import feature_types, first, grouped, without_messages
from sparkflow_runtime.ops.files.sequence_batch import SequenceBatch
from sparkflow_runtime.ops.op import Array, Inference
from sparkflow_runtime.ops.registry import register
from sparkflow_runtime.ops.signature import int_attr, list_attr
from sparkflow_runtime.ops.strings.string_arrays import (
    StringOp,
    array_of,
    flat_strings,
    scalar_text,
    strings_of,
)
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
        batch = SequenceBatch(
            array_of([scalar_text(serialized, "serialized")], (1,)),
            [name],
            wanted_features(
                (*context_sparse, *context_dense),
                (*context_sparse_types, *Tcontext_dense),
                (*[None] * Ncontext_sparse, *map(_known, context_dense_shapes)),
            ),
            [*list_sparse, *list_dense],
        )
        vectors = [
            batch.context.vector(*each)
            for each in zip(context_sparse, context_sparse_types, strict=True)
        ]
        dense = [
            first(batch.context.dense(key, dtype, _known(shape), default))
            for key, dtype, shape, default in zip(
                context_dense, Tcontext_dense, context_dense_shapes, defaults, strict=True
            )
        ]
        matrices = [
            without_messages(*batch.sparse(*each))
            for each in zip(list_sparse, feature_list_sparse_types, strict=True)
        ]
        sequences = [
            batch.dense(key, dtype, _known(shape), key in may_miss)[0][0]
            for key, dtype, shape in zip(
                list_dense, feature_list_dense_types, feature_list_dense_shapes, strict=True
            )
        ]
        return (*grouped(vectors), *dense, *grouped(matrices), *sequences)


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
        messages = flat_strings(serialized)
        batch = SequenceBatch(
            messages,
            _names(debug_name, len(messages)),
            wanted_features(
                (*context_sparse_keys, *context_dense_keys),
                (*context_sparse_types, *Tcontext_dense),
                (*[None] * Ncontext_sparse, *map(_known, context_dense_shapes)),
            ),
            [*feature_list_sparse_keys, *feature_list_dense_keys],
        )
        matrices = [
            batch.context.sparse(*each)
            for each in zip(context_sparse_keys, context_sparse_types, strict=True)
        ]
        dense = [
            batch.context.dense(key, dtype, _known(shape), default)
            for key, dtype, shape, default in zip(
                context_dense_keys, Tcontext_dense, context_dense_shapes, defaults, strict=True
            )
        ]
        cubes = [
            batch.sparse(*each)
            for each in zip(feature_list_sparse_keys, feature_list_sparse_types, strict=True)
        ]
        may_miss = feature_list_dense_missing_assumed_empty
        sequences = [
            batch.dense(key, dtype, _known(shape), key in may_miss)
            for key, dtype, shape in zip(
                feature_list_dense_keys,
                feature_list_dense_types,
                feature_list_dense_shapes,
                strict=True,
            )
        ]
        values, lengths = ([pair[part] for pair in sequences] for part in range(2))
        return (*grouped(matrices), *dense, *grouped(cubes), *values, *lengths)


def _names(given: Array, count: int) -> list[str]:
    """Returns the name of each message in error texts."""
    names = [name.decode("utf-8", "replace") for name in strings_of(given)]
    if names and len(names) != count:
        raise InvalidArgumentError(
            message="Expected len(debug_name) == len(serialized), but got: "
            f"{len(names)} vs. {count}"
        )
    return names or ["<unknown>"] * count


def _keys(inputs: Iterator[Array], count: int) -> list[str]:
    return [scalar_text(next(inputs), "key").decode() for _ in range(count)]


def _known(shape: Shape) -> tuple[int, ...]:
    return tuple(size or 0 for size in shape or ())

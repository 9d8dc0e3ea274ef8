"""`tf.train.SequenceExample` messages: features of the whole, and lists of features."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from sparkflow_runtime.dtypes import DType
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
    """One SequenceExample message as one tensor per feature and per list of features."""

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
        """Vectors and matrices for what is sparse; lists have an unknown length.

        Raises:
            InvalidArgumentError: The message is no scalar.
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
        """Fails for what is no message, and for features of another dtype or size."""
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
            sparse_batch(
                [
                    values_of(feature, dtype, name, key) or ()
                    for feature in (lists[key].feature if key in lists else ())
                ],
                dtype,
            )
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


def _keys(inputs: Iterator[Array], count: int) -> list[str]:
    return [scalar_text(next(inputs), "key").decode() for _ in range(count)]


def _known(shape: Shape) -> tuple[int, ...]:
    return tuple(size or 0 for size in shape or ())


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

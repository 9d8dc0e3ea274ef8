"""`tf.parse_example` and its like: serialized messages as tensors, tensors as strings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np

from sparkflow._api import export
from sparkflow._generated.ops.files.parsing import *  # noqa: F403
from sparkflow.graph.scopes import apply_op, convert_to_tensor, name_scope, output_of
from sparkflow.graph.shapes.tensor_shape import TensorShape
from sparkflow.graph.tensor import Tensor
from sparkflow.graph.values.sparse_tensor import SparseTensor
from sparkflow.ops.files.parsing_config import (
    FixedLenFeature,
    FixedLenSequenceFeature,
    SparseFeature,
    VarLenFeature,
)
from sparkflow_runtime.dtypes import DType, as_dtype, int64, string


@dataclass(slots=True)
class _Raw:
    """Converts the features to the form that the ops accept."""

    sparse_keys: list[str] = field(default_factory=list)
    sparse_types: list[DType] = field(default_factory=list)
    dense_keys: list[str] = field(default_factory=list)
    dense_types: list[DType] = field(default_factory=list)
    dense_shapes: list[tuple[int | None, ...]] = field(default_factory=list)
    defaults: list[Any] = field(default_factory=list)
    assumed_empty: list[str] = field(default_factory=list)

    def add_sparse(self, key: str, dtype: Any) -> None:
        kind = as_dtype(dtype)
        if key in self.sparse_keys:
            known = self.sparse_types[self.sparse_keys.index(key)]
            if known is not kind:
                raise ValueError(f"Conflicting type {known} vs {kind} for feature {key}.")
            return
        self.sparse_keys.append(key)
        self.sparse_types.append(kind)

    def add_dense(self, key: str, dtype: Any, shape: Any, default: Any) -> None:
        self.dense_keys.append(key)
        self.dense_types.append(as_dtype(dtype))
        self.dense_shapes.append(shape)
        self.defaults.append(default)


def _raw_of(features: Mapping[str, Any], allowed: tuple[type, ...], sequences: bool) -> _Raw:
    raw = _Raw()
    for key in sorted(features):
        feature: Any = features[key]
        if not issubclass(type(feature), allowed):
            names = ", ".join(kind.__name__ for kind in allowed)
            raise ValueError(f"Unsupported {type(feature).__name__} {feature}; give one of {names}")
        if not isinstance(feature, SparseFeature) and not feature.dtype:
            raise ValueError(f"Missing type for feature {key}. Received feature={feature}.")
        if isinstance(feature, VarLenFeature):
            raw.add_sparse(key, feature.dtype)
        elif isinstance(feature, SparseFeature):
            _add_sparse_feature(raw, key, feature)
        elif isinstance(feature, FixedLenFeature):
            if feature.shape is None:
                raise ValueError(f"Missing shape for feature {key}. Received feature={feature}.")
            raw.add_dense(key, feature.dtype, _sizes(feature.shape, key), feature.default_value)
        else:
            _add_sequence(raw, key, feature, sequences)
    return raw


def _sizes(shape: Any, key: str) -> tuple[int | None, ...]:
    sizes = TensorShape(shape)
    if not sizes.is_fully_defined():
        raise ValueError(
            f"All dimensions of shape for feature {key} need to be known but received {sizes}."
        )
    return tuple(sizes.as_list())


def _add_sparse_feature(raw: _Raw, key: str, feature: SparseFeature) -> None:
    if not feature.index_key or not feature.value_key or not feature.dtype or not feature.size:
        raise ValueError(f"Missing index_key, value_key, dtype or size for SparseFeature {key}")
    for index_key in sorted(_listed(feature.index_key)):
        raw.add_sparse(index_key, int64)
    raw.add_sparse(feature.value_key, feature.dtype)


def _add_sequence(raw: _Raw, key: str, feature: FixedLenSequenceFeature, sequences: bool) -> None:
    if feature.shape is None:
        raise ValueError(f"Missing shape for feature {key}. Received feature={feature}.")
    sizes = _sizes(feature.shape, key)
    if sequences:
        raw.add_dense(key, feature.dtype, sizes, None)
        if feature.allow_missing:
            raw.assumed_empty.append(key)
        if feature.default_value is not None:
            raise ValueError("default_value is not used in sequence_features")
        return
    if not feature.allow_missing:
        raise ValueError(
            "Unsupported: FixedLenSequenceFeature requires allow_missing to be True. "
            f"Received feature={feature} for feature {key}"
        )
    default = feature.default_value
    if default is None:
        default = "" if as_dtype(feature.dtype) is string else 0
    raw.add_dense(key, feature.dtype, (None, *sizes), default)


def _listed(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list | tuple) else [value]


def _defaults(raw: _Raw) -> list[Tensor]:
    """Returns a default per dense feature; an empty one if the feature is required.

    Raises:
        ValueError: A default does not have the feature's shape.
    """
    tensors = []
    for key, dtype, shape, given in zip(
        raw.dense_keys, raw.dense_types, raw.dense_shapes, raw.defaults, strict=True
    ):
        if given is None:
            tensors.append(convert_to_tensor(np.empty(0, dtype.as_numpy_dtype), dtype))
            continue
        value = convert_to_tensor(given, dtype, name=f"key_{_name_part(key)}")
        is_sequence = None in shape
        if not is_sequence:
            value = apply_op("Reshape", value, convert_to_tensor(list(shape), int64))
        tensors.append(value)
    return tensors


def _name_part(key: str) -> str:
    return "".join(c if c.isalnum() or c in "_.-" else "_" for c in key)


def _cut(outputs: Sequence[Any], counts: Sequence[int]) -> list[list[Tensor]]:
    """Groups outputs; a type list becomes a group of tensors."""
    flat: list[Tensor] = []
    for each in outputs:
        flat += each if isinstance(each, list | tuple) else [each]
    groups, at = [], 0
    for count in counts:
        groups.append(flat[at : at + count])
        at += count
    return groups


def _outputs(found: Any) -> list[Any]:
    return list(found) if isinstance(found, list | tuple) else [found]


def _by_key(raw: _Raw, groups: Sequence[Sequence[Tensor]]) -> dict[str, Any]:
    indices, values, sizes, dense = groups
    sparse = map(SparseTensor, indices, values, sizes)
    return dict(zip([*raw.sparse_keys, *raw.dense_keys], [*sparse, *dense], strict=True))


@export("parse_example", "io.parse_example")
def parse_example(
    serialized: Any,
    features: Mapping[str, Any],
    name: str | None = None,
    example_names: Any = None,
) -> dict[str, Any]:
    """Parses a batch of `tf.train.Example` messages into one tensor per feature.

    Args:
        serialized: [batch] strings.
        features: By key a `FixedLenFeature`, `VarLenFeature`, `SparseFeature` or
            `FixedLenSequenceFeature`.
        name: Name scope of the nodes.
        example_names: [batch] strings that error texts show.

    Returns:
        By key a dense tensor [batch, ...] or a SparseTensor.

    Raises:
        ValueError: There are no features, or one lacks its dtype or shape.
    """
    if not features:
        raise ValueError("Missing features.")
    raw = _raw_of(
        features, (VarLenFeature, SparseFeature, FixedLenFeature, FixedLenSequenceFeature), False
    )
    with name_scope(name, "ParseExample", [serialized, example_names]):
        found = apply_op(
            "ParseExample",
            convert_to_tensor(serialized, string, name="serialized"),
            convert_to_tensor(
                np.empty(0, object) if example_names is None else example_names, string
            ),
            [convert_to_tensor(key, string) for key in raw.sparse_keys],
            [convert_to_tensor(key, string) for key in raw.dense_keys],
            _defaults(raw),
            sparse_types=raw.sparse_types,
            dense_shapes=raw.dense_shapes,
            name=name,
        )
        counts = [len(raw.sparse_keys)] * 3 + [len(raw.dense_keys)]
        parsed = _by_key(raw, _cut(_outputs(found), counts))
        return _with_sparse_features(features, parsed, batch=True)


@export("parse_single_example", "io.parse_single_example")
def parse_single_example(
    serialized: Any,
    features: Mapping[str, Any],
    name: str | None = None,
    example_names: Any = None,
) -> dict[str, Any]:
    """Parses one `tf.train.Example` message into one tensor per feature, without a batch axis.

    Args:
        serialized: A scalar string.
        features: As for `parse_example`.
        name: Name scope of the nodes.
        example_names: A scalar string that error texts show.

    Raises:
        ValueError: There are no features, or one lacks its dtype or shape.
    """
    if not features:
        raise ValueError("Missing features.")
    raw = _raw_of(
        features, (VarLenFeature, FixedLenFeature, FixedLenSequenceFeature, SparseFeature), False
    )
    with name_scope(name, "ParseSingleExample", [serialized, example_names]):
        found = apply_op(
            "ParseSingleExample",
            convert_to_tensor(serialized, string, name="serialized"),
            _defaults(raw),
            num_sparse=len(raw.sparse_keys),
            sparse_keys=raw.sparse_keys,
            dense_keys=raw.dense_keys,
            sparse_types=raw.sparse_types,
            dense_shapes=raw.dense_shapes,
            name=name,
        )
        counts = [len(raw.sparse_keys)] * 3 + [len(raw.dense_keys)]
        parsed = _by_key(raw, _cut(_outputs(found), counts))
        return _with_sparse_features(features, parsed, batch=False)


def _with_sparse_features(
    features: Mapping[str, Any], parsed: dict[str, Any], batch: bool
) -> dict[str, Any]:
    """Assembles every SparseFeature from its parts; drops keys that were only parts."""
    result = {key: parsed[key] for key in features if key in parsed}
    for key in sorted(features):
        feature = features[key]
        if isinstance(feature, SparseFeature):
            parts = [parsed[each] for each in _listed(feature.index_key)]
            result[key] = _merged(feature, parts, parsed[feature.value_key], batch)
    return result


def _merged(
    feature: SparseFeature, parts: Sequence[SparseTensor], values: SparseTensor, batch: bool
) -> Any:
    columns = [apply_op("ExpandDims", part.values, 1) for part in parts]
    sizes: Any = apply_op("Cast", convert_to_tensor(_listed(feature.size)), DstT=int64)
    if batch:
        columns.insert(
            0,
            apply_op(
                "StridedSlice", values.indices, [0, 0], [0, 1], [1, 1], begin_mask=1, end_mask=1
            ),
        )
        rows = apply_op("StridedSlice", values.dense_shape, [0], [1], [1])
        sizes = apply_op("ConcatV2", [rows, sizes], 0)
    merged = columns[0] if len(columns) == 1 else apply_op("ConcatV2", columns, 1)
    if feature.already_sorted:
        return SparseTensor(merged, values.values, sizes)
    ordered, moved = apply_op("SparseReorder", merged, values.values, sizes)
    return SparseTensor(ordered, moved, sizes)


@export("parse_single_sequence_example", "io.parse_single_sequence_example")
def parse_single_sequence_example(
    serialized: Any,
    context_features: Mapping[str, Any] | None = None,
    sequence_features: Mapping[str, Any] | None = None,
    example_name: Any = None,
    name: str | None = None,
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Parses one `tf.train.SequenceExample` message into tensors.

    Args:
        serialized: A scalar string.
        context_features: By key a `FixedLenFeature` or `VarLenFeature`.
        sequence_features: By key a `FixedLenSequenceFeature` or `VarLenFeature`.
        example_name: A scalar string that error texts show.
        name: Name scope of the nodes.

    Returns:
        The context's tensors by key, and the lists' tensors with a leading time axis.

    Raises:
        ValueError: There are no features, or one lacks its dtype or shape.
    """
    if not (context_features or sequence_features):
        raise ValueError("Missing features.")
    context = _raw_of(context_features or {}, (VarLenFeature, FixedLenFeature), False)
    lists = _raw_of(sequence_features or {}, (VarLenFeature, FixedLenSequenceFeature), True)
    with name_scope(name, "ParseSingleSequenceExample", [serialized, example_name]):

        def keys(of: Sequence[str]) -> list[Tensor]:
            return [convert_to_tensor(key, string) for key in of]

        found = apply_op(
            "ParseSingleSequenceExample",
            convert_to_tensor(serialized, string, name="serialized"),
            convert_to_tensor(np.array(lists.assumed_empty, object), string),
            keys(context.sparse_keys),
            keys(context.dense_keys),
            keys(lists.sparse_keys),
            keys(lists.dense_keys),
            _defaults(context),
            convert_to_tensor("" if example_name is None else example_name, string),
            context_sparse_types=context.sparse_types,
            context_dense_shapes=context.dense_shapes,
            feature_list_sparse_types=lists.sparse_types,
            feature_list_dense_types=lists.dense_types,
            feature_list_dense_shapes=lists.dense_shapes,
            name=name,
        )
        counts = [
            *[len(context.sparse_keys)] * 3,
            len(context.dense_keys),
            *[len(lists.sparse_keys)] * 3,
            len(lists.dense_keys),
        ]
        groups = _cut(_outputs(found), counts)
        return _by_key(context, groups[:4]), _by_key(lists, groups[4:])


@export("io.parse_sequence_example")
def parse_sequence_example(
    serialized: Any,
    context_features: Mapping[str, Any] | None = None,
    sequence_features: Mapping[str, Any] | None = None,
    example_names: Any = None,
    name: str | None = None,
) -> tuple[dict[str, Any], dict[str, Any], dict[str, Tensor]]:
    """Parses a batch of `tf.train.SequenceExample` messages into tensors.

    Args:
        serialized: [batch] strings.
        context_features: By key a `FixedLenFeature` or `VarLenFeature`.
        sequence_features: By key a `FixedLenSequenceFeature` or `VarLenFeature`.
        example_names: [batch] strings that error texts show.
        name: Name scope of the nodes.

    Returns:
        The context's tensors by key, [batch, ...]; the lists' tensors, [batch, time, ...], dense
        ones padded to the longest with zeros or empty strings; and by key of a dense list its
        unpadded lengths, [batch].

    Raises:
        ValueError: There are no features, or one lacks its dtype or shape.
    """
    if not (context_features or sequence_features):
        raise ValueError("Missing features.")
    context = _raw_of(context_features or {}, (VarLenFeature, FixedLenFeature), False)
    lists = _raw_of(sequence_features or {}, (VarLenFeature, FixedLenSequenceFeature), True)
    with name_scope(name, "ParseSequenceExample", [serialized, example_names]):
        found = apply_op(
            "ParseSequenceExample",
            convert_to_tensor(serialized, string, name="serialized"),
            convert_to_tensor(
                np.empty(0, object) if example_names is None else example_names, string
            ),
            _defaults(context),
            feature_list_dense_missing_assumed_empty=lists.assumed_empty,
            context_sparse_keys=context.sparse_keys,
            context_dense_keys=context.dense_keys,
            feature_list_sparse_keys=lists.sparse_keys,
            feature_list_dense_keys=lists.dense_keys,
            Ncontext_sparse=len(context.sparse_keys),
            Ncontext_dense=len(context.dense_keys),
            Nfeature_list_sparse=len(lists.sparse_keys),
            Nfeature_list_dense=len(lists.dense_keys),
            context_sparse_types=context.sparse_types,
            context_dense_shapes=context.dense_shapes,
            feature_list_sparse_types=lists.sparse_types,
            feature_list_dense_types=lists.dense_types,
            feature_list_dense_shapes=lists.dense_shapes,
            name=name,
        )
        counts = [
            *[len(context.sparse_keys)] * 3,
            len(context.dense_keys),
            *[len(lists.sparse_keys)] * 3,
            *[len(lists.dense_keys)] * 2,
        ]
        groups = _cut(_outputs(found), counts)
        lengths = dict(zip(lists.dense_keys, groups[8], strict=True))
        return _by_key(context, groups[:4]), _by_key(lists, groups[4:8]), lengths


@export("serialize_tensor", "io.serialize_tensor")
def serialize_tensor(tensor: Any, name: str | None = None) -> Tensor:
    """Serializes a tensor as a TensorProto."""
    return output_of("SerializeTensor", convert_to_tensor(tensor), name=name)


@export("decode_csv", "io.decode_csv")
def decode_csv(
    records: Any,
    record_defaults: Sequence[Any],
    field_delim: str = ",",
    use_quote_delim: bool = True,
    name: str | None = None,
    na_value: str = "",
    select_cols: Sequence[int] | None = None,
) -> list[Tensor]:
    """Parses lines of comma-separated values into one tensor per column.

    Args:
        records: Strings, each one line.
        record_defaults: Per column a list with its default, which determines the dtype; an empty
            tensor if the field is required.
        field_delim: The separator of fields.
        use_quote_delim: Whether fields may be in double quotes.
        name: The node's name.
        na_value: Denotes a missing value, as an empty field does.
        select_cols: The wanted columns, in order; all if None.

    Raises:
        ValueError: `select_cols` are not increasing, or do not match the defaults.
    """
    if select_cols is not None:
        if any(low >= high for low, high in pairwise(select_cols)):
            raise ValueError("select_cols is not strictly increasing.")
        if select_cols and select_cols[0] < 0:
            raise ValueError("select_cols contains negative values.")
        if len(select_cols) != len(record_defaults):
            raise ValueError("Length of select_cols and record_defaults do not match.")
    columns = apply_op(
        "DecodeCSV",
        records,
        [convert_to_tensor(each) for each in record_defaults],
        field_delim=field_delim,
        use_quote_delim=use_quote_delim,
        na_value=na_value,
        select_cols=list(select_cols or ()),
        name=name,
    )
    return _outputs(columns)

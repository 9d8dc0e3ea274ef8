"""Columns of sequences: values per step of time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from sparkflow.feature_column.categorical import (
    categorical_column_with_hash_bucket,
    categorical_column_with_identity,
    categorical_column_with_vocabulary_file,
    categorical_column_with_vocabulary_list,
)
from sparkflow.feature_column.column import (
    CategoricalColumn,
    Features,
    IdWeightPair,
    SequenceColumn,
    require_text,
)
from sparkflow.feature_column.embedded import EmbeddingColumn, IndicatorColumn
from sparkflow.feature_column.numeric import checked_shape
from sparkflow.graph.collections import GraphKeys
from sparkflow.graph.scopes import control_dependencies, name_scope
from sparkflow.graph.shapes.tensor_shape import TensorShape
from sparkflow.graph.tensor import Tensor
from sparkflow.graph.values.sparse_tensor import SparseTensor
from sparkflow.ops.checks.checks import assert_equal
from sparkflow.ops.control.ordering import identity
from sparkflow.ops.elementwise.elementwise import cast, floordiv
from sparkflow.ops.files.parsing_config import VarLenFeature
from sparkflow.ops.indexing.segment import segment_max
from sparkflow.ops.reduction.reduction import reduce_prod
from sparkflow.ops.shape import arrays, constants
from sparkflow.ops.sparse.sparse_layout import sparse_reshape, sparse_tensor_to_dense
from sparkflow.variables.variable_scope import variable_scope
from sparkflow_runtime.dtypes import DType, as_dtype, float32, int64, string


class Sequences(NamedTuple):
    """The values of a batch of sequences.

    Attributes:
        dense_tensor: `[batch, steps, ...]` float32.
        sequence_length: `[batch]` int64.
    """

    dense_tensor: Tensor
    sequence_length: Tensor


@dataclass(frozen=True)
class SequenceCategoricalColumn(CategoricalColumn, SequenceColumn):
    """Categories per step."""

    categorical_column: CategoricalColumn

    @property
    def name(self) -> str:
        """The name of the categories."""
        return self.categorical_column.name

    @property
    def parse_example_spec(self) -> dict[str, Any]:
        """That of the categories."""
        return self.categorical_column.parse_example_spec

    @property
    def num_buckets(self) -> int:
        """That of the categories."""
        return self.categorical_column.num_buckets

    def transform(self, features: Features) -> IdWeightPair:
        """The categories, `[batch, steps, values]`."""
        ids, weights = self.categorical_column.id_weights(features)
        return IdWeightPair(_of_rank_3(ids), None if weights is None else _of_rank_3(weights))

    def id_weights(self, features: Features) -> IdWeightPair:
        """The categories."""
        found: IdWeightPair = features.get(self)
        return found


def _of_rank_3(sparse: SparseTensor) -> SparseTensor:
    shape = sparse.dense_shape  # in a graph, its length may be unknown
    # The size is computed: -1 has no meaning where a batch has no steps.
    return sparse_reshape(sparse, arrays.stack([shape[0], shape[1], reduce_prod(shape[2:])]))


def sequence_categorical_column_with_identity(
    key: str, num_buckets: int, default_value: int | None = None
) -> SequenceCategoricalColumn:
    """Like `categorical_column_with_identity`, per step."""
    return SequenceCategoricalColumn(
        categorical_column_with_identity(key, num_buckets, default_value)
    )


def sequence_categorical_column_with_hash_bucket(
    key: str, hash_bucket_size: int, dtype: Any = string
) -> SequenceCategoricalColumn:
    """Like `categorical_column_with_hash_bucket`, per step."""
    return SequenceCategoricalColumn(
        categorical_column_with_hash_bucket(key, hash_bucket_size, dtype)
    )


def sequence_categorical_column_with_vocabulary_file(
    key: str,
    vocabulary_file: Any,
    vocabulary_size: int | None = None,
    num_oov_buckets: int = 0,
    default_value: int | None = None,
    dtype: Any = string,
) -> SequenceCategoricalColumn:
    """Like `categorical_column_with_vocabulary_file`, per step."""
    given = (key, vocabulary_file, vocabulary_size, num_oov_buckets, default_value, dtype)
    return SequenceCategoricalColumn(categorical_column_with_vocabulary_file(*given))


def sequence_categorical_column_with_vocabulary_list(
    key: str,
    vocabulary_list: Any,
    dtype: Any = None,
    default_value: int = -1,
    num_oov_buckets: int = 0,
) -> SequenceCategoricalColumn:
    """Like `categorical_column_with_vocabulary_list`, per step."""
    given = (key, vocabulary_list, dtype, default_value, num_oov_buckets)
    return SequenceCategoricalColumn(categorical_column_with_vocabulary_list(*given))


@dataclass(frozen=True)
class SequenceNumericColumn(SequenceColumn):
    """Numbers per step."""

    key: str
    shape: tuple[int, ...]
    default_value: float
    dtype: DType
    normalizer_fn: Callable[[Any], Any] | None

    @property
    def name(self) -> str:
        """The feature's name."""
        return self.key

    @property
    def parse_example_spec(self) -> dict[str, Any]:
        """Any number of values."""
        return {self.key: VarLenFeature(self.dtype)}

    @property
    def variable_shape(self) -> TensorShape:
        """The shape of one step."""
        return TensorShape(self.shape)

    def transform(self, features: Features) -> SparseTensor:
        """The sparse feature, normalised."""
        found: SparseTensor = features.get(self.key)
        if self.normalizer_fn is not None:
            found = self.normalizer_fn(found)
        return found

    def sequences(self, features: Features) -> Sequences:
        """The numbers, filled up with the default."""
        sparse = features.get(self)
        dense = sparse_tensor_to_dense(sparse, default_value=self.default_value)
        batch = arrays.shape(dense)[0]
        shape = arrays.concat([[batch], [-1], list(self.shape)], 0)
        elements = TensorShape(self.shape).num_elements() if sparse.shape.ndims == 2 else 1
        values = cast(arrays.reshape(dense, shape), float32)
        return Sequences(values, _lengths(sparse, elements or 1))


def sequence_numeric_column(
    key: str,
    shape: Any = (1,),
    default_value: float = 0.0,
    dtype: Any = float32,
    normalizer_fn: Callable[[Any], Any] | None = None,
) -> SequenceNumericColumn:
    """A column of real numbers per step.

    Args:
        key: The feature's name; it is sparse.
        shape: The shape of one step's numbers.
        default_value: What shorter sequences are filled up with.
        dtype: Of the feature.
        normalizer_fn: What is made of the sparse tensor first.

    Raises:
        TypeError: The shape is of the wrong kind.
        ValueError: A size is below 1, or the dtype is neither integer nor real.
    """
    sizes = checked_shape(shape, key)
    kind = as_dtype(dtype)
    if not (kind.is_integer or kind.is_floating):
        raise ValueError(f"dtype must be convertible to float. dtype: {kind}, key: {key}")
    if normalizer_fn is not None and not callable(normalizer_fn):
        raise TypeError(f"normalizer_fn must be a callable. Given: {normalizer_fn}")
    require_text(key)
    return SequenceNumericColumn(key, sizes, default_value, kind, normalizer_fn)


def _lengths(sparse: SparseTensor, elements: int = 1) -> Tensor:
    """`[batch]` int64: one more than the last step that has a value."""
    rows, steps = sparse.indices[:, 0], sparse.indices[:, 1] + 1
    found = floordiv(segment_max(steps, rows) + (elements - 1), elements)
    batch = sparse.dense_shape[0]
    missing = batch - arrays.shape(found, out_type=int64)[0]
    nothing = constants.fill(arrays.reshape(missing, [1]), constants.constant(0, int64))
    return arrays.concat([found, nothing], 0)


def sequence_input_layer(
    features: Any,
    feature_columns: Sequence[Any],
    weight_collections: Any = None,
    trainable: bool = True,
    scope: Any = None,
) -> tuple[Tensor, Tensor]:
    """The concatenated values of sequence columns, as in `tf.contrib.feature_column`.

    Args:
        features: Sparse tensors by name.
        feature_columns: Sequence columns: numeric, or embeddings and indicators of categories.
        weight_collections: Where variables are listed, beside the usual collections.
        trainable: Whether they are trained.
        scope: The variable scope.

    Returns:
        `[batch, steps, values]` float32, and the lengths `[batch]` int64.

    Raises:
        ValueError: A column is no sequence.
        InvalidArgumentError: When the lengths are computed: those of columns differ.
    """
    collections = list(weight_collections or [])
    for name in (GraphKeys.GLOBAL_VARIABLES, GraphKeys.MODEL_VARIABLES):
        if name not in collections:
            collections.append(name)
    with variable_scope(scope, "sequence_input_layer"):
        cache, outputs, lengths = Features(features), [], []
        for column in sorted(feature_columns, key=lambda each: str(each.name)):
            with variable_scope(None, column.scope_name):
                values, length = _sequences(column, cache, collections, trainable)
                size = column.variable_shape.num_elements()
                shape = arrays.shape(values)
                outputs.append(arrays.reshape(values, arrays.concat([shape[:2], [size]], 0)))
                lengths.append(length)
        return arrays.concat(outputs, -1), _equal_lengths(lengths)


def _equal_lengths(lengths: Sequence[Tensor]) -> Tensor:
    """The first; when it runs, the others must be the same."""
    first, *others = lengths
    if not others:
        return first
    with name_scope(None, "assert_all_equal", lengths):
        text = "Columns of sequences in one layer must be of the same lengths:"
        checks = [assert_equal(first, each, message=text) for each in others]
        with control_dependencies(checks):
            found: Tensor = identity(first)
            return found


def _sequences(column: Any, features: Features, collections: Any, trainable: bool) -> Sequences:
    if isinstance(column, SequenceNumericColumn):
        return column.sequences(features)
    if isinstance(column, EmbeddingColumn | IndicatorColumn) and isinstance(
        column.categorical_column, SequenceColumn
    ):
        ids = column.categorical_column.id_weights(features).ids
        if isinstance(column, EmbeddingColumn):
            return Sequences(column.looked_up(features, collections, trainable), _lengths(ids))
        return Sequences(features.get(column), _lengths(ids))
    raise ValueError(
        "All feature_columns must be of type SequenceDenseColumn. You can wrap a "
        f"sequence_categorical_column with an embedding_column or indicator_column. Given "
        f"(type {type(column).__name__}): {column}"
    )

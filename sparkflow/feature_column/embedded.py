"""Columns that make numbers of categories: one-hot, and rows of a table that is learned."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from sparkflow.embedding.sparse_lookup import safe_embedding_lookup_sparse
from sparkflow.feature_column.categorical import WeightedColumn
from sparkflow.feature_column.column import (
    CategoricalColumn,
    DenseColumn,
    Features,
    IdWeightPair,
    SequenceColumn,
)
from sparkflow.graph.scopes import add_to_collection, get_collection
from sparkflow.graph.shapes.tensor_shape import TensorShape
from sparkflow.graph.tensor import Tensor
from sparkflow.ops.elementwise.elementwise import cast
from sparkflow.ops.reduction.reduction import reduce_sum
from sparkflow.ops.shape import arrays
from sparkflow.ops.sparse.sparse_layout import sparse_tensor_to_dense
from sparkflow.train.checkpoints.initialising import init_from_checkpoint
from sparkflow.variables.initializers import TruncatedNormal
from sparkflow.variables.variable_scope import get_variable
from sparkflow_runtime.dtypes import float32


def _refuse_sequence(column: Any, name: str, kind: str) -> None:
    if isinstance(column, SequenceColumn):
        raise ValueError(
            f"In {kind}: {name}. categorical_column must not be of type "
            f"SequenceCategoricalColumn. Suggested fix A: If you wish to use input_layer, use a "
            "non-sequence categorical_column_with_*. Suggested fix B: If you wish to create "
            "sequence input, use sequence_input_layer instead of input_layer. "
            f"Given (type {type(column).__name__}): {column}"
        )


@dataclass(frozen=True)
class IndicatorColumn(DenseColumn):
    """How often each category occurs in an example."""

    categorical_column: CategoricalColumn

    @property
    def name(self) -> str:
        """The name of the categories with a suffix."""
        return f"{self.categorical_column.name}_indicator"

    @property
    def parse_example_spec(self) -> dict[str, Any]:
        """That of the categories."""
        return self.categorical_column.parse_example_spec

    @property
    def variable_shape(self) -> TensorShape:
        """One number per category."""
        return TensorShape([1, self.categorical_column.num_buckets])

    def transform(self, features: Features) -> Tensor:
        """`[batch, categories]`, or `[batch, steps, categories]`."""
        ids, weights = self.categorical_column.id_weights(features)
        depth = self.categorical_column.num_buckets
        dense = sparse_tensor_to_dense(ids, default_value=-1)
        ones = arrays.one_hot(dense, depth, on_value=1.0, off_value=0.0)
        if weights is not None:
            factors = cast(sparse_tensor_to_dense(weights, default_value=0), float32)
            ones = ones * arrays.expand_dims(factors, -1)
        return reduce_sum(ones, axis=[-2])

    def dense_tensor(self, features: Features, collections: Any, trainable: bool) -> Tensor:
        """The counts.

        Raises:
            ValueError: The categories are a sequence.
        """
        _refuse_sequence(self.categorical_column, self.name, "indicator_column")
        found: Tensor = features.get(self)
        return found


def indicator_column(categorical_column: CategoricalColumn) -> IndicatorColumn:
    """A column of how often each category occurs.

    Args:
        categorical_column: The categories.
    """
    return IndicatorColumn(categorical_column)


@dataclass(frozen=True)
class EmbeddingColumn(DenseColumn):
    """Rows of a table, one per category, combined for each example."""

    categorical_column: CategoricalColumn
    dimension: int
    combiner: str
    initializer: Callable[..., Any]
    ckpt_to_load_from: Any
    tensor_name_in_ckpt: str | None
    max_norm: float | None
    trainable: bool
    use_safe_embedding_lookup: bool

    @property
    def name(self) -> str:
        """The name of the categories with a suffix."""
        return f"{self.categorical_column.name}_embedding"

    @property
    def parse_example_spec(self) -> dict[str, Any]:
        """That of the categories."""
        return self.categorical_column.parse_example_spec

    @property
    def variable_shape(self) -> TensorShape:
        """The length of a row."""
        return TensorShape([self.dimension])

    def transform(self, features: Features) -> IdWeightPair:
        """The categories."""
        return self.categorical_column.id_weights(features)

    def table(self, collections: Any, trainable: bool) -> Any:
        """The variable `[categories, dimension]`."""
        return _table(self, collections, trainable)

    def looked_up(self, features: Features, collections: Any, trainable: bool) -> Tensor:
        """The combined rows: `[..., dimension]`."""
        ids, weights = features.get(self)
        return safe_embedding_lookup_sparse(
            self.table(collections, trainable and self.trainable),
            ids,
            weights,
            combiner=self.combiner,
            name=f"{self.name}_weights",
            max_norm=self.max_norm,
        )

    def dense_tensor(self, features: Features, collections: Any, trainable: bool) -> Tensor:
        """The rows.

        Raises:
            ValueError: The categories are a sequence.
        """
        _refuse_sequence(self.categorical_column, self.name, "embedding_column")
        return self.looked_up(features, collections, trainable)


def _table(column: EmbeddingColumn, collections: Any, trainable: bool) -> Any:
    variable = get_variable(
        "embedding_weights",
        shape=[column.categorical_column.num_buckets, column.dimension],
        dtype=float32,
        initializer=column.initializer,
        trainable=trainable,
        collections=collections,
    )
    if column.ckpt_to_load_from is not None:
        init_from_checkpoint(column.ckpt_to_load_from, {str(column.tensor_name_in_ckpt): variable})
    return variable


def embedding_column(
    categorical_column: CategoricalColumn,
    dimension: int,
    combiner: str = "mean",
    initializer: Callable[..., Any] | None = None,
    ckpt_to_load_from: Any = None,
    tensor_name_in_ckpt: str | None = None,
    max_norm: float | None = None,
    trainable: bool = True,
    use_safe_embedding_lookup: bool = True,
) -> EmbeddingColumn:
    """A column of rows of a table that is learned.

    Args:
        categorical_column: The categories.
        dimension: The length of a row.
        combiner: How rows of one example are combined: `mean`, `sqrtn` or `sum`.
        initializer: Of the table; a truncated normal one of deviation 1/√dimension when None.
        ckpt_to_load_from: A checkpoint the table starts from.
        tensor_name_in_ckpt: Its name there.
        max_norm: The largest norm of a row.
        trainable: Whether the table is trained.
        use_safe_embedding_lookup: Accepted; examples without a category get zeros either way.

    Raises:
        ValueError: No dimension, an initializer that is no function, or half a checkpoint.
    """
    _check_dimension(dimension)
    if (ckpt_to_load_from is None) != (tensor_name_in_ckpt is None):
        raise ValueError(
            "Must specify both `ckpt_to_load_from` and `tensor_name_in_ckpt` or none of them."
        )
    start = _checked_initializer(initializer, dimension, categorical_column.name)
    return EmbeddingColumn(
        categorical_column,
        dimension,
        combiner,
        start,
        ckpt_to_load_from,
        tensor_name_in_ckpt,
        max_norm,
        trainable,
        use_safe_embedding_lookup,
    )


def _check_dimension(dimension: Any) -> None:
    if dimension is None or dimension < 1:
        raise ValueError(f"Invalid dimension {dimension}.")


def _checked_initializer(initializer: Any, dimension: int, name: str) -> Callable[..., Any]:
    if initializer is None:
        return TruncatedNormal(mean=0.0, stddev=1 / math.sqrt(dimension))
    if not callable(initializer):
        raise ValueError(
            "initializer must be callable if specified. Embedding of column_name: " + name
        )
    made: Callable[..., Any] = initializer
    return made


@dataclass(frozen=True)
class SharedEmbeddingColumn(EmbeddingColumn):
    """Rows of a table that several columns share."""

    shared_name: str
    collection: str

    @property
    def name(self) -> str:
        """The name of the categories with a suffix."""
        return f"{self.categorical_column.name}_shared_embedding"

    @property
    def scope_name(self) -> str:
        """The name that is shared."""
        return self.shared_name

    def table(self, collections: Any, trainable: bool) -> Any:
        """The variable of the first column that is asked.

        Raises:
            ValueError: The collection holds several, or one of another shape.
        """
        found = get_collection(self.collection)
        if not found:
            variable = _table(self, collections, trainable)
            add_to_collection(self.collection, variable)
            return variable
        if len(found) > 1:
            raise ValueError(
                f"Collection {found} can only contain one variable. Suggested fix A: Choose a "
                "unique name for this collection. Suggested fix B: Do not add any variables to "
                "this collection. The feature_column library already adds a variable under the "
                "hood."
            )
        shape = TensorShape([self.categorical_column.num_buckets, self.dimension])
        if found[0].shape != shape:
            raise ValueError(
                f"Shared embedding collection {self.collection} contains variable {found[0].name} "
                f"of unexpected shape {found[0].shape}. Expected shape is {shape}. Suggested fix "
                "A: Choose a unique name for this collection. Suggested fix B: Do not add any "
                "variables to this collection. The feature_column library already adds a variable "
                "under the hood."
            )
        return found[0]


def shared_embedding_columns(
    categorical_columns: Sequence[CategoricalColumn],
    dimension: int,
    combiner: str = "mean",
    initializer: Callable[..., Any] | None = None,
    shared_embedding_collection_name: str | None = None,
    ckpt_to_load_from: Any = None,
    tensor_name_in_ckpt: str | None = None,
    max_norm: float | None = None,
    trainable: bool = True,
    use_safe_embedding_lookup: bool = True,
) -> list[SharedEmbeddingColumn]:
    """Columns that look up one table; arguments as for `embedding_column`.

    Args:
        categorical_columns: Categories of one kind and number; each gets a column.
        dimension: The length of a row.
        combiner: How rows of one example are combined.
        initializer: Of the table.
        shared_embedding_collection_name: The name of the collection and the scope of the table.
        ckpt_to_load_from: A checkpoint the table starts from.
        tensor_name_in_ckpt: Its name there.
        max_norm: The largest norm of a row.
        trainable: Whether the table is trained.
        use_safe_embedding_lookup: Accepted.

    Raises:
        ValueError: As `embedding_column`; or the columns differ in kind or in number of categories.
    """
    _check_dimension(dimension)
    if (ckpt_to_load_from is None) != (tensor_name_in_ckpt is None):
        raise ValueError(
            "Must specify both `ckpt_to_load_from` and `tensor_name_in_ckpt` or none of them."
        )
    ordered = sorted(categorical_columns, key=lambda column: column.name)
    start = _checked_initializer(initializer, dimension, ordered[0].name)
    first = ordered[0]
    kind, buckets = type(_unweighted(first)), first.num_buckets
    for column in ordered[1:]:
        if type(_unweighted(column)) is not kind:
            raise ValueError(
                "To use shared_embedding_column, all categorical_columns must have the same type, "
                "or be weighted_categorical_column or sequence column of the same type. Given "
                f"column: {first} of type: {type(first)} does not match given column: {column} of "
                f"type: {type(column)}"
            )
        if column.num_buckets != buckets:
            raise ValueError(
                "To use shared_embedding_column, all categorical_columns must have the same "
                f"number of buckets. Given column: {first} with buckets: {buckets} does not match "
                f"column: {column} with buckets: {column.num_buckets}"
            )
    name = shared_embedding_collection_name
    if not name:
        name = "_".join(column.name for column in ordered) + "_shared_embedding"
    return [
        SharedEmbeddingColumn(
            column,
            dimension,
            combiner,
            start,
            ckpt_to_load_from,
            tensor_name_in_ckpt,
            max_norm,
            trainable,
            use_safe_embedding_lookup,
            name,
            name,
        )
        for column in categorical_columns
    ]


def _unweighted(column: CategoricalColumn) -> CategoricalColumn:
    inner = column
    while isinstance(inner, WeightedColumn | SequenceColumn):
        inner = inner.categorical_column
    return inner

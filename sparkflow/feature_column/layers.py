"""`input_layer`: the concatenated values of columns; `linear_model`: their weighted sum."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from sparkflow.embedding.sparse_lookup import safe_embedding_lookup_sparse
from sparkflow.feature_column.column import (
    CategoricalColumn,
    DenseColumn,
    FeatureColumn,
    Features,
)
from sparkflow.graph.collections import GraphKeys
from sparkflow.graph.scopes import get_collection
from sparkflow.graph.tensor import Tensor
from sparkflow.graph.values.sparse_tensor import SparseTensor
from sparkflow.ops.elementwise.elementwise import add_n
from sparkflow.ops.linalg.linalg import matmul
from sparkflow.ops.nn.activation import bias_add
from sparkflow.ops.shape import arrays
from sparkflow.ops.sparse.sparse_layout import sparse_reshape
from sparkflow.variables.initializers import Zeros
from sparkflow.variables.partitioned import PartitionedVariable
from sparkflow.variables.variable_scope import get_variable, get_variable_scope, variable_scope
from sparkflow_runtime.dtypes import float32


def input_layer(
    features: Mapping[str, Any],
    feature_columns: Any,
    weight_collections: Any = None,
    trainable: bool = True,
    cols_to_vars: dict[Any, Any] | None = None,
    cols_to_output_tensors: dict[Any, Any] | None = None,
) -> Tensor:
    """The values of dense columns, concatenated in the order of their names.

    Args:
        features: Tensors or sparse tensors by name, `[batch, ...]`.
        feature_columns: Dense columns: numeric, bucketized, indicator or embedding.
        weight_collections: Where variables are listed, beside the usual collections.
        trainable: Whether they are trained.
        cols_to_vars: Gets the variables of each column.
        cols_to_output_tensors: Gets the output of each column.

    Returns:
        `[batch, values]` float32.

    Raises:
        ValueError: Something is no dense column, two columns have one name, a feature is missing,
            or sizes of batches differ.
    """
    columns = _checked(feature_columns)
    for column in columns:
        if not isinstance(column, DenseColumn):
            raise ValueError(
                "Items of feature_columns must be a _DenseColumn. You can wrap a categorical "
                f"column with an embedding_column or indicator_column. Given: {column}"
            )
    collections = _collections(weight_collections)
    outputs: list[Tensor] = []
    with variable_scope(None, "input_layer", _tensors(features)):
        cache = Features(features)
        for column in sorted(columns, key=lambda each: str(each.name)):
            assert isinstance(column, DenseColumn)
            with variable_scope(None, column.scope_name):
                tensor = column.dense_tensor(cache, collections, trainable)
                size = column.variable_shape.num_elements()
                output = _matrix(tensor, size)
                outputs.append(output)
                if cols_to_vars is not None:
                    scope = get_variable_scope().name
                    cols_to_vars[column] = get_collection(GraphKeys.GLOBAL_VARIABLES, scope=scope)
                if cols_to_output_tensors is not None:
                    cols_to_output_tensors[column] = output
        _check_batches(outputs, sorted(columns, key=lambda each: str(each.name)))
        return arrays.concat(outputs, 1)


def linear_model(
    features: Mapping[str, Any],
    feature_columns: Any,
    units: int = 1,
    sparse_combiner: str = "sum",
    weight_collections: Any = None,
    trainable: bool = True,
    cols_to_vars: dict[Any, Any] | None = None,
) -> Tensor:
    """The weighted sum of columns and a bias, all of which start at zero.

    Args:
        features: Tensors or sparse tensors by name, `[batch, ...]`.
        feature_columns: Dense columns, and categorical ones, whose categories each have a weight.
        units: How many sums there are.
        sparse_combiner: How weights of the categories of one example are combined: `mean`, `sqrtn`
            or `sum`.
        weight_collections: Where variables are listed, beside the usual collections.
        trainable: Whether they are trained.
        cols_to_vars: Gets the variables of each column, and those of `"bias"`.

    Returns:
        `[batch, units]` float32.

    Raises:
        ValueError: Something is neither kind of column, two have one name, a feature is missing,
            or sizes of batches differ.
    """
    columns = _checked(feature_columns)
    for column in columns:
        if not isinstance(column, DenseColumn | CategoricalColumn):
            raise ValueError(
                "Items of feature_columns must be either a DenseColumn or CategoricalColumn. "
                f"Given: {column}"
            )
    collections = _collections(weight_collections)
    with variable_scope(None, "linear_model", _tensors(features)):
        cache, sums = Features(features), []
        ordered = sorted(columns, key=lambda each: str(each.name))
        for column in ordered:
            with variable_scope(None, column.scope_name):
                total, variable = _weighted_sum(
                    column, cache, units, sparse_combiner, collections, trainable
                )
                sums.append(total)
                if cols_to_vars is not None:
                    cols_to_vars[column] = _parts(variable)
        _check_batches(sums, ordered)
        bias = get_variable(
            "bias_weights",
            shape=[units],
            initializer=Zeros(),
            trainable=trainable,
            collections=collections,
        )
        if cols_to_vars is not None:
            cols_to_vars["bias"] = _parts(bias)
        no_bias = add_n(sums, name="weighted_sum_no_bias")
        return bias_add(no_bias, bias, name="weighted_sum")


def _weighted_sum(
    column: FeatureColumn,
    features: Features,
    units: int,
    combiner: str,
    collections: Any,
    trainable: bool,
) -> tuple[Tensor, Any]:
    if isinstance(column, CategoricalColumn):
        ids, weights = column.id_weights(features)
        variable = _weights([column.num_buckets, units], collections, trainable)
        found = safe_embedding_lookup_sparse(
            variable, _flat(ids), _flat(weights), combiner=combiner, name="weighted_sum"
        )
        return found, variable
    assert isinstance(column, DenseColumn)
    size = column.variable_shape.num_elements()
    variable = _weights([size, units], collections, trainable)
    tensor = column.dense_tensor(features, collections, trainable)
    return matmul(_matrix(tensor, size), variable, name="weighted_sum"), variable


def _weights(shape: list[Any], collections: Any, trainable: bool) -> Any:
    return get_variable(
        "weights",
        shape=shape,
        dtype=float32,
        initializer=Zeros(),
        trainable=trainable,
        collections=collections,
    )


def _matrix(tensor: Tensor, size: Any) -> Tensor:
    """`[batch, size]`."""
    if tensor.shape.ndims == 2 and tensor.shape.as_list()[1] == size:
        return tensor
    return arrays.reshape(tensor, arrays.stack([arrays.shape(tensor)[0], size]))


def _flat(sparse: SparseTensor | None) -> Any:
    """`[batch, values]`."""
    if sparse is None or sparse.shape.ndims == 2:
        return sparse
    return sparse_reshape(sparse, arrays.concat([sparse.dense_shape[:1], [-1]], 0))


def _parts(variable: Any) -> list[Any]:
    return list(variable) if isinstance(variable, PartitionedVariable) else [variable]


def _checked(feature_columns: Any) -> list[FeatureColumn]:
    """The columns as a list of which no two have one name."""
    if isinstance(feature_columns, FeatureColumn):
        feature_columns = [feature_columns]
    if isinstance(feature_columns, Iterator):
        feature_columns = list(feature_columns)
    if isinstance(feature_columns, Mapping):
        raise ValueError("Expected feature_columns to be iterable, found dict.")
    if not isinstance(feature_columns, Iterable):
        raise ValueError(f"Expected feature_columns to be iterable, found {feature_columns!r}")
    columns = list(feature_columns)
    if not columns:
        raise ValueError("feature_columns must not be empty.")
    seen: dict[str, FeatureColumn] = {}
    for column in columns:
        if not isinstance(column, FeatureColumn):
            raise ValueError(
                "Items of feature_columns must be a _FeatureColumn. "
                f"Given (type {type(column)}): {column}."
            )
        if column.name in seen:
            raise ValueError(
                "Duplicate feature column name found for columns: "
                f"{column} and {seen[column.name]}. This usually means that these columns refer "
                "to same base feature. Either one must be discarded or a duplicated but renamed "
                "item must be inserted in features dict."
            )
        seen[column.name] = column
    return columns


def _collections(given: Any) -> list[str]:
    collections = list(given or [])
    for name in (GraphKeys.GLOBAL_VARIABLES, GraphKeys.MODEL_VARIABLES):
        if name not in collections:
            collections.append(name)
    return collections


def _tensors(features: Mapping[str, Any]) -> list[Any]:
    return [each.values if isinstance(each, SparseTensor) else each for each in features.values()]


def _check_batches(tensors: list[Tensor], columns: list[FeatureColumn]) -> None:
    known = [
        (tensor.shape.as_list()[0], column)
        for tensor, column in zip(tensors, columns, strict=True)
        if tensor.shape.ndims
    ]
    sizes = [(size, column) for size, column in known if size is not None]
    for size, column in sizes[1:]:
        if size != sizes[0][0]:
            raise ValueError(
                "Batch size (first dimension) of each feature must be same. Batch size of columns "
                f"({sizes[0][1].name}, {column.name}): ({sizes[0][0]}, {size})"
            )

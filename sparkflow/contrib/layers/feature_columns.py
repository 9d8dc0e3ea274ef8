"""The older names of feature columns, implemented with `tf.feature_column`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import sparkflow as tf


def real_valued_column(
    column_name: str,
    dimension: int = 1,
    default_value: Any = None,
    dtype: Any = tf.float32,
    normalizer: Any = None,
) -> Any:
    """`tf.feature_column.numeric_column`."""
    return tf.feature_column.numeric_column(
        column_name, (dimension,), default_value, dtype, normalizer
    )


def bucketized_column(source_column: Any, boundaries: Sequence[float]) -> Any:
    """`tf.feature_column.bucketized_column`."""
    return tf.feature_column.bucketized_column(source_column, list(boundaries))


def sparse_column_with_hash_bucket(
    column_name: str,
    hash_bucket_size: int,
    combiner: str = "sum",
    dtype: Any = tf.string,
    hash_keys: Any = None,
) -> Any:
    """`tf.feature_column.categorical_column_with_hash_bucket`."""
    return tf.feature_column.categorical_column_with_hash_bucket(
        column_name, hash_bucket_size, dtype
    )


def sparse_column_with_integerized_feature(
    column_name: str, bucket_size: int, combiner: str = "sum", dtype: Any = tf.int64
) -> Any:
    """`tf.feature_column.categorical_column_with_identity`."""
    return tf.feature_column.categorical_column_with_identity(column_name, bucket_size)


def sparse_column_with_keys(
    column_name: str,
    keys: Sequence[Any],
    default_value: int = -1,
    combiner: str = "sum",
    dtype: Any = tf.string,
) -> Any:
    """`tf.feature_column.categorical_column_with_vocabulary_list`."""
    return tf.feature_column.categorical_column_with_vocabulary_list(
        column_name, list(keys), dtype, default_value
    )


def sparse_column_with_vocabulary_file(
    column_name: str,
    vocabulary_file: str,
    num_oov_buckets: int = 0,
    vocab_size: int | None = None,
    default_value: int = -1,
    combiner: str = "sum",
    dtype: Any = tf.string,
) -> Any:
    """`tf.feature_column.categorical_column_with_vocabulary_file`."""
    return tf.feature_column.categorical_column_with_vocabulary_file(
        column_name,
        vocabulary_file,
        vocab_size,
        num_oov_buckets=num_oov_buckets,
        default_value=None if num_oov_buckets else default_value,
        dtype=dtype,
    )


def weighted_sparse_column(
    sparse_id_column: Any, weight_column_name: str, dtype: Any = tf.float32
) -> Any:
    """`tf.feature_column.weighted_categorical_column`."""
    return tf.feature_column.weighted_categorical_column(
        sparse_id_column, weight_column_name, dtype
    )


def crossed_column(
    columns: Sequence[Any], hash_bucket_size: int, combiner: str = "sum", hash_key: Any = None
) -> Any:
    """`tf.feature_column.crossed_column`."""
    return tf.feature_column.crossed_column(list(columns), hash_bucket_size, hash_key)


def one_hot_column(sparse_id_column: Any) -> Any:
    """`tf.feature_column.indicator_column`."""
    return tf.feature_column.indicator_column(sparse_id_column)


def embedding_column(
    sparse_id_column: Any,
    dimension: int,
    combiner: str = "mean",
    initializer: Any = None,
    ckpt_to_load_from: str | None = None,
    tensor_name_in_ckpt: str | None = None,
    max_norm: float | None = None,
    trainable: bool = True,
) -> Any:
    """`tf.feature_column.embedding_column`."""
    return tf.feature_column.embedding_column(
        sparse_id_column,
        dimension,
        combiner,
        initializer,
        ckpt_to_load_from,
        tensor_name_in_ckpt,
        max_norm,
        trainable,
    )


def input_from_feature_columns(columns_to_tensors: Any, feature_columns: Any, **kwargs: Any) -> Any:
    """`tf.feature_column.input_layer`."""
    return tf.feature_column.input_layer(columns_to_tensors, feature_columns, **kwargs)


def create_feature_spec_for_parsing(feature_columns: Any) -> Any:
    """`tf.feature_column.make_parse_example_spec`."""
    return tf.feature_column.make_parse_example_spec(feature_columns)

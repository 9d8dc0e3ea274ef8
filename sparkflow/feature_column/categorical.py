"""Columns of categories: numbers, words of a vocabulary, hashes; and weights of categories."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from absl import logging

from sparkflow.feature_column.column import (
    CategoricalColumn,
    Features,
    IdWeightPair,
    require_text,
    require_text_or_integer,
    sparse_input,
)
from sparkflow.graph.values.sparse_tensor import SparseTensor
from sparkflow.io.gfile import GFile, exists
from sparkflow.ops.checks.checks import assert_greater_equal, assert_less
from sparkflow.ops.control.ordering import with_dependencies
from sparkflow.ops.elementwise.comparison import greater_equal, less, logical_or, where
from sparkflow.ops.elementwise.elementwise import cast
from sparkflow.ops.files.parsing_config import VarLenFeature
from sparkflow.ops.shape import constants
from sparkflow.ops.shape.arrays import shape
from sparkflow.ops.state.vocabulary import index_table_from_file, index_table_from_tensor
from sparkflow.ops.strings.strings import as_string, string_to_hash_bucket_fast
from sparkflow_runtime.dtypes import DType, as_dtype, float32, int64, string


@dataclass(frozen=True)
class _KeyedColumn(CategoricalColumn):
    """Categories of one feature."""

    key: str

    @property
    def name(self) -> str:
        """The feature's name."""
        return self.key

    def transform(self, features: Features) -> SparseTensor:
        """The categories of the feature's values."""
        return self.numbered(sparse_input(features.get(self.key)))

    def numbered(self, values: SparseTensor) -> SparseTensor:
        """The categories of these values: int64 in the same places."""
        raise NotImplementedError(type(self).__name__)


@dataclass(frozen=True)
class IdentityColumn(_KeyedColumn):
    """Integers that are the categories."""

    number_buckets: int
    default_value: int | None

    @property
    def parse_example_spec(self) -> dict[str, Any]:
        """Any number of integers."""
        return {self.key: VarLenFeature(int64)}

    @property
    def num_buckets(self) -> int:
        """As given."""
        return self.number_buckets

    def numbered(self, values: SparseTensor) -> SparseTensor:
        """The integers; those out of range are refused, or become the default.

        Raises:
            ValueError: They are no integers.
            InvalidArgumentError: When it runs: one is out of range and there is no default.
        """
        if not values.dtype.is_integer:
            raise ValueError(f"Invalid input, not integer. key: {self.key} dtype: {values.dtype}")
        numbers = cast(values.values, int64)
        limit = constants.constant(self.number_buckets, int64, name="num_buckets")
        zero = constants.constant(0, int64, name="zero")
        if self.default_value is None:
            checks = [
                assert_less(
                    numbers,
                    limit,
                    data=(numbers, limit),
                    name="assert_less_than_num_buckets",
                ),
                assert_greater_equal(
                    numbers, zero, data=(numbers,), name="assert_greater_or_equal_0"
                ),
            ]
            numbers = with_dependencies(checks, numbers)
        else:
            outside = logical_or(less(numbers, zero), greater_equal(numbers, limit))
            default = constants.fill(shape(numbers), constants.constant(self.default_value, int64))
            numbers = where(outside, default, numbers)
        return SparseTensor(values.indices, numbers, values.dense_shape)


def categorical_column_with_identity(
    key: str, num_buckets: int, default_value: int | None = None
) -> IdentityColumn:
    """A column whose integers are the categories.

    Args:
        key: The feature's name.
        num_buckets: How many categories there are.
        default_value: The category of integers out of range; None refuses them when it runs.

    Raises:
        ValueError: No categories, or a default that is none of them.
    """
    if num_buckets < 1:
        raise ValueError(f"num_buckets {num_buckets} < 1, column_name {key}")
    if default_value is not None and not 0 <= default_value < num_buckets:
        raise ValueError(
            f"default_value {default_value} not in range [0, {num_buckets}), column_name {key}"
        )
    require_text(key)
    return IdentityColumn(key, num_buckets, default_value)


@dataclass(frozen=True)
class HashedColumn(_KeyedColumn):
    """Words or integers by their hash."""

    hash_bucket_size: int
    dtype: DType

    @property
    def parse_example_spec(self) -> dict[str, Any]:
        """Any number of values."""
        return {self.key: VarLenFeature(self.dtype)}

    @property
    def num_buckets(self) -> int:
        """As given."""
        return self.hash_bucket_size

    def numbered(self, values: SparseTensor) -> SparseTensor:
        """The hashes.

        Raises:
            ValueError: The values are not of the column's kind.
        """
        _require_kind(values, self.dtype, self.key)
        require_text_or_integer(values.dtype, f"column_name: {self.key} input_tensor")
        words = values.values if self.dtype is string else as_string(values.values)
        numbers = string_to_hash_bucket_fast(words, self.hash_bucket_size, name="lookup")
        return SparseTensor(values.indices, numbers, values.dense_shape)


def _require_kind(values: SparseTensor, dtype: DType, key: str) -> None:
    if dtype.is_integer != values.dtype.is_integer:
        raise ValueError(
            "Column dtype and SparseTensors dtype must be compatible. "
            f"key: {key}, column dtype: {dtype}, tensor dtype: {values.dtype}"
        )


def categorical_column_with_hash_bucket(
    key: str, hash_bucket_size: int, dtype: Any = string
) -> HashedColumn:
    """A column whose categories are hashes of its values.

    Args:
        key: The feature's name.
        hash_bucket_size: How many categories there are.
        dtype: Of the values: string or an integer.

    Raises:
        ValueError: No categories, or another dtype.
    """
    if hash_bucket_size is None:
        raise ValueError(f"hash_bucket_size must be set. key: {key}")
    if hash_bucket_size < 1:
        raise ValueError(
            f"hash_bucket_size must be at least 1. hash_bucket_size: {hash_bucket_size}, key: {key}"
        )
    require_text(key)
    kind = as_dtype(dtype)
    require_text_or_integer(kind, f"column_name: {key}")
    return HashedColumn(key, hash_bucket_size, kind)


@dataclass(frozen=True)
class VocabularyListColumn(_KeyedColumn):
    """Words by their place in a list."""

    vocabulary_list: tuple[Any, ...]
    dtype: DType
    default_value: int
    num_oov_buckets: int

    @property
    def parse_example_spec(self) -> dict[str, Any]:
        """Any number of values."""
        return {self.key: VarLenFeature(self.dtype)}

    @property
    def num_buckets(self) -> int:
        """The words, and the buckets of others."""
        return len(self.vocabulary_list) + self.num_oov_buckets

    def numbered(self, values: SparseTensor) -> SparseTensor:
        """The places.

        Raises:
            ValueError: The values are not of the column's kind.
        """
        _require_kind(values, self.dtype, self.key)
        key_dtype = self.dtype
        if values.dtype.is_integer:
            key_dtype, values = int64, _as_int64(values)
        table = index_table_from_tensor(
            vocabulary_list=self.vocabulary_list,
            default_value=self.default_value,
            num_oov_buckets=self.num_oov_buckets,
            dtype=key_dtype,
            name=f"{self.key}_lookup",
        )
        found: SparseTensor = table.lookup(values)
        return found


def _as_int64(values: SparseTensor) -> SparseTensor:
    return SparseTensor(values.indices, cast(values.values, int64), values.dense_shape)


def categorical_column_with_vocabulary_list(
    key: str,
    vocabulary_list: Any,
    dtype: Any = None,
    default_value: int = -1,
    num_oov_buckets: int = 0,
) -> VocabularyListColumn:
    """A column whose categories are the places of words in a list.

    Args:
        key: The feature's name.
        vocabulary_list: The words: strings or integers; a list, an array or a column of pandas.
        dtype: Of the feature; that of the list when None.
        default_value: The category of other words; -1 for none.
        num_oov_buckets: How many categories other words are hashed to; not with a default.

    Raises:
        ValueError: The list is empty or has a word twice, the kinds do not fit, or default and
            buckets are given.
    """
    given = vocabulary_list
    words = () if given is None else tuple(given.tolist() if hasattr(given, "tolist") else given)
    if not words:
        raise ValueError(f"vocabulary_list {vocabulary_list} must be non-empty, column_name: {key}")
    if len(set(words)) != len(words):
        raise ValueError(f"Duplicate keys in vocabulary_list {vocabulary_list}, column_name: {key}")
    array = np.array(words)
    listed = string if array.dtype.kind in "USO" else as_dtype(array.dtype)
    _check_oov(num_oov_buckets, default_value, key)
    require_text_or_integer(listed, f"column_name: {key} vocabulary")
    kind = listed if dtype is None else as_dtype(dtype)
    if kind.is_integer != listed.is_integer:
        raise ValueError(
            f"dtype {kind} and vocabulary dtype {listed} do not match, column_name: {key}"
        )
    require_text_or_integer(kind, f"column_name: {key}")
    require_text(key)
    return VocabularyListColumn(key, words, kind, default_value, num_oov_buckets)


def _check_oov(num_oov_buckets: int, default_value: Any, key: str) -> None:
    if num_oov_buckets and default_value not in (-1, None):
        raise ValueError(
            "Can't specify both num_oov_buckets and default_value. "
            f"num_oov_buckets: {num_oov_buckets}, default_value: {default_value}, key: {key}"
        )
    if num_oov_buckets < 0:
        raise ValueError(f"Invalid num_oov_buckets {num_oov_buckets} in {key}.")


@dataclass(frozen=True)
class VocabularyFileColumn(_KeyedColumn):
    """Words by their line in a file."""

    vocabulary_file: Any
    vocabulary_size: int
    num_oov_buckets: int
    dtype: DType
    default_value: int

    @property
    def parse_example_spec(self) -> dict[str, Any]:
        """Any number of values."""
        return {self.key: VarLenFeature(self.dtype)}

    @property
    def num_buckets(self) -> int:
        """The lines, and the buckets of other words."""
        return self.vocabulary_size + self.num_oov_buckets

    def numbered(self, values: SparseTensor) -> SparseTensor:
        """The line numbers.

        Raises:
            ValueError: The values are not of the column's kind.
        """
        _require_kind(values, self.dtype, self.key)
        key_dtype = self.dtype
        if values.dtype.is_integer:
            key_dtype, values = int64, _as_int64(values)
        table = index_table_from_file(
            vocabulary_file=self.vocabulary_file,
            num_oov_buckets=self.num_oov_buckets,
            vocab_size=self.vocabulary_size,
            default_value=self.default_value,
            key_dtype=key_dtype,
            name=f"{self.key}_lookup",
        )
        found: SparseTensor = table.lookup(values)
        return found


def categorical_column_with_vocabulary_file(
    key: str,
    vocabulary_file: Any,
    vocabulary_size: int | None = None,
    num_oov_buckets: int = 0,
    default_value: int | None = None,
    dtype: Any = string,
) -> VocabularyFileColumn:
    """A column whose categories are the lines of a file.

    Args:
        key: The feature's name.
        vocabulary_file: The file, one word a line.
        vocabulary_size: How many lines count; all when None.
        num_oov_buckets: How many categories other words are hashed to; not with a default.
        default_value: The category of other words; -1, for none, when None.
        dtype: Of the feature: string or an integer.

    Raises:
        ValueError: There is no file, a number is out of range, or default and buckets are given.
    """
    if not vocabulary_file:
        raise ValueError(f"Missing vocabulary_file in {key}.")
    size = vocabulary_size
    if size is None:
        if not exists(vocabulary_file):
            raise ValueError(f"vocabulary_file in {key} does not exist.")
        with GFile(vocabulary_file, "rb") as lines:
            size = sum(1 for _ in lines)
        logging.info(
            "vocabulary_size = %d in %s is inferred from the number of elements in the "
            "vocabulary_file %s.",
            size,
            key,
            vocabulary_file,
        )
    if size < 1:
        raise ValueError(f"Invalid vocabulary_size in {key}.")
    _check_oov(num_oov_buckets, default_value, key)
    kind = as_dtype(dtype)
    require_text_or_integer(kind, f"column_name: {key}")
    require_text(key)
    default = -1 if default_value is None else default_value
    return VocabularyFileColumn(key, vocabulary_file, size, num_oov_buckets, kind, default)


@dataclass(frozen=True)
class WeightedColumn(CategoricalColumn):
    """Categories with weights of another feature."""

    categorical_column: CategoricalColumn
    weight_feature_key: str
    dtype: DType

    @property
    def name(self) -> str:
        """The names of both."""
        return f"{self.categorical_column.name}_weighted_by_{self.weight_feature_key}"

    @property
    def parse_example_spec(self) -> dict[str, Any]:
        """That of the categories, and any number of weights.

        Raises:
            ValueError: The weights are a feature of the categories.
        """
        spec = dict(self.categorical_column.parse_example_spec)
        if self.weight_feature_key in spec:
            raise ValueError(
                f"Parse config {spec[self.weight_feature_key]} already exists for "
                f"{self.weight_feature_key}."
            )
        return {**spec, self.weight_feature_key: VarLenFeature(self.dtype)}

    @property
    def num_buckets(self) -> int:
        """That of the categories."""
        return self.categorical_column.num_buckets

    def transform(self, features: Features) -> tuple[SparseTensor, SparseTensor]:
        """Categories and float32 weights.

        Raises:
            ValueError: The weights are missing or of another dtype.
        """
        weights = features.get(self.weight_feature_key)
        if self.dtype != weights.dtype.base:
            raise ValueError(
                f"Bad dtype, expected {self.dtype}, but got {weights.dtype}. "
                f"key: {self.weight_feature_key}"
            )
        if not isinstance(weights, SparseTensor):
            # Zeros stand for missing weights only where categories are missing too.
            weights = sparse_input(weights, nothing=0)
        if not weights.dtype.is_floating:
            weights = SparseTensor(
                weights.indices, cast(weights.values, float32), weights.dense_shape
            )
        return self.categorical_column.id_weights(features).ids, weights

    def id_weights(self, features: Features) -> IdWeightPair:
        """Both."""
        return IdWeightPair(*features.get(self))


def weighted_categorical_column(
    categorical_column: CategoricalColumn, weight_feature_key: str, dtype: Any = float32
) -> WeightedColumn:
    """Categories, each with a weight that stands in another feature.

    Args:
        categorical_column: The categories.
        weight_feature_key: The feature of weights, of the same shape or the same places.
        dtype: Of the weights: real or integer.

    Raises:
        ValueError: The dtype cannot become a real number.
    """
    kind = as_dtype(dtype)
    if not (kind.is_integer or kind.is_floating):
        raise ValueError(f"dtype {dtype} is not convertible to float.")
    return WeightedColumn(categorical_column, weight_feature_key, kind)

"""Conversion of the inputs of a row to the feature columns of the canned networks."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sparkflow as tf
from sparkflow.feature_column.column import CategoricalColumn, Features, IdWeightPair
from sparkflow.graph.values.sparse_tensor import SparseTensor
from sparkflow.spark.data.schema.row_format import RAGGED, SPARSE, Input, RowFormat
from sparkflow.spark.estimators.statistics import Moments


@dataclass(frozen=True)
class SparseVectorColumn(CategoricalColumn):
    """The elements of sparse vectors, as categories weighted by their values.

    A weighted sum of such categories is the product of the vector and a matrix, in which only the
    rows of the vector's stored elements are read and updated.
    """

    key: str
    size: int
    scale: tuple[float, ...] | None

    @property
    def name(self) -> str:
        """The feature's name."""
        return self.key

    @property
    def parse_example_spec(self) -> dict[str, Any]:
        """The indices and values, as `tf.parse_example` would read them."""
        return {self.key: tf.SparseFeature("indices", "values", tf.float32, self.size)}

    @property
    def num_buckets(self) -> int:
        """The length of the vectors."""
        return self.size

    def transform(self, features: Features) -> SparseTensor:
        """The vectors."""
        given: SparseTensor = features.get(self.key)
        return given

    def id_weights(self, features: Features) -> IdWeightPair:
        """Returns the indices as categories and the values as weights."""
        given: SparseTensor = features.get(self)
        index = given.indices[:, 1]
        values = tf.cast(given.values, tf.float32)
        if self.scale is not None:
            values = values / tf.gather(tf.constant(self.scale, tf.float32), index)
        # The columns of the matrix have no meaning here: there is one category per position.
        return IdWeightPair(
            SparseTensor(given.indices, index, given.dense_shape),
            SparseTensor(given.indices, values, given.dense_shape),
        )


class InputColumns:
    """The inputs of a row, by keys that are valid in variable names.

    Args:
        row_format: The format of a row.
        moments: The moments of the standardized inputs, by name.

    Attributes:
        by_name: The inputs by their own names.
    """

    def __init__(self, row_format: RowFormat, moments: Mapping[str, Moments]) -> None:
        self._named = row_format.named
        self._moments = moments
        self.by_name = {each.name: each for each in row_format.features}
        self._keys = _keys(self.by_name)

    def features(self, given: Any) -> dict[str, Any]:
        """Returns the features that `model_fn` receives, by key."""
        named = given if self._named else dict.fromkeys(self.by_name, given)
        return {self._keys[name]: tensor for name, tensor in named.items()}

    def numbers(self, given: Input, sparse_dim: int | None) -> Any:
        """Returns a column of the numbers of an input.

        Args:
            given: The input: dense, or sparse.
            sparse_dim: The width of the dense projection of a sparse input; None for a linear
                model, which uses the input directly.
        """
        key, moments = self._keys[given.name], self._moments.get(given.name)
        if given.kind == SPARSE:
            scale = None if moments is None else tuple(map(float, moments.scale))
            column = SparseVectorColumn(key, given.size, scale)
            if sparse_dim is None:
                return column
            return tf.feature_column.embedding_column(
                column, sparse_dim, combiner="sum", initializer=tf.glorot_uniform_initializer()
            )

        def normalized(tensor: Any) -> Any:
            # Differences between large integers are lost in float32 until the mean is subtracted.
            dtype = tf.float64 if given.dtype == "int64" else tf.float32
            tensor = tf.cast(tensor, dtype)
            if moments is not None:
                mean, scale = (
                    tf.constant(part.reshape(shape), dtype)
                    for part in (moments.mean, moments.scale)
                )
                tensor = (tensor - mean) / scale
            return tf.cast(tensor, tf.float32)

        shape = given.shape or (1,)
        return tf.feature_column.numeric_column(key, shape, normalizer_fn=normalized)

    def categories(self, given: Input, buckets: int) -> Any:
        """Returns a column of the hashes of strings or integers."""
        dtype = tf.string if given.dtype == "string" else tf.int64
        return tf.feature_column.categorical_column_with_hash_bucket(
            self._keys[given.name], buckets, dtype
        )

    def cross(self, names: Sequence[str], buckets: int) -> Any:
        """Returns a column of the hashes of combinations of strings or integers."""
        return tf.feature_column.crossed_column([self._keys[name] for name in names], buckets)


def require_numbers(inputs: Iterable[Input], estimator: str) -> None:
    """Checks that inputs hold a fixed number of numbers.

    Raises:
        TypeError: An input holds strings or lists of any length.
    """
    for each in inputs:
        if each.dtype == "string" or each.kind == RAGGED:
            what = "texts" if each.dtype == "string" else "lists of any length"
            raise TypeError(
                f"The features {each.name!r} are {what}, and {estimator} takes numbers. Use "
                "SparkWideDeepClassifier, which learns embeddings of texts and integers, or "
                "pyspark.ml's StringIndexer and OneHotEncoder"
            )


def _keys(names: Iterable[str]) -> dict[str, str]:
    found: dict[str, str] = {}
    for name in names:
        key = re.sub(r"[^A-Za-z0-9_.-]", "_", name)
        key = key if re.match(r"[A-Za-z0-9.]", key) else f"column{key}"
        while key in found.values():
            key += "_"
        found[name] = key
    return found

"""Columns of combinations of features."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from sparkflow.feature_column.categorical import HashedColumn
from sparkflow.feature_column.column import CategoricalColumn, Features
from sparkflow.graph.values.sparse_tensor import SparseTensor
from sparkflow.ops.files.parsing_config import VarLenFeature
from sparkflow.ops.sparse.sparse_cross import sparse_cross_hashed
from sparkflow_runtime.dtypes import string


@dataclass(frozen=True)
class CrossedColumn(CategoricalColumn):
    """Hashes of the combinations of the values of features."""

    keys: tuple[Any, ...]
    hash_bucket_size: int
    hash_key: int | None

    @property
    def name(self) -> str:
        """The names of what is crossed, in order, joined by `_X_`."""
        names = [key if isinstance(key, str) else key.name for key in self.leaves]
        return "_X_".join(sorted(names))

    @property
    def leaves(self) -> list[Any]:
        """What is crossed; crosses among it are taken apart."""
        found: list[Any] = []
        for key in self.keys:
            found += key.leaves if isinstance(key, CrossedColumn) else [key]
        return found

    @property
    def parse_example_spec(self) -> dict[str, Any]:
        """Any number of words of each feature that is named."""
        spec: dict[str, Any] = {}
        for key in self.keys:
            if isinstance(key, str):
                spec[key] = VarLenFeature(string)
            else:
                spec.update(key.parse_example_spec)
        return spec

    @property
    def num_buckets(self) -> int:
        """As given."""
        return self.hash_bucket_size

    def transform(self, features: Features) -> SparseTensor:
        """The hashes of the batch.

        Raises:
            ValueError: Something crossed has weights.
        """
        crossed: list[Any] = []
        for key in self.leaves:
            if isinstance(key, str):
                crossed.append(features.get(key))
                continue
            ids, weights = key.id_weights(features)
            if weights is not None:
                raise ValueError(
                    "crossed_column does not support weight_tensor, but the given column "
                    f"populates weight_tensor. Given column: {key.name}"
                )
            crossed.append(ids)
        return sparse_cross_hashed(crossed, self.hash_bucket_size, self.hash_key)


def crossed_column(keys: Any, hash_bucket_size: int, hash_key: int | None = None) -> CrossedColumn:
    """A column whose categories are hashes of combinations of features.

    Args:
        keys: At least two in a list, a tuple or an array: names of features of words, or
            categorical columns that are not hashed.
        hash_bucket_size: How many categories there are.
        hash_key: What the hash starts with; TensorFlow's own when None.

    Raises:
        ValueError: Fewer keys, one of another kind, or no categories.
    """
    if not hash_bucket_size or hash_bucket_size < 1:
        raise ValueError(f"hash_bucket_size must be > 1. hash_bucket_size: {hash_bucket_size}")
    if keys is None or len(keys) < 2:
        raise ValueError(f"keys must be a list with length > 1. Given: {keys}")
    for key in keys:
        if not isinstance(key, str | CategoricalColumn):
            raise ValueError(
                "Unsupported key type. All keys must be either string, or categorical column "
                f"except HashedCategoricalColumn. Given: {key}"
            )
        if isinstance(key, HashedColumn):
            raise ValueError(
                "categorical_column_with_hash_bucket is not supported for crossing. Hashing "
                "before crossing will increase probability of collision. Instead, use the feature "
                f"name as a string. Given: {key}"
            )
    return CrossedColumn(tuple(keys), hash_bucket_size, hash_key)

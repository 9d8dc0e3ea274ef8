"""Feature configurations of `tf.parse_example`."""

from __future__ import annotations

from typing import Any, NamedTuple

from sparkflow._api import export


@export("FixedLenFeature", "io.FixedLenFeature")
class FixedLenFeature(NamedTuple):
    """A feature with a fixed number of values, parsed into a dense tensor.

    Attributes:
        shape: The shape of one example's values.
        dtype: float32, int64 or string.
        default_value: Used if an example lacks the feature; None if it is required.
    """

    shape: Any
    dtype: Any
    default_value: Any = None


@export("VarLenFeature", "io.VarLenFeature")
class VarLenFeature(NamedTuple):
    """A feature with any number of values, parsed into a SparseTensor.

    Attributes:
        dtype: float32, int64 or string.
    """

    dtype: Any


@export("FixedLenSequenceFeature", "io.FixedLenSequenceFeature")
class FixedLenSequenceFeature(NamedTuple):
    """A feature with any number of rows of a fixed shape, padded to the longest in the batch.

    Attributes:
        shape: The shape of one row.
        dtype: float32, int64 or string.
        allow_missing: Whether examples may lack it; must be True in `parse_example`.
        default_value: The padding of shorter ones; zero or "" if None.
    """

    shape: Any
    dtype: Any
    allow_missing: bool = False
    default_value: Any = None


@export("SparseFeature", "io.SparseFeature")
class SparseFeature(NamedTuple):
    """Two features, of indices and of values, parsed into one SparseTensor.

    Attributes:
        index_key: The feature of int64 indices, or a list of such features.
        value_key: The feature of values.
        dtype: The dtype of the values.
        size: The size of the indexed axis, or axes.
        already_sorted: Whether the indices of each example are sorted.
    """

    index_key: Any
    value_key: str
    dtype: Any
    size: Any
    already_sorted: bool = False

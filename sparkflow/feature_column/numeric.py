"""Columns of numbers, and numbers in buckets."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from sparkflow.feature_column.column import (
    CategoricalColumn,
    DenseColumn,
    Features,
    IdWeightPair,
    require_text,
)
from sparkflow.graph.scopes import output_of
from sparkflow.graph.shapes.tensor_shape import TensorShape
from sparkflow.graph.tensor import Tensor
from sparkflow.graph.values.sparse_tensor import SparseTensor
from sparkflow.ops.elementwise.elementwise import cast
from sparkflow.ops.files.parsing_config import FixedLenFeature
from sparkflow.ops.shape import arrays, constants
from sparkflow_runtime.dtypes import DType, as_dtype, float32, int64


@dataclass(frozen=True)
class NumericColumn(DenseColumn):
    """Numbers of a fixed shape."""

    key: str
    shape: tuple[int, ...]
    default_value: Any
    dtype: DType
    normalizer_fn: Callable[[Any], Any] | None

    @property
    def name(self) -> str:
        """The feature's name."""
        return self.key

    @property
    def parse_example_spec(self) -> dict[str, Any]:
        """A feature of fixed length."""
        return {self.key: FixedLenFeature(self.shape, self.dtype, self.default_value)}

    @property
    def variable_shape(self) -> TensorShape:
        """As the feature is given."""
        return TensorShape(self.shape)

    def transform(self, features: Features) -> Tensor:
        """The feature as float32, normalised.

        Raises:
            ValueError: It is sparse.
        """
        value = features.get(self.key)
        if isinstance(value, SparseTensor):
            raise ValueError(
                "The corresponding Tensor of numerical column must be a Tensor. SparseTensor is "
                f"not supported. key: {self.key}"
            )
        if self.normalizer_fn is not None:
            value = self.normalizer_fn(value)
        return cast(value, float32)

    def dense_tensor(self, features: Features, collections: Any, trainable: bool) -> Tensor:
        """The numbers."""
        found: Tensor = features.get(self)
        return found


def numeric_column(
    key: str,
    shape: Any = (1,),
    default_value: Any = None,
    dtype: Any = float32,
    normalizer_fn: Callable[[Any], Any] | None = None,
) -> NumericColumn:
    """A column of real numbers.

    Args:
        key: The feature's name.
        shape: The shape of one example's numbers.
        default_value: What `tf.parse_example` takes where they are missing: a number, or as many
            as the shape has.
        dtype: What they are parsed as; columns give float32.
        normalizer_fn: What is made of the tensor first.

    Raises:
        TypeError: The shape or the default is of the wrong kind.
        ValueError: A size is below 1, or the dtype is neither integer nor real.
    """
    sizes = checked_shape(shape, key)
    kind = as_dtype(dtype)
    if not (kind.is_integer or kind.is_floating):
        raise ValueError(f"dtype must be convertible to float. dtype: {kind}, key: {key}")
    default = _checked_default(sizes, default_value, kind, key)
    if normalizer_fn is not None and not callable(normalizer_fn):
        raise TypeError(f"normalizer_fn must be a callable. Given: {normalizer_fn}")
    require_text(key)
    return NumericColumn(key, sizes, default, kind, normalizer_fn)


def checked_shape(shape: Any, key: str) -> tuple[int, ...]:
    """The shape as a tuple.

    Raises:
        TypeError: It holds no integers.
        ValueError: A size is below 1.
    """
    sizes = (shape,) if isinstance(shape, int | np.integer) else tuple(shape)
    for size in sizes:
        if not isinstance(size, int | np.integer):
            raise TypeError(f"shape dimensions must be integer. shape: {shape}, key: {key}")
        if size < 1:
            raise ValueError(f"shape dimensions must be greater than 0. shape: {shape}, key: {key}")
    return sizes


def _checked_default(shape: tuple[int, ...], default: Any, dtype: DType, key: str) -> Any:
    """The default as nested tuples of the shape; None stays."""
    if default is None:
        return None
    array = np.asarray(default)
    kinds = "iub" if dtype.is_integer else "iubf"
    if array.dtype.kind not in kinds:
        raise TypeError(
            f"default_value must be compatible with dtype. default_value: {default}, "
            f"dtype: {dtype}, key: {key}"
        )
    if array.ndim == 0:
        array = np.full(shape, array)
    elif array.shape != shape:
        raise ValueError(
            "The shape of default_value must be equal to given shape. "
            f"default_value: {default}, shape: {shape}, key: {key}"
        )
    return _tuples(array.astype(dtype.as_numpy_dtype).tolist())


def _tuples(value: Any) -> Any:
    return tuple(_tuples(each) for each in value) if isinstance(value, list) else value


@dataclass(frozen=True)
class BucketizedColumn(DenseColumn, CategoricalColumn):
    """The bucket of each number, one-hot or as a category."""

    source_column: NumericColumn
    boundaries: tuple[float, ...]

    @property
    def name(self) -> str:
        """The source's name with a suffix."""
        return f"{self.source_column.name}_bucketized"

    @property
    def parse_example_spec(self) -> dict[str, Any]:
        """The source's."""
        return self.source_column.parse_example_spec

    @property
    def variable_shape(self) -> TensorShape:
        """The source's, with the buckets last."""
        return TensorShape((*self.source_column.shape, len(self.boundaries) + 1))

    @property
    def num_buckets(self) -> int:
        """The buckets of each of the source's numbers."""
        return (len(self.boundaries) + 1) * self.source_column.shape[0]

    def transform(self, features: Features) -> Tensor:
        """`[batch, numbers]` int32, the buckets."""
        source = features.get(self.source_column)
        return output_of("Bucketize", source, boundaries=list(self.boundaries))

    def dense_tensor(self, features: Features, collections: Any, trainable: bool) -> Tensor:
        """1 in the bucket of each number."""
        return arrays.one_hot(
            cast(features.get(self), int64), len(self.boundaries) + 1, on_value=1.0, off_value=0.0
        )

    def id_weights(self, features: Features) -> IdWeightPair:
        """A category for each bucket of each number."""
        buckets = features.get(self)
        count = self.source_column.shape[0]
        batch = arrays.shape(buckets)[0]
        rows = arrays.reshape(
            arrays.tile(arrays.expand_dims(constants.range(0, batch), 1), [1, count]), [-1]
        )
        columns = arrays.tile(constants.range(0, count), arrays.stack([batch]))
        ids = arrays.reshape(buckets, [-1]) + (len(self.boundaries) + 1) * columns
        places = cast(arrays.transpose(arrays.stack([rows, columns])), int64)
        shape = cast(arrays.stack([batch, count]), int64)
        return IdWeightPair(SparseTensor(places, cast(ids, int64), shape), None)


def bucketized_column(source_column: NumericColumn, boundaries: Any) -> Any:
    """A column of the buckets of numbers: below the first boundary, up to the next, and so on.

    Args:
        source_column: A numeric column of one dimension.
        boundaries: Numbers in strictly increasing order, in a list, a tuple, an array or a column
            of pandas; each belongs to the bucket above it.

    Raises:
        ValueError: The source is another column, or the boundaries are not in order.
    """
    if not isinstance(source_column, NumericColumn):
        raise ValueError(
            "source_column must be a column generated with numeric_column(). "
            f"Given: {source_column}"
        )
    if len(source_column.shape) > 1:
        raise ValueError(f"source_column must be one-dimensional column. Given: {source_column}")
    limits = boundaries
    if hasattr(type(limits), "__array__"):
        limits = np.asarray(limits).tolist()
    if limits is None or (isinstance(limits, list | tuple) and not limits):
        raise ValueError("boundaries must not be empty.")
    if not isinstance(limits, list | tuple) or isinstance(limits[0], list):
        raise ValueError(f"boundaries must be a sorted list. Given: {boundaries}")
    for low, high in itertools.pairwise(limits):
        if low >= high:
            raise ValueError(
                f"boundaries must be a sorted list. Given: {boundaries}, where {low} is before "
                f"{high}"
            )
    return BucketizedColumn(source_column, tuple(limits))

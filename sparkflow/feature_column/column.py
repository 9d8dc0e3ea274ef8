"""The interface of feature columns, and the features of a batch as columns request them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from sparkflow.graph.scopes import convert_to_tensor
from sparkflow.graph.shapes.tensor_shape import TensorShape
from sparkflow.graph.tensor import Tensor
from sparkflow.graph.values.sparse_tensor import SparseTensor, SparseTensorValue, as_sparse
from sparkflow.ops.control.cond import cond
from sparkflow.ops.elementwise.comparison import equal, not_equal, where
from sparkflow.ops.shape import arrays
from sparkflow.ops.sparse.sparse_layout import sparse_reshape
from sparkflow_runtime.dtypes import int64, string

Raw = Tensor | SparseTensor


class FeatureColumn:
    """What is made of a feature; a frozen dataclass, so that equal columns are one."""

    @property
    def name(self) -> str:
        """The name of the column's variables and scopes."""
        raise NotImplementedError(type(self).__name__)

    @property
    def parse_example_spec(self) -> dict[str, Any]:
        """The spec with which `tf.parse_example` parses its features."""
        raise NotImplementedError(type(self).__name__)

    @property
    def scope_name(self) -> str:
        """The variable scope of the column in a layer."""
        return self.name

    def transform(self, features: Features) -> Any:
        """Tensors made of the features, once per batch; see `Features.get`."""
        raise NotImplementedError(type(self).__name__)


class DenseColumn(FeatureColumn):
    """A column of numbers, as many for each example."""

    @property
    def variable_shape(self) -> TensorShape:
        """The shape of one example's numbers."""
        raise NotImplementedError(type(self).__name__)

    def dense_tensor(self, features: Features, collections: Any, trainable: bool) -> Tensor:
        """`[batch, *variable_shape]` float32, of variables where the column has some."""
        raise NotImplementedError(type(self).__name__)


class IdWeightPair(NamedTuple):
    """The categories of each example and what they weigh.

    Attributes:
        ids: SparseTensor int64.
        weights: SparseTensor of the same places; None for ones.
    """

    ids: SparseTensor
    weights: SparseTensor | None


class CategoricalColumn(FeatureColumn):
    """A column of categories, numbered from 0."""

    @property
    def num_buckets(self) -> int:
        """How many categories there are."""
        raise NotImplementedError(type(self).__name__)

    def id_weights(self, features: Features) -> IdWeightPair:
        """The categories of the batch."""
        return IdWeightPair(features.get(self), None)


class SequenceColumn(FeatureColumn):
    """A column whose examples have a value per step of time."""


class Features:
    """The features of a batch by name, and what columns made of them, made once.

    Args:
        features: Tensors or sparse tensors by name.
    """

    def __init__(self, features: Mapping[Any, Any]) -> None:
        self._features = dict(features)
        self._made: dict[Any, Any] = {}

    def get(self, key: Any) -> Any:
        """A feature by its name, or what a column makes of its features.

        Raises:
            ValueError: There is no feature of the name, or it is a scalar.
            TypeError: The key is neither a name nor a column.
        """
        if key not in self._made:
            self._made[key] = self._get(key)
        return self._made[key]

    def _get(self, key: Any) -> Any:
        if key in self._features:
            return self._raw(key)
        if isinstance(key, str):
            raise ValueError(f"Feature {key} is not in features dictionary.")
        if not isinstance(key, FeatureColumn):
            raise TypeError(f'"key" must be either a "str" or "FeatureColumn". Provided: {key}')
        transformed = key.transform(self)
        if transformed is None:
            raise ValueError(f"Column {key.name} is not supported.")
        return transformed

    def _raw(self, key: Any) -> Raw:
        """The feature with at least two dimensions."""
        given = self._features[key]
        if isinstance(given, SparseTensor | SparseTensorValue):
            sparse = as_sparse(given)
            if sparse.shape.ndims == 1:
                return sparse_reshape(sparse, arrays.concat([sparse.dense_shape, [1]], 0))
            return sparse
        tensor = convert_to_tensor(given)
        ndims = tensor.shape.ndims
        if ndims == 0:
            raise ValueError(f"Feature (key: {key}) cannot have rank 0. Given: {tensor}")
        if ndims is None:
            wide: Tensor = cond(
                equal(arrays.rank(tensor), 1),
                lambda: arrays.expand_dims(tensor, -1),
                lambda: tensor,
            )
            return wide
        return arrays.expand_dims(tensor, -1) if ndims == 1 else tensor


def sparse_input(value: Raw, nothing: Any = None) -> SparseTensor:
    """A feature as a sparse tensor, without the values that stand for nothing: -1 and "".

    In unsigned integers the largest stands for -1, as in TensorFlow, which casts it.

    Args:
        value: A sparse tensor, which stays; or a dense one of strings or integers.
        nothing: Another value that stands for nothing.
    """
    if isinstance(value, SparseTensor):
        return value
    dtype = value.dtype.base
    if nothing is None:
        nothing = dtype.as_numpy_dtype()
        if dtype is string:
            nothing = ""
        elif dtype.is_integer:
            nothing = -1 if dtype.min else dtype.max
    places: Tensor = where(not_equal(value, convert_to_tensor(nothing, dtype)))
    values = arrays.gather_nd(value, places)
    return SparseTensor(places, values, arrays.shape(value, out_type=int64))


def require_text(key: Any, name: str = "key") -> None:
    """Passes for the name of a feature.

    Raises:
        ValueError: It is something else.
    """
    if not isinstance(key, str):
        raise ValueError(f"{name} must be a string. Given: {key} (type {type(key).__name__})")


def require_text_or_integer(dtype: Any, what: str) -> None:
    """Passes for dtypes of categories.

    Raises:
        ValueError: It is neither string nor an integer.
    """
    if dtype is not string and not dtype.is_integer:
        raise ValueError(f"{what} dtype must be string or integer. dtype: {dtype}.")

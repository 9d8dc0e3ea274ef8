"""Feeds: any tensor, with its dtype and shape checked before anything runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from sparkflow.graph.composite import Composite
from sparkflow.graph.constants import constant_array
from sparkflow.graph.graph import Graph
from sparkflow.graph.operators import Symbolic
from sparkflow.graph.tensor import Tensor
from sparkflow.graph.values.indexed_slices import IndexedSlices
from sparkflow.graph.values.sparse_tensor import SparseTensor
from sparkflow.session.handles import TensorHandle
from sparkflow_runtime import dtypes
from sparkflow_runtime.dtypes import PLAIN
from sparkflow_runtime.errors import InvalidArgumentError


class FeedSlot:
    """One fed tensor: converts and checks each value.

    Args:
        tensor: The tensor that is overridden.
    """

    __slots__ = ("_dtype", "_known", "_numpy", "_rank", "_tensor", "name")

    def __init__(self, tensor: Tensor) -> None:
        self._tensor = tensor
        self._dtype = tensor.dtype.base
        self._numpy = np.dtype(self._dtype.as_numpy_dtype)
        self.name = tensor.name
        shape = tensor._shape
        self._rank = None if shape is None else len(shape)
        self._known = tuple((i, size) for i, size in enumerate(shape or ()) if size is not None)

    def array(self, value: Any) -> np.ndarray[Any, Any]:
        """The value as an array of the tensor's dtype.

        Raises:
            TypeError: The value is a tensor, or out of the range of the dtype.
            ValueError: Its shape contradicts the tensor's, or it cannot have this dtype.
        """
        if type(value) is not np.ndarray or value.dtype is not self._numpy or value.dtype.hasobject:
            value = self._converted(value)
        array: np.ndarray[Any, Any] = value
        if self._rank is not None:
            given = array.shape
            if len(given) != self._rank:
                raise self._misshapen(given)
            for index, size in self._known:
                if given[index] != size:
                    raise self._misshapen(given)
        return array

    def _misshapen(self, given: tuple[int, ...]) -> ValueError:
        return ValueError(
            f"Cannot feed value of shape {given!r} for Tensor {self.name!r}, which has shape "
            f"'{self._tensor.shape}'{self._made_at()}"
        )

    def _converted(self, value: Any) -> np.ndarray[Any, Any]:
        if isinstance(value, TensorHandle):
            value = self._kept(value)
        if isinstance(value, Symbolic):
            raise TypeError(
                "The value of a feed cannot be a tf.Tensor object. Acceptable feed values include "
                "Python scalars, strings, lists, numpy ndarrays, or TensorHandles. For reference, "
                f"the tensor object was {value!r} which was passed to the feed with key "
                f"{self._tensor!r}."
            )
        dtype = self._dtype
        if isinstance(value, int) and not self._holds(value):
            raise TypeError(
                f"Type of feed value {value} with type {type(value)} is not compatible with "
                f"Tensor type {self._numpy.type}. Try explicitly setting the type of the feed "
                "tensor to a larger type (e.g. int64)."
            )
        try:
            if dtype not in PLAIN:
                return constant_array(value, dtype)
            return np.asarray(value, self._numpy)
        except OverflowError:  # integers in a list, which numpy 1 cut to the type
            return np.asarray(value).astype(self._numpy)
        except (TypeError, ValueError) as error:
            raise type(error)(
                f"Cannot feed {type(value).__name__} for Tensor {self.name!r} of type "
                f"{dtype.name}: {error}{self._made_at()}"
            ) from error

    def _kept(self, handle: TensorHandle) -> Any:
        """What is fed for a tensor that a session keeps: its value, or its name for strings.

        Raises:
            InvalidArgumentError: It has another dtype.
        """
        if self._dtype is dtypes.string:
            return handle.handle
        if handle.dtype is not self._dtype:
            raise InvalidArgumentError(
                message=f"Tensor {self.name!r} of type {self._dtype.name} is fed a TensorHandle of "
                f"type {handle.dtype.name}; tf.cast it before tf.get_session_handle"
                f"{self._made_at()}"
            )
        return handle.to_numpy_array()

    def _holds(self, value: int) -> bool:
        """Whether an integer stays what it is in the tensor's dtype."""
        if self._dtype.is_integer:
            return bool(self._dtype.min <= value <= self._dtype.max)
        return self._dtype is not dtypes.bool_ or value in (0, 1)

    def _made_at(self) -> str:
        source = self._tensor.op.source
        return f" (defined at {source})" if source else ""


Expand = Callable[[Mapping[Any, Any]], list[Any]]


def resolve(graph: Graph, feed_dict: Mapping[Any, Any]) -> tuple[list[Tensor], Expand | None]:
    """The tensors that the keys of `feed_dict` stand for, in order.

    Returns:
        The tensors, and how to get one value for each from a `feed_dict` with these keys: None when
        its values are just that; nested keys, `IndexedSlices` and sparse tensors stand for several
        tensors.

    Raises:
        TypeError: A key is not a tensor.
        ValueError: A tensor may not be fed.
    """
    tensors: list[Tensor] = []
    is_simple = True
    for key in feed_dict:
        parts = _parts(key)
        is_simple = is_simple and parts is None
        tensors.extend(feed_tensor(graph, each) for each in ([key] if parts is None else parts))
    return tensors, None if is_simple else _expand


def _parts(key: Any) -> list[Any] | None:
    """The single tensors in a key, None when it is one."""
    if isinstance(key, list | tuple):
        nested = [(each, _parts(each)) for each in key]
        return [part for each, parts in nested for part in ([each] if parts is None else parts)]
    if isinstance(key, SparseTensor):
        return [key.indices, key.values, key.dense_shape]
    if isinstance(key, Composite):
        return list(key._components())
    if isinstance(key, IndexedSlices):
        return [part for part in (key.values, key.indices, key.dense_shape) if part is not None]
    return None


def _expand(feed_dict: Mapping[Any, Any]) -> list[Any]:
    return [value for key, item in feed_dict.items() for value in _values(key, item)]


def _values(key: Any, item: Any) -> list[Any]:
    if isinstance(key, Composite):
        return key._arrays_of(item)
    if isinstance(key, IndexedSlices):
        return list(item)[: 2 if key.dense_shape is None else 3]
    if isinstance(key, SparseTensor):
        if len(item) != 3:
            raise ValueError(
                f"A SparseTensor is fed (indices, values, dense_shape), got {len(item)} parts"
            )
        return list(item)
    if not isinstance(key, list | tuple):
        return [item]
    if len(key) != len(item):
        raise ValueError(f"Feed key {key!r} has {len(key)} parts, its value has {len(item)}")
    return [value for k, v in zip(key, item, strict=True) for value in _values(k, v)]


def feed_tensor(graph: Graph, key: Any) -> Tensor:
    """The tensor that a key of a feed_dict names.

    Raises:
        TypeError: The key is not a tensor or the name of one.
        ValueError: It may not be fed.
    """
    try:
        tensor = graph.as_graph_element(key, allow_operation=False)
    except Exception as error:
        text = error.args[0] if error.args else error
        raise TypeError(f"Cannot interpret feed_dict key as Tensor: {text}") from error
    assert isinstance(tensor, Tensor)
    if not graph.is_feedable(tensor):
        raise ValueError(f"Tensor {tensor.name} may not be fed.")
    return tensor

"""What is fed: any tensor, with its dtype and shape checked before anything runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from sparkflow.graph.constants import constant_array
from sparkflow.graph.graph import Graph
from sparkflow.graph.indexed_slices import IndexedSlices
from sparkflow.graph.operators import Symbolic
from sparkflow.graph.tensor import Tensor
from sparkflow_runtime import shapes
from sparkflow_runtime.dtypes import PLAIN


class FeedSlot:
    """One fed tensor: converts and checks each value.

    Args:
        tensor: The tensor that is overridden.
    """

    __slots__ = ("_dtype", "_numpy", "_tensor", "name")

    def __init__(self, tensor: Tensor) -> None:
        self._tensor = tensor
        self._dtype = tensor.dtype.base
        self._numpy = np.dtype(self._dtype.as_numpy_dtype)
        self.name = tensor.name

    def array(self, value: Any) -> np.ndarray[Any, Any]:
        """The value as an array of the tensor's dtype.

        Raises:
            TypeError: The value is a tensor, or cannot have this dtype.
            ValueError: Its shape contradicts the tensor's; or conversion would lose its value.
        """
        shape = self._tensor._shape
        if type(value) is np.ndarray and value.dtype == self._numpy and self._dtype in PLAIN:
            if shape is None or value.shape == shape:
                return value
            array = value
        else:
            array = self._converted(value)
        if shape is not None and (
            len(array.shape) != len(shape)
            or any(d is not None and d != n for d, n in zip(shape, array.shape, strict=True))
        ):
            raise ValueError(
                f"Cannot feed value of shape {array.shape!r} for Tensor {self.name!r}, which has "
                f"shape '{shapes.text(shape)}'{self._made_at()}"
            )
        return array

    def _converted(self, value: Any) -> np.ndarray[Any, Any]:
        if isinstance(value, Symbolic):
            raise TypeError(
                "The value of a feed cannot be a tf.Tensor object. Acceptable feed values include "
                f"Python scalars, strings, lists and numpy ndarrays. For reference, the tensor "
                f"object was {value!r} which was passed to the feed with key {self._tensor!r}."
            )
        dtype = self._dtype
        if isinstance(value, int) and dtype.is_integer and not dtype.min <= value <= dtype.max:
            raise TypeError(
                f"Type of feed value {value} with type {type(value)} is not compatible with Tensor "
                f"type {dtype.name}. Try explicitly setting the type of the feed tensor to a larger "
                "type (e.g. int64)."
            )
        try:
            if dtype not in PLAIN:
                return constant_array(value, dtype)
            array = np.asarray(value)
            if array.dtype.kind in "OSU":
                raise TypeError(f"values of numpy type {array.dtype}")
            return np.asarray(array, self._numpy)
        except (TypeError, ValueError) as error:
            raise type(error)(
                f"Cannot feed {type(value).__name__} for Tensor {self.name!r} of type {dtype.name}: "
                f"{error}{self._made_at()}"
            ) from error

    def _made_at(self) -> str:
        source = self._tensor.op.source
        return f" (defined at {source})" if source else ""


def flatten(graph: Graph, feed_dict: Any) -> list[tuple[Tensor, Any]]:
    """The fed tensors with their values; nested keys and `IndexedSlices` taken apart.

    Raises:
        TypeError: `feed_dict` is not a mapping, or a key is not a tensor.
        ValueError: A tensor may not be fed, or is not in the graph.
    """
    if not isinstance(feed_dict, Mapping):
        raise TypeError(f"feed_dict must map tensors to values, got {type(feed_dict).__name__}")
    pairs: list[tuple[Tensor, Any]] = []
    for key, value in feed_dict.items():
        pairs.extend(_pairs(graph, key, value))
    return pairs


def _pairs(graph: Graph, key: Any, value: Any) -> list[tuple[Tensor, Any]]:
    if isinstance(key, list | tuple):
        if len(key) != len(value):
            raise ValueError(
                f"Feed key {key!r} has {len(key)} tensors, its value {len(value)} parts"
            )
        return [pair for k, v in zip(key, value, strict=True) for pair in _pairs(graph, k, v)]
    if isinstance(key, IndexedSlices):
        parts = [key.values, key.indices, key.dense_shape]
        return [(part, v) for part, v in zip(parts, value, strict=False) if part is not None]
    return [(feed_tensor(graph, key), value)]


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

"""Anything as a tensor of a graph: tensors, variables, numbers, arrays, lists of those."""

from __future__ import annotations

import bisect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from sparkflow.graph.constants import constant_array
from sparkflow.graph.operators import Symbolic
from sparkflow.graph.shapes.dimension import Dimension
from sparkflow.graph.shapes.tensor_shape import TensorShape
from sparkflow.graph.tensor import Tensor
from sparkflow_runtime import dtypes
from sparkflow_runtime.dtypes import DType

if TYPE_CHECKING:
    from sparkflow.graph.graph import Graph


def convert(
    graph: Graph,
    value: Any,
    dtype: DType | None = None,
    name: str | None = None,
    preferred_dtype: DType | None = None,
    as_ref: bool = False,
) -> Tensor:
    """`value` as a tensor of `graph`, see `sparkflow.convert_to_tensor`."""
    if isinstance(value, Symbolic):
        tensor = value._to_tensor(as_ref)
        if dtype is not None and dtype.base is not tensor.dtype.base:
            raise ValueError(
                f"Tensor conversion requested dtype {dtype.name} for Tensor with dtype "
                f"{tensor.dtype.name}: {tensor!r}"
            )
        return tensor
    if isinstance(value, TensorShape | Dimension):
        return _shape(graph, value, dtype, name)
    if isinstance(value, list | tuple):
        found = first_symbolic(value)
        if found is not None:
            return _autopacked(graph, value, dtype, preferred_dtype, name)
        if any(isinstance(item, Dimension) for item in value):
            value = [int(i) if isinstance(i, Dimension) else i for i in value]
    for kinds, function in _FUNCTIONS:
        if isinstance(value, kinds):
            made = function(value, dtype=dtype, name=name, as_ref=as_ref)
            if made is not NotImplemented:
                return _made(made, dtype, function)
    if dtype is None and preferred_dtype is not None:
        try:
            return constant(graph, constant_array(value, preferred_dtype), name)
        except (TypeError, ValueError):
            pass  # a preference, not a demand: the value's own dtype it is
    return constant(graph, constant_array(value, dtype), name)


_FUNCTIONS: list[tuple[tuple[type, ...], Callable[..., Any]]] = []
"""What users registered, in the order of priority."""
_PRIORITIES: list[int] = []


def register(kinds: tuple[type, ...], function: Callable[..., Any], priority: int) -> None:
    """Adds a conversion function, see `sparkflow.register_tensor_conversion_function`."""
    at = bisect.bisect_right(_PRIORITIES, priority)
    _PRIORITIES.insert(at, priority)
    _FUNCTIONS.insert(at, (kinds, function))


def _made(tensor: Any, dtype: DType | None, function: Callable[..., Any]) -> Tensor:
    if not isinstance(tensor, Tensor):
        raise RuntimeError(
            f"Conversion function {function!r} for tensors returned {tensor!r}, not a Tensor"
        )
    if dtype is not None and dtype.base is not tensor.dtype.base:
        raise RuntimeError(
            f"Conversion function {function!r} returned incompatible dtype: requested = "
            f"{dtype.name}, actual = {tensor.dtype.name}"
        )
    return tensor


def constant(graph: Graph, array: Any, name: str | None) -> Tensor:
    """A Const node that holds `array`."""
    dtype = dtypes.as_dtype(array.dtype)
    return graph.add_node("Const", (), {"value": array, "dtype": dtype}, name).outputs[0]


def first_symbolic(value: Any) -> Symbolic | None:
    """The first tensor or variable in nested lists, None when there is none."""
    if isinstance(value, Symbolic):
        return value
    if isinstance(value, list | tuple):
        for item in value:
            found = first_symbolic(item)
            if found is not None:
                return found
    return None


def _autopacked(
    graph: Graph, items: Any, dtype: DType | None, preferred: DType | None, name: str | None
) -> Tensor:
    """Lists with tensors in them; these are cast where another dtype than the first's is asked."""
    first = first_symbolic(items)
    assert first is not None
    own = first._to_tensor().dtype.base
    wanted = dtype or preferred or own
    if wanted.base is not own:
        try:
            return _packed(graph, _cast(graph, items, wanted.base), wanted, name)
        except (TypeError, ValueError):
            if dtype is not None:
                raise  # else a preference, not a demand
    return _packed(graph, items, own, name)


def _cast(graph: Graph, items: Any, dtype: DType) -> Any:
    if isinstance(items, list | tuple):
        return [_cast(graph, item, dtype) for item in items]
    if not isinstance(items, Symbolic) or items._to_tensor().dtype.base is dtype:
        return items
    return graph.apply("Cast", (items,), {"DstT": dtype})


def _packed(graph: Graph, items: Any, dtype: DType, name: str | None) -> Tensor:
    with graph.name_scope(name or "packed") as scope:
        tensors = [
            _packed(graph, item, dtype, str(place))
            if isinstance(item, list | tuple) and first_symbolic(item) is not None
            else convert(graph, item, None if isinstance(item, Symbolic) else dtype, str(place))
            for place, item in enumerate(items)
        ]
        kinds = [tensor.dtype.base for tensor in tensors]
        if len(set(kinds)) > 1:
            raise TypeError(
                f"Tensors in list passed to 'values' of 'Pack' Op have types "
                f"[{dtypes.names(kinds)}] that don't all match."
            )
        packed: Tensor = graph.apply("Pack", (tensors,), {"axis": 0}, scope)
    return packed


def _shape(graph: Graph, value: Any, dtype: DType | None, name: str | None) -> Tensor:
    if dtype is not None and dtype not in dtypes.INDEX:
        raise TypeError(f"Cannot convert {value!r} to dtype {dtype.name}")
    if isinstance(value, Dimension):
        if value.value is None:
            raise ValueError(f"Cannot convert an unknown Dimension to a Tensor: {value}")
        return constant(graph, constant_array(value.value, dtype), name)
    if not value.is_fully_defined():
        raise ValueError(f"Cannot convert a partially known TensorShape to a Tensor: {value}")
    return constant(
        graph, constant_array(value.as_list(), dtype or dtypes.int32), name or "shape_as_tensor"
    )

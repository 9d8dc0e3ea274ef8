"""Functions that take sparse and ragged tensors too."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar

from sparkflow.graph.composite import Composite
from sparkflow.graph.values.sparse_tensor import SparseTensor

Function = TypeVar("Function", bound=Callable[..., Any])


def or_ragged(function: Function) -> Function:
    """Decorates a function: arguments of which one is ragged go to the one for ragged tensors."""

    @functools.wraps(function)
    def called(*args: Any, **kwargs: Any) -> Any:
        for value in (*args, *kwargs.values()):
            for each in value if isinstance(value, list | tuple) else (value,):
                if isinstance(each, Composite):
                    return each._counterpart(function.__name__)(*args, **kwargs)
        return function(*args, **kwargs)

    return called  # type: ignore[return-value]  # the same signature


def of_stored_values(function: Function) -> Function:
    """Decorates a function that keeps 0: of a SparseTensor it gets the values."""

    @functools.wraps(function)
    def wrapper(x: Any, name: str | None = None) -> Any:
        if isinstance(x, SparseTensor):
            return SparseTensor(x.indices, function(x.values, name), x.dense_shape)
        return function(x, name)

    return wrapper  # type: ignore[return-value]  # the same signature

"""Functions that take sparse and ragged tensors too."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from typing import Any, TypeVar

from sparkflow.graph.composite import Composite
from sparkflow.graph.values.sparse_tensor import SparseTensor

Function = TypeVar("Function", bound=Callable[..., Any])


def or_ragged(module: str, name: str | None = None) -> Callable[[Function], Function]:
    """Decorates a function: arguments of which one is ragged go to another.

    Args:
        module: The module in `sparkflow.ragged` that has the other, imported when it is needed.
        name: Its name; that of the function when None.
    """

    def decorated(function: Function) -> Function:
        @functools.wraps(function)
        def called(*args: Any, **kwargs: Any) -> Any:
            for value in (*args, *kwargs.values()):
                if isinstance(value, Composite) or (
                    isinstance(value, list | tuple)
                    and any(isinstance(each, Composite) for each in value)
                ):
                    found = importlib.import_module(f"sparkflow.ragged.{module}")
                    return getattr(found, name or function.__name__)(*args, **kwargs)
            return function(*args, **kwargs)

        return called  # type: ignore[return-value]  # the same signature

    return decorated


def of_stored_values(function: Function) -> Function:
    """Decorates a function that keeps 0: of a SparseTensor it gets the values."""

    @functools.wraps(function)
    def wrapper(x: Any, name: str | None = None) -> Any:
        if isinstance(x, SparseTensor):
            return SparseTensor(x.indices, function(x.values, name), x.dense_shape)
        return function(x, name)

    return wrapper  # type: ignore[return-value]  # the same signature

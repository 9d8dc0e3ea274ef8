"""Default arguments for whole parts of a program: `arg_scope`."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

_Scope = dict[Any, dict[str, Any]]
_decorated: dict[Any, tuple[str, ...]] = {}
"""The names of the arguments with defaults, by the key of the function."""


class _Scopes(threading.local):
    """The open scopes of a thread, innermost last: arguments by the key of the function."""

    def __init__(self) -> None:
        self.open: list[_Scope] = [{}]


_scopes = _Scopes()


def _key(function: Any) -> Any:
    return getattr(function, "_key_op", str(function))


def current_arg_scope() -> _Scope:
    """The arguments that are in force here, by the key of the function."""
    return _scopes.open[-1]


def add_arg_scope(func: Callable[..., Any]) -> Callable[..., Any]:
    """Decorates a function so that `arg_scope` can set default arguments for it."""

    @functools.wraps(func)
    def with_scope(*args: Any, **kwargs: Any) -> Any:
        scoped = current_arg_scope().get(key)
        return func(*args, **({**scoped, **kwargs} if scoped else kwargs))

    key = (func.__module__, func.__qualname__)
    with_scope._key_op = key  # type: ignore[attr-defined]
    count = len(func.__defaults__ or ())
    names = func.__code__.co_varnames[: func.__code__.co_argcount]
    _decorated[key] = names[len(names) - count :] if count else ()
    return with_scope


def has_arg_scope(func: Callable[..., Any]) -> bool:
    """Whether `arg_scope` can set default arguments for the function."""
    return _key(func) in _decorated


def arg_scoped_arguments(func: Callable[..., Any]) -> tuple[str, ...]:
    """The names of the arguments that have defaults.

    Raises:
        ValueError: The function is not decorated.
    """
    _check(func)
    return _decorated[_key(func)]


def arg_scope_func_key(op: Any) -> Any:
    """The key of a function in the dictionary of a scope."""
    return _key(op)


@contextmanager
def arg_scope(list_ops_or_scope: Any, **kwargs: Any) -> Iterator[_Scope]:
    """Sets default arguments of functions that are called inside the block.

    Args:
        list_ops_or_scope: The functions, decorated by `add_arg_scope`; or what another `arg_scope`
            gave, whose arguments are then the ones in force.
        kwargs: The arguments.

    Raises:
        TypeError: Neither a list nor a scope.
        ValueError: Arguments beside a scope, or a function that is not decorated.
    """
    if isinstance(list_ops_or_scope, Mapping):
        if kwargs:
            raise ValueError(
                "When attempting to re-use a scope by suppling a dictionary, kwargs must be empty."
            )
        scope: _Scope = dict(list_ops_or_scope)
    elif isinstance(list_ops_or_scope, list | tuple):
        scope = dict(current_arg_scope())
        for function in list_ops_or_scope:
            _check(function)
            scope[_key(function)] = {**scope.get(_key(function), {}), **kwargs}
    else:
        raise TypeError("list_ops_or_scope must either be a list/tuple or reused scope (i.e. dict)")
    _scopes.open.append(scope)
    try:
        yield scope
    finally:
        _scopes.open.pop()


def _check(function: Any) -> None:
    if not has_arg_scope(function):
        raise ValueError(f"{_key(function)} is not decorated with @add_arg_scope")

"""Values that a process creates once: machine code, thread pools, memory that others point to.

With `functools.cache`, two concurrent threads may create a value twice, and the first one is
dropped: harmless for numbers, fatal if something refers to the dropped one's memory. Values here
are created by one thread while others wait, and all callers get the same object. All values of a
process are created under one lock, so no lock order must be kept: a factory may request other
values, but must not wait for another thread, and a thread that holds a lock which a factory
acquires must not request a value. A fork waits for a value in creation, as the child could not
complete it; finished values are inherited by the child.
"""

from __future__ import annotations

import functools
import inspect
import os
import threading
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from typing import Any, Final, Generic, ParamSpec, TypeVar

__all__ = ["Once", "latest", "once"]

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")
Given = ParamSpec("Given")

_lock: Final = threading.RLock()
"""Held by the thread that creates a value, and while the process forks."""
_fork_guards: Final[list[None]] = []


class Once(Generic[Key, Value]):
    """Values by key, each created once and kept forever. Safe to use from several threads."""

    def __init__(self) -> None:
        self._made: dict[Key, Value] = {}

    def get(self, key: Key, make: Callable[[], Value]) -> Value:
        """Returns the value of a key; creates it if needed, or blocks while another thread does.

        Args:
            key: Identifies the value.
            make: Creates the value. Its exceptions propagate, and the next caller tries again.
        """
        try:
            return self._made[key]
        except KeyError:
            with _making():
                if key not in self._made:
                    self._made[key] = make()
                return self._made[key]

    def found(self, key: Key) -> Value | None:
        """Returns the value of a key if it exists."""
        return self._made.get(key)


def once(make: Callable[Given, Value]) -> Callable[Given, Value]:
    """Decorator: creates a function's value once per arguments and keeps it forever.

    Args:
        make: Its arguments must be hashable.
    """
    made: Once[Any, Value] = Once()
    call: Callable[..., Value] = make
    return _remembered(make, None, lambda args: made.get(args, lambda: call(*args)))


def latest(most: int) -> Callable[[Callable[Given, Value]], Callable[Given, Value]]:
    """As `once`, but keeps only the most recently used values.

    For values that are expensive to create and may be dropped when unused.

    Args:
        most: Maximum number of values.
    """

    def decorate(make: Callable[Given, Value]) -> Callable[Given, Value]:
        kept: Callable[..., Value] = functools.lru_cache(maxsize=most)(make)

        def find(args: tuple[Any, ...]) -> Value:
            with _making():
                return kept(*args)

        return _remembered(make, most, find)

    return decorate


def _remembered(
    make: Callable[Given, Value], most: int | None, find: Callable[[tuple[Any, ...]], Value]
) -> Callable[Given, Value]:
    """Returns the function with functools' cache in front of `find`, whose hits are fast."""
    signature = inspect.signature(make)

    @functools.wraps(make)
    @functools.lru_cache(maxsize=most)
    def remembered(*args: Any, **kwargs: Any) -> Value:
        bound = signature.bind(*args, **kwargs)  # the same value, however the arguments are passed
        bound.apply_defaults()
        return find(bound.args)

    return remembered  # type: ignore[return-value]  # of the arguments that `make` takes


@contextmanager
def _making() -> Iterator[None]:
    with _lock:
        if not _fork_guards:
            _fork_guards.append(None)
            os.register_at_fork(
                before=_lock.acquire, after_in_parent=_lock.release, after_in_child=_lock.release
            )
        yield

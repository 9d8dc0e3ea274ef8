"""What a process makes once: machine code, pools of threads, what addresses in other memory name.

`functools.cache` lets two threads that come at once make a value twice, and drops the first of the
two: harmless for numbers, fatal where what was already given out points into the dropped one. What
is kept here is made by one thread while others wait, and its callers all get the same object. All
values of a process are made under one lock, so there is no order of locks to keep: a maker may ask
for other values; it must not wait for another thread, nor may anybody who holds a lock that some
maker takes ask for a value. A fork waits for what is being made, for the child could not go on
with it; what is made is the child's, too.
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
"""Held by the one thread that makes something, and while the process forks."""
_fork_guards: Final[list[None]] = []


class Once(Generic[Key, Value]):
    """Values by key, each made once and kept for ever. Safe to use from several threads."""

    def __init__(self) -> None:
        self._made: dict[Key, Value] = {}

    def get(self, key: Key, make: Callable[[], Value]) -> Value:
        """The value of a key, made now if there is none; blocks while another thread makes one.

        Args:
            key: What tells the value from the others.
            make: Makes it. What it raises is raised here, and the next who asks tries again.
        """
        try:
            return self._made[key]
        except KeyError:
            with _making():
                if key not in self._made:
                    self._made[key] = make()
                return self._made[key]

    def found(self, key: Key) -> Value | None:
        """The value of a key if it is made."""
        return self._made.get(key)


def once(make: Callable[Given, Value]) -> Callable[Given, Value]:
    """The function with its value for the same arguments made once and kept for ever.

    Args:
        make: Its arguments must be hashable.
    """
    made: Once[Any, Value] = Once()
    call: Callable[..., Value] = make
    return _remembered(make, None, lambda args: made.get(args, lambda: call(*args)))


def latest(most: int) -> Callable[[Callable[Given, Value]], Callable[Given, Value]]:
    """The same, but that only the values that were asked for last are kept.

    For what is dear to make, and may be dropped once nobody holds it any more.

    Args:
        most: So many.
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
    """The function with `find` behind functools' cache, whose hits cost next to nothing."""
    signature = inspect.signature(make)

    @functools.wraps(make)
    @functools.lru_cache(maxsize=most)
    def remembered(*args: Any, **kwargs: Any) -> Value:
        bound = signature.bind(*args, **kwargs)  # however it is spelt, it is the same value
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

"""`ByName`: functions that modules find by name where importing them would close a circle."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

Made = TypeVar("Made", bound=Callable[..., Any])


class ByName:
    """Functions and classes by their own names.

    A package that has one imports all modules that add to it.
    """

    def __init__(self) -> None:
        self._made: dict[str, Callable[..., Any]] = {}

    def add(self, made: Made) -> Made:
        """Decorates what is to be found.

        Raises:
            ValueError: Something else has the name.
        """
        name = made.__name__
        if self._made.setdefault(name, made) is not made:
            raise ValueError(f"Two are called {name!r}: {self._made[name]!r} and {made!r}")
        return made

    def find(self, name: str) -> Callable[..., Any]:
        """What was added under its own name.

        Raises:
            KeyError: Nothing was.
        """
        return self._made[name]

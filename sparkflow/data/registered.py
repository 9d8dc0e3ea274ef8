"""What methods of datasets and iterators find by name: functions that are written with them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

Made = TypeVar("Made", bound=Callable[..., Any])
_MADE: Final[dict[str, Callable[..., Any]]] = {}


def of_datasets(made: Made) -> Made:
    """Registers a function or class of this package, all of which is imported with it."""
    _MADE[made.__name__] = made
    return made


def registered(name: str) -> Callable[..., Any]:
    """What was registered under its own name."""
    return _MADE[name]

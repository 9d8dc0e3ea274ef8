"""Public modules whose names are imported when they are first used."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NoReturn


def face(
    module: str, homes: Mapping[str, str], submodules: str = ""
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """Returns `__getattr__`, `__dir__` and `__all__` of a module that re-exports names of others.

    A name is looked up once; then it is an attribute of the module like any other.

    Args:
        module: Its `__name__`.
        homes: Per module that defines something, the names it has here, separated by spaces;
            `string_join:join` is its `string_join`, which is called `join` here.
        submodules: The names of the modules in it.
    """
    places: dict[str, tuple[str, str | None]] = {}
    for home, names in homes.items():
        for each in names.split():
            original, _, public = each.partition(":")
            places[public or original] = home, original
    for each in submodules.split():
        places[each] = f"{module}.{each}", None
    listed = sorted(places)

    def getattr_of_module(name: str) -> Any:
        try:
            home, original = places[name]
        except KeyError:
            raise AttributeError(missing(module, name, listed)) from None
        found: Any = importlib.import_module(home)
        if original is not None:
            found = getattr(found, original)
        vars(sys.modules[module])[name] = found
        return found

    return getattr_of_module, listed.copy, listed


def missing(module: str, name: str, known: Iterable[str]) -> str:
    """The error text for a name that a module does not have."""
    if name.startswith("__"):  # a protocol of Python asks, nobody misspelt anything
        return f"module {module!r} has no attribute {name!r}"
    from sparkflow._api.unknown_names import describe  # a large table, needed for mistakes only

    return describe(module, name, known)


def answers(module: str) -> Callable[[str], NoReturn]:
    """The `__getattr__` of a module that defines its names: says what to use, or what was meant.

    Args:
        module: TensorFlow's name of the module without `tf.`.
    """

    def getattr_of_module(name: str) -> NoReturn:
        full = f"sparkflow.{module}"
        known = getattr(sys.modules.get(full), "__all__", ())
        raise AttributeError(missing(full, name, known))

    return getattr_of_module

"""`tf.Module`: an object with variables."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator
from typing import Any

import tree

from sparkflow._api import export
from sparkflow.graph.scopes import get_default_graph
from sparkflow.variables.trackable import Trackable
from sparkflow.variables.variable import Variable


@export("Module")
class Module(Trackable):
    """Holds variables and other modules as attributes, and finds them.

    Args:
        name: The name scope; the class's name in snake case when None.

    Raises:
        ValueError: The name is no Python identifier.
    """

    def __init__(self, name: str | None = None) -> None:
        if name is None:
            name = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", type(self).__name__).lower()
        if not name.isidentifier():
            raise ValueError(
                f"{name!r} is not a valid module name. Module names must be valid Python "
                "identifiers (e.g. a valid class name)."
            )
        self._name = name
        with get_default_graph().name_scope(name) as scope:
            self._scope_name = scope

    @property
    def name(self) -> str:
        """The name."""
        return self._name

    @property
    def name_scope(self) -> Any:
        """A context in which nodes get the module's scope."""
        return get_default_graph().name_scope(self._scope_name)

    @classmethod
    def with_name_scope(cls, method: Callable[..., Any]) -> Callable[..., Any]:
        """Decorates a method to run in `name_scope`."""

        @functools.wraps(method)
        def inside(self: Module, *args: Any, **kwargs: Any) -> Any:
            with self.name_scope:
                return method(self, *args, **kwargs)

        return inside

    @property
    def variables(self) -> tuple[Any, ...]:
        """The variables of this module and of those inside."""
        return tuple(each for each in self._found(set()) if isinstance(each, Variable))

    @property
    def trainable_variables(self) -> tuple[Any, ...]:
        """Those of `variables` that are trained."""
        return tuple(each for each in self.variables if each.trainable)

    @property
    def submodules(self) -> tuple[Module, ...]:
        """The modules inside, and inside those."""
        return tuple(each for each in self._found(set()) if isinstance(each, Module))

    def _found(self, seen: set[int]) -> Iterator[Any]:
        seen.add(id(self))
        for name in sorted(vars(self)):
            for leaf in tree.flatten(vars(self)[name]):
                if isinstance(leaf, Variable | Module) and id(leaf) not in seen:
                    seen.add(id(leaf))
                    yield leaf
                    if isinstance(leaf, Module):
                        yield from leaf._found(seen)

"""`tf.test.StubOutForTesting`: replaces attributes for the length of a test."""

from __future__ import annotations

import inspect
from types import TracebackType
from typing import Any


class StubOutForTesting:
    """Replaces attributes of modules and classes, and puts the old ones back.

    As a context manager it cleans up at the end of the block.
    """

    def __init__(self) -> None:
        self._stubs: list[tuple[Any, str, Any]] = []
        self._sets: list[tuple[Any, str, Any]] = []

    def __enter__(self) -> StubOutForTesting:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.CleanUp()

    def __del__(self) -> None:
        self.CleanUp()

    def CleanUp(self) -> None:
        """Undoes everything."""
        self.SmartUnsetAll()
        self.UnsetAll()

    def SmartSet(self, obj: Any, attr_name: str, new_attr: Any) -> None:
        """Replaces an attribute where it is defined: in `obj`, or in the base class that has it.

        Raises:
            AttributeError: There is no such attribute.
        """
        owner = obj
        if inspect.isclass(obj):
            owner = next((c for c in inspect.getmro(obj) if attr_name in vars(c)), obj)
        elif not inspect.ismodule(obj) and attr_name not in getattr(obj, "__dict__", {}):
            owner = next((c for c in inspect.getmro(type(obj)) if attr_name in vars(c)), obj)
            if owner is not obj:
                self._remember_and_set(self._stubs, obj, attr_name, new_attr)
                return
        self._remember_and_set(self._stubs, owner, attr_name, new_attr)

    def SmartUnsetAll(self) -> None:
        """Undoes every `SmartSet`."""
        _restore(self._stubs)

    def Set(self, parent: Any, child_name: str, new_child: Any) -> None:
        """Replaces an attribute.

        Raises:
            AttributeError: There is no such attribute.
        """
        self._remember_and_set(self._sets, parent, child_name, new_child)

    def UnsetAll(self) -> None:
        """Undoes every `Set`."""
        _restore(self._sets)

    @staticmethod
    def _remember_and_set(
        where: list[tuple[Any, str, Any]], owner: Any, name: str, new: Any
    ) -> None:
        old = (
            vars(owner).get(name, _MISSING) if hasattr(owner, "__dict__") else getattr(owner, name)
        )
        if old is _MISSING:
            getattr(owner, name)  # raises where there is none at all
        where.append((owner, name, old))
        setattr(owner, name, new)


_MISSING = object()


def _restore(changes: list[tuple[Any, str, Any]]) -> None:
    while changes:
        owner, name, old = changes.pop()
        if old is _MISSING:
            delattr(owner, name)
        else:
            setattr(owner, name, old)

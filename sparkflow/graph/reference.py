"""`Tensor.ref()`: what stands for a tensor or variable in sets and as a key of dictionaries."""

from __future__ import annotations

from typing import Any


class Reference:
    """Equal to another one of the same object, and hashed like it.

    Args:
        obj: The object, which is kept alive.
    """

    __slots__ = ("_object",)

    def __init__(self, obj: Any) -> None:
        self._object = obj

    def deref(self) -> Any:
        """The object."""
        return self._object

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Reference) and self._object is other._object

    def __hash__(self) -> int:
        return id(self._object)

    def __repr__(self) -> str:
        return f"<Reference wrapping {self._object!r}>"

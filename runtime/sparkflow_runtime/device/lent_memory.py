"""Memory lent to arrays: its owner is notified when the last of them is gone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class LentMemory:
    """The base of an array and all of its views; `numpy.asarray` creates the array.

    Args:
        interface: Address and layout, as in numpy's `__array_interface__`.
        give_back: Called once, when no view is left, in any thread and at any point. It keeps its
            referents alive, which must include the memory.
    """

    __slots__ = ("__array_interface__", "_give_back")

    def __init__(self, interface: dict[str, Any], give_back: Callable[[], object]) -> None:
        self.__array_interface__ = interface
        self._give_back = give_back

    def __del__(self) -> None:
        """Returns the memory to its owner."""
        self._give_back()


def bytes_at(address: int, size_bytes: int, read_only: bool = False) -> dict[str, Any]:
    """Returns the array interface of [size_bytes] uint8 at an address."""
    return {
        "data": (address, read_only),
        "shape": (size_bytes,),
        "typestr": "|u1",
        "version": 3,
    }

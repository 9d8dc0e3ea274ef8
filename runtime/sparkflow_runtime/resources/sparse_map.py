"""Sparse tensors stored under numeric handles, so that a queue can carry them."""

from __future__ import annotations

import itertools
import threading
from typing import Any

from sparkflow_runtime.errors import InvalidArgumentError

Sparse = tuple[Any, Any, Any]
"""Indices [n, rank], values [n], shape [rank]."""


class SparseTensorsMap:
    """Sparse tensors by handle. Safe to use from several threads: `_lock` guards the rest."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._tensors: dict[int, Sparse] = {}
        self._numbers = itertools.count()

    def add(self, tensor: Sparse) -> int:
        """Stores a tensor; returns its handle."""
        with self._lock:
            number = next(self._numbers)
            self._tensors[number] = tensor
        return number

    def take(self, numbers: list[int]) -> list[Sparse]:
        """Removes and returns tensors.

        Raises:
            InvalidArgumentError: A handle is unknown, or was taken already.
        """
        with self._lock:
            unknown = [number for number in numbers if number not in self._tensors]
            if unknown:
                raise InvalidArgumentError(
                    message=f"Unable to find SparseTensor: {unknown[0]} in map; each can be taken "
                    "once"
                )
            return [self._tensors.pop(number) for number in numbers]

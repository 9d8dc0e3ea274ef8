"""Kernels that a node chooses by input shapes, cached for the latest shapes."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from sparkflow_runtime.ops.op import Array

REMEMBERED: Final = 64
"""Maximum cached shapes per node; the one cached first makes room for another."""


@dataclass(frozen=True, slots=True)
class Chosen:
    """The kernel for inputs of certain shapes.

    Attributes:
        shape: Shape of the result.
        fill: Computes the result into a contiguous array; returns False if it cannot.
    """

    shape: Sequence[int]
    fill: Callable[[Sequence[Array], Array], bool]


class ByShape:
    """The kernels of one node. Thread-safe.

    Args:
        choose: Returns the kernel for inputs of these shapes; None if there is none.
        sizes: The number of the input that holds sizes, whose values are part of the cache key.
        xp: The module of the arrays.
    """

    def __init__(
        self, choose: Callable[..., Chosen | None], sizes: int | None = None, xp: Any = np
    ) -> None:
        self._choose = choose
        self._sizes = sizes
        self._xp = xp
        self._chosen: dict[Any, Chosen | None] = {}
        self._lock = threading.Lock()

    def chosen(self, inputs: Sequence[Array]) -> Chosen | None:
        """The kernel for these inputs; raises what `choose` raises."""
        key: list[Any] = [each.shape for each in inputs]
        if self._sizes is not None:
            key.append(inputs[self._sizes].tobytes())
        known = tuple(key)
        try:
            return self._chosen[known]
        except KeyError:
            found = self._choose(*inputs)
            with self._lock:
                if len(self._chosen) >= REMEMBERED:
                    del self._chosen[next(iter(self._chosen))]
                self._chosen[known] = found
            return found

    def kernel(self, plain: Callable[..., Array]) -> Callable[..., Array]:
        """Returns a kernel like `Op.bind`.

        Args:
            plain: The fallback kernel.
        """

        def kernel(*inputs: Array) -> Array:
            chosen = self.chosen(inputs)
            if chosen is not None:
                out = self._xp.empty(chosen.shape, inputs[-1].dtype)
                if chosen.fill(inputs, out):
                    return out
            return plain(*inputs)

        return kernel

    def kernel_out(self, plain: Callable[..., Array]) -> Callable[..., None]:
        """Returns a kernel like `Op.bind_out`."""

        def kernel(*arrays: Array) -> None:
            *inputs, out = arrays
            chosen = self.chosen(inputs)
            if chosen is None or not chosen.fill(inputs, out):
                self._xp.copyto(out, plain(*inputs))

        return kernel

"""What a node chooses by the shapes of its inputs, remembered for the latest shapes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from sparkflow_runtime.ops.op import Array

REMEMBERED: Final = 16
"""Shapes per node."""


@dataclass(frozen=True, slots=True)
class Chosen:
    """The kernel for inputs of certain shapes.

    Attributes:
        shape: Of the result.
        fill: Computes from the inputs into a contiguous array; False where it cannot.
    """

    shape: Sequence[int]
    fill: Callable[[Sequence[Array], Array], bool]


class ByShape:
    """The kernels of one node. Several threads may use it at once.

    Args:
        choose: The kernel for inputs like these; None if there is none.
        sizes: The number of the input that holds sizes, whose values count as its shape does.
        xp: The module of the arrays.
    """

    def __init__(
        self, choose: Callable[..., Chosen | None], sizes: int | None = None, xp: Any = np
    ) -> None:
        self._choose = choose
        self._sizes = sizes
        self._xp = xp
        self._chosen: dict[Any, Chosen | None] = {}

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
            if len(self._chosen) >= REMEMBERED:
                self._chosen.clear()
            self._chosen[known] = found
            return found

    def kernel(self, plain: Callable[..., Array]) -> Callable[..., Array]:
        """A kernel as `Op.bind` gives it.

        Args:
            plain: Does it where nothing is chosen.
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
        """The same as `Op.bind_out` gives it."""

        def kernel(*arrays: Array) -> None:
            *inputs, out = arrays
            chosen = self.chosen(inputs)
            if chosen is None or not chosen.fill(inputs, out):
                self._xp.copyto(out, plain(*inputs))

        return kernel

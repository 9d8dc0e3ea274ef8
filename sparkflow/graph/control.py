"""Control dependencies of one graph: what nodes made now must wait for."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sparkflow.graph.operation import Operation


class _Controller:
    """One `control_dependencies` block: what it waits for, and what was made in it."""

    __slots__ = ("made", "waits_for")

    def __init__(self, waits_for: list[Operation]) -> None:
        self.waits_for = waits_for
        self.made: set[Operation] = set()


class ControlDependencies:
    """The `control_dependencies` blocks that are open in a graph."""

    def __init__(self) -> None:
        self._open: list[_Controller] = []

    @property
    def is_free(self) -> bool:
        """Whether nodes made now wait for nothing but their inputs."""
        return not self._open

    @contextmanager
    def entered(self, waits_for: list[Operation] | None) -> Iterator[None]:
        """Opens a block; None suspends those that are open."""
        outer = self._open
        self._open = [] if waits_for is None else [*outer, _Controller(waits_for)]
        try:
            yield
        finally:
            self._open = outer

    def apply(self, op: Operation) -> None:
        """Gives a new node what it must wait for.

        A block is skipped when an input was made in it, because that one waits already.
        """
        inputs = {tensor.op for tensor in op.inputs}
        waits_for: dict[Operation, None] = dict.fromkeys(op.control_inputs)
        for controller in self._open:
            if controller.made.isdisjoint(inputs):
                waits_for.update((c, None) for c in controller.waits_for if c not in inputs)
            controller.made.add(op)
        op.control_inputs = list(waits_for)

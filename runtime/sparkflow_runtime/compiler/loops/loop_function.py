"""A function of a loop, planned for the shapes of its arguments: what the planner is given."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from sparkflow_runtime.compiler.known import Known
from sparkflow_runtime.compiler.loops.accumulators import Accumulator
from sparkflow_runtime.compiler.plan import Unit
from sparkflow_runtime.ir.function import Function
from sparkflow_runtime.ir.node import Endpoint


@dataclass(frozen=True, slots=True)
class LoopFunction:
    """The condition or the body of a loop, planned for the shapes of its arguments.

    Attributes:
        function: What it is.
        units: What it does.
        known: What is known of its tensors.
        accumulators: The variables that only grow. The units leave out the sums.
    """

    function: Function
    units: Sequence[Unit]
    known: Mapping[Endpoint, Known]
    accumulators: Sequence[Accumulator] = ()


Shapes: TypeAlias = tuple[tuple[int, ...] | None, ...]
"""Of arguments; None for those without one: tapes, variables of the graph."""
BranchOf: TypeAlias = Callable[[str, Shapes], LoopFunction]
"""Gives a function, planned for arguments of these shapes."""

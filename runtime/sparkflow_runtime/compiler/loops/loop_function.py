"""A function of a loop, planned for the shapes of its arguments: the planner's input."""

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
        function: The function.
        units: Its units of work.
        known: What is known of its tensors.
        accumulators: The variables that only accumulate. The units omit the sums.
    """

    function: Function
    units: Sequence[Unit]
    known: Mapping[Endpoint, Known]
    accumulators: Sequence[Accumulator] = ()


Shapes: TypeAlias = tuple[tuple[int, ...] | None, ...]
"""Shape and dtype per argument; None for tapes and variables of the graph."""
BranchOf: TypeAlias = Callable[[str, Shapes], LoopFunction]
"""Returns a function planned for arguments of these shapes."""

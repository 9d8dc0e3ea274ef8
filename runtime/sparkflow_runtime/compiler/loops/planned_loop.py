"""A loop in machine code as the planner gives it: what is done, and what pointers point to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

import numpy as np

from sparkflow_runtime.compiler.loops.accumulators import KeptProduct
from sparkflow_runtime.compiler.loops.lists import LoopList
from sparkflow_runtime.compiler.loops.pointers import Cell
from sparkflow_runtime.compiler.loops.steps import LoopSteps, Packing
from sparkflow_runtime.compiler.loops.tapes import Recorded, TapeReading
from sparkflow_runtime.ops.machine_call import Stream


@dataclass(frozen=True, slots=True)
class Ends:
    """What is known of the variables of a loop before the first turn and after the last one.

    Attributes:
        starts: By their positions, their values before the first turn; None where they differ from
            run to run.
        unread: Positions of those that nobody reads after the last one.
    """

    starts: Mapping[int, Any]
    unread: Set[int]


NOTHING_KNOWN: Final = Ends(MappingProxyType({}), frozenset())


@dataclass(slots=True)
class PlannedLoop:
    """A loop for arguments of fixed shapes. Nothing in it changes any more.

    Attributes:
        steps: What is done.
        cells: What every pointer points to; None for those that are no array of the loop's.
        arguments: Numbers of the pointers to the variables; None for tapes.
        results: Numbers of the pointers to their next values; None where they stay.
        constants: Arrays by the number of their pointers.
        taped: What is recorded, None for no tape.
        tapes: Readings of tapes given as arguments.
        lists: The lists among the variables that are read or written.
        borrowed: Numbers of the pointers that steps set.
        turn_s: About how long a turn takes.
        packings: Factors that are packed in runs in which they stay the same.
        streams: What turns draw from.
        growing: Numbers of the pointers to variables that turns add to in place.
        kept: Products whose factors are kept.
        has_loops: Whether a turn may have any number of turns of its own.
        ends: What is known of the variables outside of the loop.
    """

    steps: LoopSteps
    cells: list[Cell | None]
    arguments: list[int | None]
    results: list[int | None]
    constants: dict[int, np.ndarray[Any, Any]]
    taped: tuple[Recorded, ...] | None
    tapes: list[TapeReading]
    lists: list[LoopList]
    borrowed: set[int]
    turn_s: float = 0.0
    packings: Sequence[Packing] = ()
    streams: Sequence[Stream] = ()
    growing: Set[int] = frozenset()
    kept: Sequence[KeptProduct] = ()
    has_loops: bool = False
    ends: Ends = NOTHING_KNOWN

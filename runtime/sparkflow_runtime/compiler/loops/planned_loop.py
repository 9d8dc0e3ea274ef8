"""A loop in machine code as planned: its steps, and the targets of its pointers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field
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
    """What is known of the initial and final variables of a loop.

    Attributes:
        starts: Initial values by position; None if they differ between runs.
        unread: Positions of variables that are not read after the loop.
    """

    starts: Mapping[int, Any]
    unread: Set[int]


NOTHING_KNOWN: Final = Ends(MappingProxyType({}), frozenset())


@dataclass(slots=True)
class PlannedLoop:
    """A loop for arguments of fixed shapes. Immutable.

    Attributes:
        steps: The steps.
        cells: The target of every pointer; None if it is not an array of the loop.
        arguments: Numbers of the pointers to the variables; None for tapes.
        results: Numbers of the pointers to their next values; None if they never change.
        constants: Arrays by the number of their pointers.
        taped: What is recorded, None for no tape.
        tapes: Readings of tapes given as arguments.
        lists: The lists among the variables that are read or written.
        borrowed: Numbers of the pointers that steps set.
        turn_s: The approximate time of an iteration.
        packings: Factors that are packed in runs in which they are constant.
        streams: The random streams that iterations draw from.
        growing: Numbers of the pointers to variables that iterations add to in place.
        kept: Products whose factors are kept.
        has_loops: Whether iterations contain inner loops of any length.
        ends: What is known of the variables outside the loop.
        overwriting: See `Pointers`.
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
    overwriting: Mapping[int, int] = field(default_factory=dict)

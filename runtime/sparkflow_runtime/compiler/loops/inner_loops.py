"""The variables of a loop in a turn of another one.

They are arrays of the outer loop, each with a second one for its next value. After a turn of the
inner loop the pointers to the two change places. So what a variable is in the end is copied from
where its pointer points, for whoever reads it later.
"""

from __future__ import annotations

from collections.abc import Set
from typing import Any, Final

from sparkflow_runtime.codegen.cpu.repeat import Step
from sparkflow_runtime.compiler.loops.pointers import NotNativeError, Pointers
from sparkflow_runtime.ir.function import Function
from sparkflow_runtime.ir.node import Endpoint

_MOST_S: Final = 0.02
_LEAST_TURNS: Final = 64
_MOST_TURNS: Final = 1 << 16


def most_turns(turn_s: float) -> int:
    """How many turns a loop in a turn may take: nobody looks for cancellation meanwhile.

    Args:
        turn_s: About how long one takes.
    """
    return max(_LEAST_TURNS, min(_MOST_TURNS, int(_MOST_S / max(turn_s, 1e-12))))


class InnerVariables:
    """The variables.

    Args:
        pointers: Of the outer loop.
        body: Of the inner one.
        outer: What its variables begin with, see `tapes.Place`.

    Attributes:
        places: What the variables are in a turn: those that stay are what they begin with.
        begin: The steps before the first turn.
        after: The steps after the last one.
        ends: What the variables are then.

    Raises:
        NotNativeError: One that changes is no array.
    """

    def __init__(self, pointers: Pointers, body: Function, outer: list[Any]) -> None:
        self._pointers = pointers
        self.places: list[Any] = list(outer)
        self.ends: list[Any] = list(outer)
        self.begin: list[Step] = []
        self.after: list[Step] = []
        self._changing: dict[int, int] = {}
        for number, (argument, result) in enumerate(zip(body.args, body.results, strict=True)):
            if result.inputs[0] == Endpoint(argument.name, 0):
                continue
            place = outer[number]
            if not isinstance(place, int):
                raise NotNativeError("a loop in a turn changes a list")
            cell = pointers.cell(place)
            variable, end = pointers.of(cell), pointers.of(cell)
            self.begin.append(pointers.copy(place, variable))
            self.after.append(pointers.copy(variable, end))
            self.places[number] = self._changing[number] = variable
            self.ends[number] = end

    def exchanges(
        self, results: list[Any], taken: Set[Any], turn: list[Any]
    ) -> tuple[tuple[int, int], ...]:
        """The pointers that change places after a turn.

        Args:
            results: What the variables become.
            taken: Pointers that have to stay where they are, besides those to the variables.
            turn: The steps of the turn; gets copies of what does not belong to it.

        Raises:
            NotNativeError: A variable changes its shape.
        """
        pointers, found = self._pointers, list[tuple[int, int]]()
        taken = {*taken, *self.places, *self.ends}
        for number, variable in self._changing.items():
            result, cell = results[number], pointers.cell(variable)
            if not isinstance(result, int) or pointers.cell(result) != cell:
                raise NotNativeError("a variable of a loop in a turn changes its shape")
            if result in taken:
                copy = pointers.of(cell)
                turn.append(pointers.copy(result, copy))
                result = copy
            taken.add(result)
            found.append((variable, result))
        return tuple(found)

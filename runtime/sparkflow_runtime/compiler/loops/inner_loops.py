"""The variables of an inner loop.

They are arrays of the outer loop, each with a second one for its next value unless that is written
over the current one. After an iteration of the inner loop the two pointers are swapped. So a
variable's final value is copied from the target of its pointer, for later readers.
"""

from __future__ import annotations

from collections.abc import Set
from typing import Any, Final

from sparkflow_runtime.codegen.cpu.repeat import Step
from sparkflow_runtime.compiler.loops.overwriting import overwrite
from sparkflow_runtime.compiler.loops.pointers import NotNativeError, Pointers
from sparkflow_runtime.ir.function import Function
from sparkflow_runtime.ir.node import Endpoint

_MOST_S: Final = 0.02
_LEAST_TURNS: Final = 64
_MOST_TURNS: Final = 1 << 16


def most_turns(turn_s: float) -> int:
    """Returns the maximum iterations of an inner loop, which does not check for cancellation.

    Args:
        turn_s: The approximate time of an iteration.
    """
    return max(_LEAST_TURNS, min(_MOST_TURNS, int(_MOST_S / max(turn_s, 1e-12))))


class InnerVariables:
    """The variables.

    Args:
        pointers: The outer loop's.
        body: The inner loop's.
        outer: The initial values of its variables, see `tapes.Place`.

    Attributes:
        places: The variables during an iteration: unchanged ones are their initial values.
        begin: The steps before the first iteration.
        after: The steps after the last one.
        ends: The final variables.

    Raises:
        NotNativeError: A changing variable is not an array.
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
                raise NotNativeError("an inner loop changes a list")
            cell = pointers.cell(place)
            variable, end = pointers.of(cell), pointers.of(cell)
            self.begin.append(pointers.copy(place, variable))
            self.after.append(pointers.copy(variable, end))
            self.places[number] = self._changing[number] = variable
            self.ends[number] = end

    def exchanges(
        self, results: list[Any], taken: Set[Any], turn: list[Any]
    ) -> tuple[tuple[int, int], ...]:
        """Returns the pointers that are swapped after an iteration.

        Args:
            results: The next values of the variables.
            taken: Pointers that must not be swapped, in addition to those of variables.
            turn: The steps of the iteration; copies of foreign arrays are appended, and kernels
                that write next values over the current ones may move back.

        Raises:
            NotNativeError: A variable changes its shape.
        """
        pointers, found = self._pointers, list[tuple[int, int]]()
        taken = {*taken, *self.places, *self.ends}
        for number, variable in self._changing.items():
            result, cell = results[number], pointers.cell(variable)
            if not isinstance(result, int) or pointers.cell(result) != cell:
                raise NotNativeError("a variable of an inner loop changes its shape")
            if result in taken:
                copy = pointers.of(cell)
                turn.append(pointers.copy(result, copy))
                result = copy
            taken.add(result)
            found.append((variable, result))
        turn[:], in_place = overwrite(turn, found, pointers.may_replace)
        pointers.overwriting.update(in_place)
        return tuple(pair for pair in found if pair[0] not in in_place)

"""A loop over kernels in machine code: turn after turn without a word of Python.

What a loop does is a table of int64 numbers, the program. Its steps call the bodies of kernels with
pointers from a second table. After every turn some of these move on to the next row of a stack, or
change over between two buffers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sparkflow_runtime.codegen.cpu.repeat_ir import (
    CALL_HEAD,
    FULL,
    LONG,
    MOST_ARRAYS,
    OUT_OF_RANGE,
    REFUSED,
    REPEAT_HEAD,
    TEXT,
    Head,
    Kind,
)
from sparkflow_runtime.codegen.machine import entry, native
from sparkflow_runtime.once import once


@dataclass(frozen=True, slots=True)
class Call:
    """A step that runs a kernel.

    Attributes:
        kernel: Bound, see `native.Body.bind`.
        arrays: Numbers of the pointers to its arrays.
    """

    kernel: Callable[..., bool]
    arrays: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Read:
    """A step that has a pointer point to a row of a stack.

    Attributes:
        index: Number of the pointer to the row's number, an int32.
        stack: Number of the pointer to the stack, which does not move.
        row_bytes: Number of the pointer that is the size of a row instead.
        rows: Number of the pointer that is how many rows there are instead.
        target: Number of the pointer that is set.
    """

    index: int
    stack: int
    row_bytes: int
    rows: int
    target: int


@dataclass(frozen=True, slots=True)
class Look:
    """A step that has a pointer point to an element of a list, or to zeros.

    Attributes:
        index: Number of the pointer to the element's number, an int32.
        control: Number of the pointer to the list, see `ListField`.
        target: Number of the pointer that is set.
    """

    index: int
    control: int
    target: int


@dataclass(frozen=True, slots=True)
class Put:
    """A step that has a pointer point to where an element of a list is to be written.

    Attributes:
        index: Number of the pointer to the element's number, an int32.
        control: Number of the pointer to the list.
        target: Number of the pointer that is set.
        once: Whether nothing may have been set there.
    """

    index: int
    control: int
    target: int
    once: bool = False


@dataclass(frozen=True, slots=True)
class Clear:
    """A step after which an element of a list is not set; there need not be such an element.

    Attributes:
        index: Number of the pointer to the element's number, an int32.
        control: Number of the pointer to the list.
    """

    index: int
    control: int


@dataclass(frozen=True, slots=True)
class Check:
    """A step that ends the run where what was found before it is not as it must be.

    Attributes:
        failure: Number of the pointer to an int32 that is 0 where all is well.
    """

    failure: int


@dataclass(frozen=True, slots=True)
class Choose:
    """A step that does one of two lists of steps.

    Attributes:
        condition: Number of the pointer to a bool.
        then: What is done where it holds.
        otherwise: What is done where it does not.
    """

    condition: int
    then: tuple[Step, ...]
    otherwise: tuple[Step, ...]


@dataclass(frozen=True, slots=True)
class Repeat:
    """A step that is a loop of its own.

    Attributes:
        condition: Steps that find out whether there is another turn.
        steps: Those of the turn.
        flag: Number of the pointer to the condition's result, a bool.
        exchanges: Pairs of numbers of pointers that change places after a turn.
        most_turns: With more turns the run ends: nobody could cancel it meanwhile.
    """

    condition: tuple[Step, ...]
    steps: tuple[Step, ...]
    flag: int
    exchanges: tuple[tuple[int, int], ...]
    most_turns: int


Step = Call | Read | Look | Put | Clear | Check | Choose | Repeat


class RefusedError(Exception):
    """A turn is given what it cannot do; whoever does the same in Python says why.

    Attributes:
        is_full: Whether more memory for the list would do.
        is_long: Whether a loop in a turn took too many turns.
    """

    def __init__(self, is_full: bool, is_long: bool = False) -> None:
        super().__init__("A list has no room" if is_full else "A turn cannot be done")
        self.is_full = is_full
        self.is_long = is_long


@dataclass(frozen=True, slots=True)
class Move:
    """What becomes of a pointer after a turn: `(pointer + add) ^ toggle`.

    Attributes:
        pointer: Its number.
        add: Bytes.
        toggle: Bits that change.
    """

    pointer: int
    add: int = 0
    toggle: int = 0


class Loop:
    """The steps of a loop. For one thread at a time: its kernels may have memory of their own.

    Args:
        condition: Steps that find out whether there is another turn.
        steps: Those of the turn.
        flag: Number of the pointer to the condition's result, a bool.
    """

    def __init__(self, condition: Sequence[Step], steps: Sequence[Step], flag: int) -> None:
        self._kernels = _kernels((*condition, *steps))
        words = [0] * Head.STEPS
        for step in condition:
            words += _words(step)
        words[Head.CONDITION_END] = len(words)
        for step in steps:
            words += _words(step)
        words[Head.STEPS_END] = len(words)
        words[Head.FLAG] = flag
        self._words = words

    def program(self, moves: Sequence[Move]) -> Program:
        """The loop with what becomes of its pointers after each turn."""
        moved = (n for move in moves for n in (move.pointer, move.add, move.toggle))
        words = [*self._words, *moved]
        words[Head.MOVES_END] = len(words)
        return Program(np.array(words, np.int64), self._kernels)


class Program:
    """A loop ready to run. For one thread at a time.

    Args:
        words: See `repeat_ir`.
        kernels: What they call.
    """

    def __init__(self, words: np.ndarray[Any, Any], kernels: Sequence[Callable[..., bool]]) -> None:
        self._words = words
        self._kernels = kernels
        self._run = _driver()

    def run(self, pointers: np.ndarray[Any, Any], max_turns: int) -> tuple[int, bool]:
        """Runs turns until the condition does not hold.

        Other Python threads run meanwhile.

        Args:
            pointers: int64, the addresses at the next turn; changed to those of the turn after.
            max_turns: At most so many.

        Returns:
            The number of turns, and whether the condition did not hold any more.

        Raises:
            IndexError: A stack has no such row.
            RefusedError: A list has no such element, or it was set already; a check failed; a loop
                in a turn takes too long.
        """
        words = self._words
        words[Head.MAX_TURNS], words[Head.IS_DONE] = max_turns, 0
        self._run(words, pointers)
        turns, state = words[Head.TURNS : Head.IS_DONE + 1].tolist()
        if state == OUT_OF_RANGE:
            raise IndexError("A loop reads a row that its stack does not have")
        if state in (REFUSED, FULL, LONG):
            raise RefusedError(state == FULL, state == LONG)
        return turns, bool(state)


def _kernels(steps: Sequence[Step]) -> list[Callable[..., bool]]:
    """What steps call, which lives as long as the loop."""
    found = []
    for step in steps:
        if isinstance(step, Call):
            found.append(step.kernel)
        elif isinstance(step, Choose):
            found += _kernels((*step.then, *step.otherwise))
        elif isinstance(step, Repeat):
            found += _kernels((*step.condition, *step.steps))
    return found


def _words(step: Step) -> list[int]:
    if isinstance(step, Choose):
        then, otherwise = (
            [n for e in each for n in _words(e)] for each in (step.then, step.otherwise)
        )
        jump = [Kind.JUMP, 3, len(otherwise)]
        return [Kind.BRANCH, 4, step.condition, len(then) + len(jump), *then, *jump, *otherwise]
    if isinstance(step, Repeat):
        condition, turn = (
            [n for e in each for n in _words(e)] for each in (step.condition, step.steps)
        )
        words = [*condition, *turn, *(n for pair in step.exchanges for n in pair)]
        head = [step.flag, step.most_turns, len(condition), len(turn)]
        return [Kind.REPEAT, REPEAT_HEAD + len(words), *head, *words]
    if isinstance(step, Check):
        return [Kind.CHECK, 3, step.failure]
    if isinstance(step, Read):
        return [Kind.READ, 7, step.index, step.stack, step.row_bytes, step.rows, step.target]
    if isinstance(step, Look):
        return [Kind.LOOK, 5, step.index, step.control, step.target]
    if isinstance(step, Put):
        return [Kind.PUT, 6, step.index, step.control, step.target, int(step.once)]
    if isinstance(step, Clear):
        return [Kind.CLEAR, 4, step.index, step.control]
    assert len(step.arrays) <= MOST_ARRAYS
    kernel = entry.bound(step.kernel)
    numbers = (kernel.body, kernel.sizes, kernel.extent)
    together = (kernel.parts, kernel.run_parts, kernel.pool)
    return [Kind.CALL, CALL_HEAD + len(step.arrays), *numbers, *together, *step.arrays]


@once
def _driver() -> Callable[..., bool]:
    counts = [entry.NOT_COUNTED, entry.NOT_COUNTED]
    return native.body(TEXT).bind([], counts, 1, releases_gil=True)

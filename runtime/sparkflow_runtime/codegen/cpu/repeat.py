"""A loop over kernels in machine code: all iterations run without Python.

A loop is described by a table of int64 numbers, the program. Its steps call the bodies of kernels
with pointers from a second table. After each iteration some pointers advance to the next row of a
stack, or alternate between two buffers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from sparkflow_runtime.codegen.cpu.repeat_ir import (
    CALL_HEAD,
    FULL,
    GOES_ON,
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
        kernel: A bound kernel, see `native.Body.bind`.
        arrays: Numbers of the pointers to its arrays.
    """

    kernel: Callable[..., bool]
    arrays: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Read:
    """A step that makes a pointer point to a row of a stack.

    Attributes:
        index: Number of the pointer to the row's number, an int32.
        stack: Number of the pointer to the stack, which stays fixed.
        row_bytes: Number of the pointer slot that holds the size of a row.
        rows: Number of the pointer slot that holds the number of rows.
        target: Number of the pointer that is set.
    """

    index: int
    stack: int
    row_bytes: int
    rows: int
    target: int


@dataclass(frozen=True, slots=True)
class Look:
    """A step that makes a pointer point to an element of a list, or to zeros.

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
    """A step that makes a pointer point to where an element of a list will be written.

    Attributes:
        index: Number of the pointer to the element's number, an int32.
        control: Number of the pointer to the list.
        target: Number of the pointer that is set.
        once: Whether the element must not have been set before.
    """

    index: int
    control: int
    target: int
    once: bool = False


@dataclass(frozen=True, slots=True)
class Clear:
    """A step that clears an element of a list, if it exists.

    Attributes:
        index: Number of the pointer to the element's number, an int32.
        control: Number of the pointer to the list.
    """

    index: int
    control: int


@dataclass(frozen=True, slots=True)
class Check:
    """A step that ends the run if an earlier step has reported a failure.

    Attributes:
        failure: Number of the pointer to an int32 that is 0 on success.
    """

    failure: int


@dataclass(frozen=True, slots=True)
class Choose:
    """A step that runs one of two lists of steps.

    Attributes:
        condition: Number of the pointer to a bool.
        then: Steps to run if it holds.
        otherwise: Steps to run if it does not.
    """

    condition: int
    then: tuple[Step, ...]
    otherwise: tuple[Step, ...]


@dataclass(frozen=True, slots=True)
class Repeat:
    """A step that is itself a loop.

    Attributes:
        condition: Steps that compute whether there is another iteration.
        steps: The steps of an iteration.
        flag: Number of the pointer to the condition's result, a bool.
        exchanges: Pairs of numbers of pointers that are swapped after an iteration.
        most_turns: After more iterations the run ends, since it cannot be cancelled in between.
    """

    condition: tuple[Step, ...]
    steps: tuple[Step, ...]
    flag: int
    exchanges: tuple[tuple[int, int], ...]
    most_turns: int


Beginning = Callable[..., bool]
"""Starts runs of a program, see `Program.beginning`."""
_MAX_TURNS: Final = Head.MAX_TURNS.value
_TURNS: Final = Head.TURNS.value
_IS_DONE: Final = Head.IS_DONE.value
_ARRAYS_BEFORE: Final = 3
"""The driver's arrays before those of a run: program, pointers, first pointers."""
Step = Call | Read | Look | Put | Clear | Check | Choose | Repeat


class RefusedError(Exception):
    """Raised for data that an iteration cannot handle; running it in Python reveals the reason.

    Attributes:
        is_full: Whether more memory for the list would be enough.
        is_long: Whether an inner loop took too many iterations.
    """

    def __init__(self, is_full: bool, is_long: bool = False) -> None:
        super().__init__("A list is full" if is_full else "An iteration cannot be run")
        self.is_full = is_full
        self.is_long = is_long


@dataclass(frozen=True, slots=True)
class Move:
    """How a pointer changes after an iteration: `(pointer + add) ^ toggle`.

    Attributes:
        pointer: Its number.
        add: Bytes to add.
        toggle: Bits to flip.
    """

    pointer: int
    add: int = 0
    toggle: int = 0


@dataclass(frozen=True, slots=True)
class Given:
    """An array that is passed to runs.

    Attributes:
        pointers: Numbers of the pointers into it, each with its offset in bytes.
        elements: Its element count, in which case it must be in C order; `entry.NOT_COUNTED` if the
            caller guarantees that.
    """

    pointers: Sequence[tuple[int, int]]
    elements: int = entry.NOT_COUNTED


class Loop:
    """The steps of a loop. Not thread-safe: its kernels may own memory.

    Args:
        condition: Steps that compute whether there is another iteration.
        steps: The steps of an iteration.
        flag: Number of the pointer to the condition's result, a bool.
        before: Calls before the first iteration of a run.
        after: Calls after the last iteration.
    """

    def __init__(
        self,
        condition: Sequence[Step],
        steps: Sequence[Step],
        flag: int,
        before: Sequence[Call] = (),
        after: Sequence[Call] = (),
    ) -> None:
        self._kernels = _kernels((*before, *condition, *steps, *after))
        self._after = [n for step in after for n in _words(step)]
        words = [0] * Head.STEPS
        for part, end in (
            (before, Head.BEFORE_END),
            (condition, Head.CONDITION_END),
            (steps, Head.STEPS_END),
        ):
            for step in part:
                words += _words(step)
            words[end] = len(words)
        words[Head.FLAG] = flag
        self._words = words

    def program(self, moves: Sequence[Move]) -> Program:
        """Returns the loop, given how its pointers change after each iteration."""
        moved = (n for move in moves for n in (move.pointer, move.add, move.toggle))
        words = [*self._words, *moved]
        words[Head.MOVES_END] = len(words)
        words += self._after
        words[Head.AFTER_END] = len(words)
        return Program(np.array(words, np.int64), self._kernels)


class Program:
    """A loop ready to run. Not thread-safe.

    Args:
        words: The program's numbers, see `repeat_ir`.
        kernels: The kernels that the steps call.
    """

    def __init__(self, words: np.ndarray[Any, Any], kernels: Sequence[Callable[..., bool]]) -> None:
        self._words = words
        self._numbers = words.data  # reads and writes faster than the array
        self._kernels = kernels
        self._go_on = _bound([GOES_ON], 2)

    def run(self, pointers: np.ndarray[Any, Any], max_turns: int) -> tuple[int, bool]:
        """Runs iterations until the condition no longer holds.

        The GIL is released.

        Args:
            pointers: int64, the addresses for the next iteration; updated in place.
            max_turns: Maximum number of iterations.

        Returns:
            The number of iterations, and whether the condition no longer holds.

        Raises:
            IndexError: A row number is outside its stack.
            RefusedError: An index is outside its list, or the element was already set; a check
                failed; or an inner loop took too many iterations.
        """
        numbers = self._numbers
        numbers[_MAX_TURNS], numbers[_IS_DONE] = max_turns, 0
        self._go_on(self._words, pointers)
        return self._outcome()

    def beginning(self, pointers: int, given: Sequence[Given]) -> Beginning:
        """Returns a driver that starts runs.

        Args:
            pointers: Number of pointers.
            given: The arrays that are passed to each run.
        """
        writes = [
            (_ARRAYS_BEFORE + place, *each)
            for place, array in enumerate(given)
            for each in array.pointers
        ]
        sizes = [len(writes), pointers, *(number for each in writes for number in each)]
        return _bound(sizes, _ARRAYS_BEFORE, [each.elements for each in given])

    def begin(
        self,
        beginning: Beginning,
        pointers: np.ndarray[Any, Any],
        first: np.ndarray[Any, Any],
        arrays: Sequence[np.ndarray[Any, Any]],
        max_turns: int,
    ) -> tuple[int, bool] | None:
        """Starts a run, and runs iterations as `run` does.

        Args:
            beginning: See `Program.beginning`.
            pointers: int64, filled with the addresses of `first` and of the arrays.
            first: The pointers before the first iteration, except those to the arrays.
            arrays: The run's arrays, which must live until the run is over.
            max_turns: Maximum number of iterations.

        Returns:
            As `run`; None, without doing anything, if an array does not meet the requirements.
        """
        numbers = self._numbers
        numbers[_MAX_TURNS], numbers[_IS_DONE] = max_turns, 0
        if not beginning(self._words, pointers, first, *arrays):
            return None
        return self._outcome()

    def _outcome(self) -> tuple[int, bool]:
        state = self._numbers[_IS_DONE]
        if state == OUT_OF_RANGE:
            raise IndexError("A loop reads a row that its stack does not have")
        if state in (REFUSED, FULL, LONG):
            raise RefusedError(state == FULL, state == LONG)
        return self._numbers[_TURNS], state != 0


def _kernels(steps: Sequence[Step]) -> list[Callable[..., bool]]:
    """The kernels that steps call, kept alive as long as the loop."""
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


def _bound(sizes: Sequence[int], arrays: int, counts: Sequence[int] = ()) -> Callable[..., bool]:
    """Returns the driver, for a number of unchecked arrays and then those of the given counts."""
    counts = [entry.NOT_COUNTED] * arrays + [*counts]
    return _driver().bind(sizes, counts, 1, releases_gil=True)


@once
def _driver() -> native.Body:
    return native.body(TEXT)

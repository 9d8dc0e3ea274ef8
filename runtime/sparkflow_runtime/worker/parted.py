"""Runs of a partition in parts, which are parked when they would wait; see `resources.parking`."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, TypeAlias

from sparkflow_runtime.compiler.parts import Parts
from sparkflow_runtime.errors import CancelledError, OpError
from sparkflow_runtime.ops.kernel import StepContext
from sparkflow_runtime.resources.parking import (
    Owner,
    Parked,
    Request,
    Visit,
    elsewhere,
    soon,
)

Outcome: TypeAlias = dict[int, Any] | BaseException
"""The results of a run by index, or its error."""


class PartedRun:
    """A run of a partition in parts.

    `go_on` is called by one thread at a time: the one that begins the run, later the one that ends
    its wait; it has at most one wait at a time.

    Args:
        parts: The parts to run.
        step: The running step.
        args: The fed values, by index.
        on_end: Called once, in the thread in which the run ends; must not raise.
    """

    __slots__ = ("_number", "_on_end", "_parts", "_results", "_step", "_undo", "_values", "_visit")

    def __init__(
        self,
        parts: Parts,
        step: StepContext,
        args: Mapping[int, Any],
        on_end: Callable[[Outcome], None],
    ) -> None:
        self._parts = parts
        self._step = step
        self._values = dict(args)
        self._results: dict[int, Any] = {}
        self._on_end = on_end
        self._number = 0
        self._visit = Visit()
        self._undo: Callable[[], None] | None = None

    def go_on(self) -> None:
        """Runs as many parts as can run now."""
        undo, self._undo = self._undo, None
        if undo is not None:
            undo()
        try:
            while self._number < len(self._parts.parts):
                awaited = self._attempt()
                if awaited is not None and self._park(*awaited):
                    return  # and another thread may continue it now
        except BaseException as error:
            self._on_end(error)
        else:
            self._on_end(self._results)

    def _attempt(self) -> tuple[Owner, Request] | None:
        """Runs the next part; returns what it waits for if it cannot continue."""
        part = self._parts.parts[self._number]
        try:
            found = part.run(self._visit, self._step, self._values)
        except Parked as parked:  # Without a cycle: its traceback holds the step's values.
            return parked.owner, parked.request
        most = self._parts.num_results
        for number, value in zip(part.results, found, strict=True):
            if number < most:
                self._results[number] = value
            else:
                self._values[self._parts.num_args + number - most] = value
        self._number += 1
        self._visit = Visit()
        return None

    def _park(self, owner: Owner, request: Request) -> bool:
        """Parks the run for another thread; returns False if what it waits for is available."""
        undo = self._undo = self._step.on_cancel(partial(self._give_up, owner, request))
        if owner.park(request, self._continue):
            return True
        self._undo = None
        undo()
        return False

    def _give_up(self, owner: Owner, request: Request) -> None:
        """Ends the wait, as the step has ended."""
        error: OpError = CancelledError(
            message="The step was cancelled while it waited for another one"
        )
        try:
            self._step.check_cancelled()
        except OpError as raised:
            error = raised
        owner.give_up(request, error)

    def _continue(self) -> None:
        """Continues, as what it waited for is available, or never will be."""
        if self._parts.holds_up:
            elsewhere(self.go_on)
        else:
            soon(self.go_on, self._parts.parts[self._number].is_short)


class RepeatedRun:
    """Runs of a partition, one after another, until a given time or until one of them fails.

    Args:
        begin: Begins a run, which calls its argument when it has ended.
        until: The time, of `time.monotonic`. The run in progress at that time is the last one.
        on_end: Called once, with the outcome of the last run, in the thread in which it ends.
    """

    __slots__ = ("_begin", "_on_end", "_until")

    def __init__(
        self,
        begin: Callable[[Callable[[Outcome], None]], None],
        until: float,
        on_end: Callable[[Outcome], None],
    ) -> None:
        self._begin = begin
        self._until = until
        self._on_end = on_end

    def go_on(self) -> None:
        """Begins the next run.

        Raises:
            OpError: It did not begin: the step is over.
        """
        self._begin(self._ended)

    def _ended(self, outcome: Outcome) -> None:
        if isinstance(outcome, BaseException) or time.monotonic() >= self._until:
            self._on_end(outcome)
        else:
            # After the answers to the runs that this one unblocked.
            soon(self._again, is_short=False)

    def _again(self) -> None:
        try:
            self.go_on()
        except BaseException as error:
            self._on_end(error)

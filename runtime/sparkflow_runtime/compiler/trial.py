"""Finds out while a plan runs whether branches of it are worth threads.

The first steps run the plan as it is. If they take long enough, a few have a clock at each kernel:
with the threads that kernels share, and without. Where the scheduler (`forks`) then sees something
to save, the plan is made again with forks, and the two take turns for some steps. What was faster
stays. Every one of these steps is one that was asked for; none is run twice.
"""

from __future__ import annotations

import logging
import statistics
import threading
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, fields
from types import CodeType
from typing import Any, Final

from sparkflow_runtime.codegen import threads
from sparkflow_runtime.compiler import branch_threads, forks
from sparkflow_runtime.compiler.forks import Fork, Limits
from sparkflow_runtime.compiler.plan import Unit
from sparkflow_runtime.compiler.planned import Planned
from sparkflow_runtime.compiler.waits import Waits, find_waits
from sparkflow_runtime.ir.node import Node

SAMPLES: Final = 3
"""So many steps tell how long something takes: the fastest counts, others were disturbed."""
TURNS: Final = 16
"""So many steps each plan has when the two are compared."""
LEAST_GAIN: Final = 0.05
"""The plan with forks stays if it is faster by this part,"""
LEAST_WINS: Final = 12
"""and in so many turns: if neither is faster, that comes about by chance in 4 of 100 trials."""

_log = logging.getLogger(__name__)

Seconds = Mapping[str, float]
"""By the name of the node of a unit (the last of several)."""
_Run = tuple[Callable[..., tuple[Any, ...]], Callable[[], AbstractContextManager[None]]]


@dataclass(frozen=True, slots=True)
class ForkedPlan(Planned):
    """A plan with branches that run at once.

    Attributes:
        serial: The same plan without; that is what is observed, kernel by kernel.
    """

    serial: Planned = field(kw_only=True)

    def run_observed(
        self,
        step: Any,
        args: Sequence[Any],
        observe: Callable[[Node, Callable[..., Any]], Callable[..., Any]],
    ) -> tuple[Any, ...]:
        """See `Planned.run_observed`; nothing runs at once."""
        return self.serial.run_observed(step, args, observe)

    @property
    def lines_of(self) -> Mapping[CodeType, Sequence[Node | None]]:
        """Those of both plans."""
        return {**self.serial.lines_of, **super(ForkedPlan, self).lines_of}


@dataclass(frozen=True, slots=True)
class TrialPlan(Planned):
    """A plan without branches while it is not clear whether they are worth it.

    Attributes:
        trial: Runs the steps.
    """

    trial: Trial = field(kw_only=True)

    def __call__(self, step: Any, *args: Any) -> tuple[Any, ...]:
        """Runs one step, see `Planned`."""
        return self.trial.run(step, args)

    @property
    def lines_of(self) -> Mapping[CodeType, Sequence[Node | None]]:
        """Those of all plans that the trial has."""
        return (self.trial.forked or self.trial.serial).lines_of


def in_trial(
    planned: Planned,
    units: Sequence[Unit],
    nodes: Sequence[Node],
    made_with: Callable[[Sequence[Fork]], Planned],
) -> TrialPlan:
    """A plan as one that may get branches.

    Args:
        planned: Without.
        units: What it does.
        nodes: What it was made of.
        made_with: Gives the plan with these forks.
    """

    def schedule(shared: Seconds, alone: Seconds, limits: Limits) -> Planned | None:
        names = [unit.node.name for unit in units]
        measured = measured_units(names, find_waits(units, nodes), shared, alone)
        found = forks.find_forks(measured, branch_threads.count(), limits)
        return ForkedPlan(**_parts(made_with(found)), serial=planned) if found else None

    trial = Trial(planned, schedule)
    return TrialPlan(**_parts(planned), trial=trial)


def _parts(planned: Planned) -> dict[str, Any]:
    found = {each.name: getattr(planned, each.name) for each in fields(Planned) if each.init}
    found["_frames"] = []
    return found


def measured_units(
    names: Sequence[str], waits: Waits, shared: Seconds, alone: Seconds
) -> list[forks.Unit]:
    """What the scheduler is told of a plan.

    Args:
        names: Per unit the name of its (last) node.
        waits: What units wait for.
        shared: What they take with the threads that kernels share.
        alone: What they take without.
    """
    return [
        forks.Unit(
            frozenset(waits.before[number]),
            shared.get(name, 0.0),
            alone.get(name, 0.0),
            number in waits.pinned,
            number in waits.barriers,
        )
        for number, name in enumerate(names)
    ]


def is_faster(one: Sequence[float], other: Sequence[float]) -> bool:
    """Whether one of two plans is faster beyond doubt.

    Args:
        one: Its seconds in each turn.
        other: The other's in the same turns.
    """
    wins = sum(a < b for a, b in zip(one, other, strict=True))
    gains = statistics.median(one) <= (1 - LEAST_GAIN) * statistics.median(other)
    return gains and wins * TURNS >= LEAST_WINS * len(one)


class Trial:
    """The steps of one plan until it is settled. Safe to use from several threads.

    `_lock` is held by the one step that is part of the trial; others meanwhile run the plan as it
    is.

    Args:
        serial: The plan without branches.
        schedule: From the seconds of kernels with and without shared threads, and what forks must
            be worth, to the plan with forks; None where none is worth it.
        limits: What forks must be worth.
        clock: Seconds.

    Attributes:
        serial, schedule: As they were given.
        forked: The plan with branches, as soon as there is one.
        settled: Called once with the plan that stays.
    """

    def __init__(
        self,
        serial: Planned,
        schedule: Callable[[Seconds, Seconds, Limits], Planned | None],
        limits: Limits = forks.USUAL,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self.serial = serial
        self.forked: Planned | None = None
        self.settled: Callable[[Planned], None] = lambda planned: None
        self.schedule = schedule
        self._limits = limits
        self._clock = clock
        self._lock = threading.Lock()
        self._chosen: Planned | None = None
        self._steps = self._all_steps()
        self._next = next(self._steps)

    def run(self, step: Any, args: Sequence[Any]) -> tuple[Any, ...]:
        """Runs one step."""
        if self._chosen is not None:
            return self._chosen(step, *args)
        if not self._lock.acquire(blocking=False):
            return self.serial(step, *args)
        try:
            if self._chosen is not None:
                return self._chosen(step, *args)
            return self._run_next(step, args)
        finally:
            self._lock.release()

    def _run_next(self, step: Any, args: Sequence[Any]) -> tuple[Any, ...]:
        run, within = self._next
        with within():
            start = self._clock()
            results = run(step, *args)
            seconds = self._clock() - start
        try:
            self._next = self._steps.send(seconds)
        except StopIteration as stopped:
            self._settle(stopped.value)
        except Exception:  # the plan without branches still runs; the log says what is wrong here
            _log.exception("No plan with branches could be made")
            self._settle(self.serial)
        return results

    def _settle(self, planned: Planned) -> None:
        self._chosen = planned
        if planned is not self.serial:
            self.serial.free_frames()
        self.settled(planned)

    def _all_steps(self) -> Generator[_Run, float, Planned]:
        """Gives what each step runs, and within what; is sent its seconds. Returns the choice."""
        serial = self.serial
        fastest = float("inf")
        for _ in range(SAMPLES):
            seconds = yield serial, nullcontext
            fastest = min(fastest, seconds)
        if fastest <= self._limits.least_saving_s:
            return serial
        shared = yield from self._clocked(nullcontext)
        alone = yield from self._clocked(_pool_held)
        made = self.schedule(shared, alone, self._limits)
        if made is None:
            return serial
        self.forked = made
        yield made, nullcontext  # its memory is new
        before, after = [], []
        for _ in range(TURNS):
            before.append((yield serial, nullcontext))
            after.append((yield made, nullcontext))
        return made if is_faster(after, before) else serial

    def _clocked(
        self, within: Callable[[], AbstractContextManager[None]]
    ) -> Generator[_Run, float, Seconds]:
        """Runs steps with a clock at each kernel; returns the fewest seconds of each."""
        clock = self._clock
        now: dict[str, float] = {}

        def clocked(name: str, kernel: Callable[..., Any]) -> Callable[..., Any]:
            def run(*arguments: Any) -> Any:
                start = clock()
                result = kernel(*arguments)
                now[name] = now.get(name, 0.0) + clock() - start
                return result

            return run

        frame = self.serial.new_frame()
        names = frame.__globals__
        for register, called in self.serial.calls.items():
            names[register] = clocked(called.node.name, names[register])
        fewest: dict[str, float] = {}
        for sample in range(SAMPLES + 1):
            now.clear()
            yield frame, within
            if sample:  # the frame's memory is new in the first
                fewest = {name: min(now[name], fewest.get(name, now[name])) for name in now}
        return fewest


@contextmanager
def _pool_held() -> Iterator[None]:
    threads.hold_pool()
    try:
        yield
    finally:
        threads.release_pool()

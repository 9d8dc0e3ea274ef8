"""Lists of phases, and their execution: a master's passes, a compiler's planning.

A phase is a function with the names of its input and output values. A list of phases defines in
which order they run, and what each may read.
"""

from __future__ import annotations

import gc
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final


@dataclass(frozen=True, slots=True)
class Phase:
    """One function of a list.

    Attributes:
        name: Its name in displays, timings and errors.
        run: Maps the values of `needs`, in that order, to that of `gives`, or to a tuple of
            several. If nothing changes, it returns the same object.
        needs: Names of input values.
        gives: Names of output values; the first shows whether anything changed.
        when: Whether there may be anything to do, given the arguments of `run`. If not, the values
            of `gives` are unchanged, and modules that only `run` needs are not imported.
    """

    name: str
    run: Callable[..., Any]
    needs: tuple[str, ...]
    gives: tuple[str, ...]
    when: Callable[..., bool] | None = None


@dataclass(frozen=True, slots=True)
class Repeated:
    """Phases that run repeatedly until none of them changes anything.

    Attributes:
        phases: The phases.
        most: The maximum number of repetitions.
    """

    phases: tuple[Phase, ...]
    most: int


def graph_pass(
    run: Callable[..., Any], *needs: str, when: Callable[..., bool] | None = None
) -> Phase:
    """Returns a phase from graph to graph, with the name of its function.

    Args:
        run: A function of a graph and the other values that it needs.
        *needs: Names of values.
        when: See `Phase`.
    """
    return Phase(run.__name__.lstrip("_"), run, ("graph", *needs), ("graph",), when)


Watch = Callable[[Phase, Mapping[str, Any], bool, float], None]
"""Called with each phase that ran, all values after it, whether it changed any, its seconds."""


def run_phases(
    phases: Sequence[Phase | Repeated], values: dict[str, Any], watch: Watch | None = None
) -> bool:
    """Runs phases in order, without collections of garbage: nearly all that they create stays.

    Args:
        phases: The phases.
        values: The initial values; updated by the phases.
        watch: Called after each phase.

    Returns:
        Whether anything changed.
    """
    with _collections.paused():
        return _run(phases, values, watch)


def _run(phases: Sequence[Phase | Repeated], values: dict[str, Any], watch: Watch | None) -> bool:
    changed = False
    for phase in phases:
        if isinstance(phase, Repeated):
            for _ in range(phase.most):
                if not _run(phase.phases, values, watch):
                    break
                changed = True
            continue
        before = values.get(phase.gives[0])
        needed = [values[name] for name in phase.needs]
        if phase.when is not None and not phase.when(*needed):
            continue
        start = time.perf_counter()
        made = phase.run(*needed)
        seconds = time.perf_counter() - start
        given = made if len(phase.gives) > 1 else (made,)
        values.update(zip(phase.gives, given, strict=True))
        changed |= given[0] is not before
        if watch is not None:
            watch(phase, values, given[0] is not before, seconds)
    return changed


class _Collections:
    """The garbage collector, paused while at least one thread runs phases."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pausing = 0
        self._resumes = False

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Pauses it inside the `with` block, unless the program has disabled it."""
        with self._lock:
            self._pausing += 1
            if self._pausing == 1:
                self._resumes = gc.isenabled()
                gc.disable()
        try:
            yield
        finally:
            with self._lock:
                self._pausing = max(0, self._pausing - 1)  # 0 after a fork
                if not self._pausing and self._resumes:
                    gc.enable()

    def after_fork(self) -> None:
        """Resumes it in a forked process, where no other thread runs phases."""
        if self._pausing and self._resumes:
            gc.enable()
        self._lock = threading.Lock()  # another thread may have held it
        self._pausing = 0


_collections: Final = _Collections()
os.register_at_fork(after_in_child=_collections.after_fork)


def missing(phases: Sequence[Phase | Repeated], given: Sequence[str]) -> list[str]:
    """Returns values that phases need but that are not given or computed earlier; for tests."""
    known = set(given)
    found: list[str] = []
    for phase in phases:
        for each in phase.phases if isinstance(phase, Repeated) else (phase,):
            found += [f"{each.name} needs {name}" for name in each.needs if name not in known]
            known.update(each.gives)
    return found

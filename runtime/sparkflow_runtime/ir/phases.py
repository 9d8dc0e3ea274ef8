"""Lists of phases, and what runs them: a master's passes, a compiler's way to a plan.

A phase is a function with the names of the values that it needs and of those that it gives. A list
of them is the whole story: which comes after which, and what each may look at.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Phase:
    """One function of a list.

    Attributes:
        name: What it is called where it is shown, timed or blamed.
        run: Is given the values of `needs`, in that order; returns that of `gives`, or a tuple of
            several. Where nothing changes it returns the very object that it was given.
        needs: Names of values.
        gives: Names of values; the first tells whether it changed anything.
        when: Whether there may be anything to do, by the values that `run` would be given. Where it
            says no, what `gives` names stays as it is, and what only `run` needs is not imported.
    """

    name: str
    run: Callable[..., Any]
    needs: tuple[str, ...]
    gives: tuple[str, ...]
    when: Callable[..., bool] | None = None


@dataclass(frozen=True, slots=True)
class Repeated:
    """Phases that run again and again until none of them changes anything.

    Attributes:
        phases: They.
        most: They run so often at most.
    """

    phases: tuple[Phase, ...]
    most: int


def graph_pass(
    run: Callable[..., Any], *needs: str, when: Callable[..., bool] | None = None
) -> Phase:
    """A phase from a graph to a graph, called as its function is.

    Args:
        run: Is given a graph, and what it needs besides.
        *needs: Names of values.
        when: See `Phase`.
    """
    return Phase(run.__name__.lstrip("_"), run, ("graph", *needs), ("graph",), when)


Watch = Callable[[Phase, Mapping[str, Any], bool, float], None]
"""Is shown each phase that ran, all values after it, whether it changed anything, its seconds."""


def run_phases(
    phases: Sequence[Phase | Repeated], values: dict[str, Any], watch: Watch | None = None
) -> bool:
    """Runs phases in order.

    Args:
        phases: They.
        values: What there is at first; gets what they give.
        watch: Is shown each phase after it ran.

    Returns:
        Whether anything changed.
    """
    changed = False
    for phase in phases:
        if isinstance(phase, Repeated):
            for _ in range(phase.most):
                if not run_phases(phase.phases, values, watch):
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


def missing(phases: Sequence[Phase | Repeated], given: Sequence[str]) -> list[str]:
    """What a list of phases needs and neither is given nor gives before; for its tests."""
    known = set(given)
    found: list[str] = []
    for phase in phases:
        for each in phase.phases if isinstance(phase, Repeated) else (phase,):
            found += [f"{each.name} needs {name}" for name in each.needs if name not in known]
            known.update(each.gives)
    return found

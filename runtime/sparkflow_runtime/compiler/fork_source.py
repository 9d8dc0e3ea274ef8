"""Writes the forks of a plan into its straight-line function.

A branch becomes a function inside of the plan's: it takes what it reads and returns what others
read of it, so that every value stays a plain local on either side. The last branch stays where it
is, on the step's own thread.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from sparkflow_runtime.compiler.forks import Fork
from sparkflow_runtime.ir.node import Node

BRANCHES: Final = "branches"
"""The name that stands for `branch_threads.Branches` in the source."""
_LOCAL: Final = re.compile(r"\b(?:[arv]\d+|step)\b")
_DEL: Final = "; del "
_INDENT: Final = "    "


@dataclass(slots=True)
class Lines:
    """A function's body: its lines, and the node of each."""

    texts: list[str]
    nodes: list[Node | None]

    def add(self, text: str, node: Node | None = None) -> None:
        """One more line."""
        self.texts.append(text)
        self.nodes.append(node)


def with_forks(lines: Lines, starts: Sequence[int], forks: Sequence[Fork], threads: int) -> Lines:
    """The body with the branches of forks as functions that run at once.

    Args:
        lines: With the calls of every branch together, in order.
        starts: Per call its first line, and how many lines there are.
        forks: In order.
        threads: So many branches take all processors.
    """
    found = Lines([], [])
    done = 0
    for number, fork in enumerate(forks):
        _copy(lines, done, starts[fork.first], found)
        _write(lines, starts, fork, found, f"t{number}", len(fork.branches) >= threads)
        done = starts[fork.end]
    _copy(lines, done, len(lines.texts), found)
    return found


def _copy(lines: Lines, begin: int, end: int, into: Lines, indent: str = "") -> None:
    for text, node in zip(lines.texts[begin:end], lines.nodes[begin:end], strict=True):
        into.add(indent + text, node)


def _write(
    lines: Lines, starts: Sequence[int], fork: Fork, into: Lines, name: str, fills: bool
) -> None:
    place = fork.first
    calls, dead, made = [], [], []
    for number, branch in enumerate(fork.branches[:-1]):
        begin, end = starts[place], starts[place + len(branch)]
        place += len(branch)
        crossing = _crossing(lines.texts[begin:end])
        function = f"{name}_{number}"
        into.add(f"{_INDENT}def {function}({', '.join(crossing.taken)}):")
        _copy(lines, begin, end, into, _INDENT)
        into.add(f"{_INDENT * 2}return ({''.join(f'{each}, ' for each in crossing.given)})")
        calls.append(f"{name}.start({', '.join([function, *crossing.taken])})")
        dead += crossing.dropped
        made.append(crossing.given)
    into.add(f"{_INDENT}{name} = {BRANCHES}({fills})")
    into.add(f"{_INDENT}try:")
    for call in calls:
        into.add(f"{_INDENT * 2}{call}")
    if dead:
        into.add(f"{_INDENT * 2}del {', '.join(dead)}")
    _copy(lines, starts[place], starts[fork.end], into, _INDENT)
    into.add(f"{_INDENT}except BaseException:")
    into.add(f"{_INDENT * 2}{name}.abandon()")
    into.add(f"{_INDENT * 2}raise")
    targets = ", ".join(f"[{', '.join(names)}]" if names else "_" for names in made)
    into.add(f"{_INDENT}{targets}, = {name}.values()")


@dataclass(frozen=True, slots=True)
class _Crossing:
    """Locals that a branch takes, those it gives, and those taken that nobody reads after it."""

    taken: list[str]
    given: list[str]
    dropped: list[str]


def _crossing(texts: Sequence[str]) -> _Crossing:
    made: dict[str, None] = {}
    taken: dict[str, None] = {}
    dropped: list[str] = []
    for text in texts:
        statement, _, deleted = text.partition(_DEL)
        targets, is_assignment, value = statement.partition(" = ")
        if not is_assignment:
            targets, value = "", statement
        for name in _LOCAL.findall(value):
            if name not in made:
                taken[name] = None
        made.update(dict.fromkeys(_LOCAL.findall(targets)))
        for name in _LOCAL.findall(deleted):
            if name in made:
                del made[name]
            else:
                dropped.append(name)
    return _Crossing([*taken], [*made], dropped)

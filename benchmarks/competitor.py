"""Competitors: processes of their own that are measured in turns.

Libraries' thread pools disturb each other inside one process, and one thread more or less must be
the choice of the benchmark. So each competitor is a process that says on request how long a call
takes; only one of them works at a time, and rounds alternate between them.

The process speaks lines of JSON. It starts with {"ready": true} or {"skip": reason} and answers

    {"prepare": case}                 with  {"check": [numbers]}
    {"measure": case, "round_s": s}   with  {"seconds": t}
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import machine
from timing import Measured, measured, seconds_per_call

TOLERANCE = 1e-3
"""How far results of competitors may differ, relative to the larger: float32 sums in any order."""


@dataclass(frozen=True, slots=True)
class Case:
    """What is measured.

    Attributes:
        call: Does it once.
        check: Numbers that every competitor must get, too; computed before measuring.
    """

    call: Callable[[], Any]
    check: Sequence[float]


def serve(make_case: Callable[[str], Case]) -> None:
    """The competitor's side: answers requests from stdin until it ends."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print must not get between the answers
    print(json.dumps({"ready": True}), file=answers, flush=True)
    cases: dict[str, Case] = {}
    for line in sys.stdin:
        request = json.loads(line)
        if "prepare" in request:
            name = request["prepare"]
            cases[name] = make_case(name)
            answer: dict[str, Any] = {"check": [float(value) for value in cases[name].check]}
        else:
            call = cases[request["measure"]].call
            answer = {"seconds": seconds_per_call(call, request["round_s"])}
        print(json.dumps(answer), file=answers, flush=True)


def skip(reason: str) -> None:
    """The competitor's side: it cannot take part."""
    print(json.dumps({"skip": reason}), flush=True)


class Competitor:
    """The benchmark's side of a competitor process.

    Args:
        name: As it is called in tables.
        command: Arguments of Python that start it.
        threads: For the thread pools of numerical libraries.

    Attributes:
        skipped: Why it does not take part; None when it does.
    """

    def __init__(self, name: str, command: Sequence[str], threads: int) -> None:
        self.name = name
        self._process = subprocess.Popen(
            [sys.executable, *command],
            env={**machine.clean_environment(threads), "TF_CPP_MIN_LOG_LEVEL": "3"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.skipped: str | None = self._hear().get("skip")

    def prepare(self, case: str) -> list[float]:
        """Has it build a case; what it got when trying it."""
        answer: list[float] = self._ask({"prepare": case})["check"]
        return answer

    def measure(self, case: str, round_s: float) -> float:
        """Seconds per call over one round."""
        return float(self._ask({"measure": case, "round_s": round_s})["seconds"])

    def close(self) -> None:
        """Ends the process."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()

    def _ask(self, request: Mapping[str, Any]) -> dict[str, Any]:
        assert self._process.stdin is not None
        print(json.dumps(request), file=self._process.stdin, flush=True)
        return self._hear()

    def _hear(self) -> dict[str, Any]:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"{self.name} ended with code {self._process.wait()}")
        answer: dict[str, Any] = json.loads(line)
        return answer


@contextmanager
def started(commands: Mapping[str, Sequence[str]], threads: int) -> Iterator[list[Competitor]]:
    """Starts competitors, says which do not take part, and ends them afterwards.

    Args:
        commands: By name, what `Competitor` is given.
        threads: The same.
    """
    with ExitStack() as stack:
        present = []
        for name, command in commands.items():
            competitor = Competitor(name, command, threads)
            stack.callback(competitor.close)
            if competitor.skipped is None:
                present.append(competitor)
            else:
                print(f"{name} is left out: {competitor.skipped}", file=sys.stderr)
        yield present


def compare(
    competitors: Sequence[Competitor], case: str, rounds: int, round_s: float
) -> dict[str, Measured]:
    """Seconds per call of each competitor.

    Raises:
        RuntimeError: They do not compute the same.
    """
    checks = {each.name: each.prepare(case) for each in competitors}
    _require_agreement(case, checks)
    times: dict[str, list[float]] = {each.name: [] for each in competitors}
    for _ in range(rounds):
        for each in competitors:
            times[each.name].append(each.measure(case, round_s))
    return {name: measured(rounds_) for name, rounds_ in times.items()}


def _require_agreement(case: str, checks: Mapping[str, Sequence[float]]) -> None:
    (first, expected), *others = checks.items()
    for name, found in others:
        if len(found) != len(expected) or any(
            abs(a - b) > TOLERANCE * max(abs(a), abs(b))
            for a, b in zip(found, expected, strict=True)
        ):
            raise RuntimeError(f"{case}: {name} gets {found}, {first} gets {expected}")

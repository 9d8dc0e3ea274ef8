"""Competitors: processes of their own that are measured in turns.

Libraries' thread pools disturb each other inside one process, and one thread more or less must be
the choice of the benchmark. So each competitor is a process that says on request how long a call
takes; only one of them works at a time, and rounds alternate between them.

The process speaks lines of JSON. It starts with {"ready": its software} or {"skip": reason} and
answers

    {"prepare": case}                 with  {"check": [numbers]}, null where it has no such case
    {"measure": case, "round_s": s}   with  {"seconds": t}

or, when that fails, with {"failed": what was raised}, and ends; it is started again for the next
case.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

import machine
from timing import Measured, measured, seconds_per_call

TOLERANCE = 1e-4
"""How far results of competitors may differ, relative to the larger: float32 sums in any order."""


@dataclass(frozen=True, slots=True)
class Case:
    """What is measured.

    Attributes:
        call: Does it once.
        check: Numbers that every competitor must get, too; computed before measuring. Empty where
            only the time is of interest, because something else is computed.
        share: What part of a call's time counts.
    """

    call: Callable[[], Any]
    check: Sequence[float]
    share: float = 1.0


def serve(
    make_case: Callable[[str], Case | None],
    software: str = "",
    clock: Callable[[], float] = time.perf_counter,
) -> None:
    """The competitor's side: answers requests from stdin until it ends.

    Args:
        make_case: Builds the case of a name; None where this competitor has none.
        software: What it runs on, with versions.
        clock: Tells the seconds that count.
    """
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print must not get between the answers
    print(json.dumps({"ready": software}), file=answers, flush=True)
    cases: dict[str, Case] = {}
    for line in sys.stdin:
        request = json.loads(line)
        try:
            if "prepare" in request:
                cases.clear()  # the last case's memory is this one's
                made = make_case(request["prepare"])
                answer: dict[str, Any] = {"check": None}
                if made is not None:
                    cases[request["prepare"]] = made
                    answer["check"] = [float(value) for value in made.check]
            else:
                case = cases[request["measure"]]
                seconds = seconds_per_call(case.call, request["round_s"], clock) * case.share
                answer = {"seconds": seconds}
        except Exception as error:  # what it leaves behind is no ground for another case
            traceback.print_exc()
            said = traceback.format_exception_only(error)[-1].strip().partition("\n")[0]
            print(json.dumps({"failed": said}), file=answers, flush=True)
            sys.exit(1)
        print(json.dumps(answer), file=answers, flush=True)


def skip(reason: str) -> None:
    """The competitor's side: it cannot take part."""
    print(json.dumps({"skip": reason}), flush=True)


def load_torch(threads: int) -> Any:
    """PyTorch with so many threads; None, which is said, where it is not installed."""
    if importlib.util.find_spec("torch") is None:
        skip("PyTorch is not installed")
        return None
    import torch  # type: ignore[import-not-found]  # optional, often for another Python

    torch.set_num_threads(threads)
    return torch


def load_jax(threads: int) -> Any:
    """JAX on so many processors, which is how it is given threads; else as `load_torch`."""
    if importlib.util.find_spec("jax") is None:
        skip("JAX is not installed")
        return None
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads])
    import jax

    return jax


class CompetitorFailed(RuntimeError):
    """A competitor's process has failed in a case, or ended."""


class Disagreement(RuntimeError):
    """Competitors do not compute the same."""


class Competitor:
    """The benchmark's side of a competitor process.

    A process that has failed is started again when it is next asked to prepare a case.

    Args:
        name: As it is called in tables.
        command: Arguments of Python that start it.
        threads: For the thread pools of numerical libraries.
        interpreter: The Python that has its software.

    Attributes:
        skipped: Why it does not take part; None when it does.
        software: What it runs on, as it says.
    """

    def __init__(
        self, name: str, command: Sequence[str], threads: int, interpreter: str = sys.executable
    ) -> None:
        self.name = name
        self._command = [interpreter, *command]
        self._environment = {**machine.clean_environment(threads), "TF_CPP_MIN_LOG_LEVEL": "3"}
        self._process: subprocess.Popen[str] | None = None
        answer = self._start()
        self.skipped: str | None = answer.get("skip")
        self.software: str = answer.get("ready", "")

    def prepare(self, case: str) -> list[float] | None:
        """Has it build a case; what it got when trying it, None where it has no such case.

        Raises:
            CompetitorFailed: It has failed in it.
        """
        if self._process is None:
            self._start()
        answer: list[float] | None = self._ask({"prepare": case})["check"]
        return answer

    def measure(self, case: str, round_s: float) -> float:
        """Seconds per call over one round.

        Raises:
            CompetitorFailed: It has failed in it.
        """
        return float(self._ask({"measure": case, "round_s": round_s})["seconds"])

    def close(self) -> int:
        """Ends the process, if there is one; its exit code."""
        process, self._process = self._process, None
        if process is None:
            return 0
        with suppress(BrokenPipeError):  # it has ended, and not read what it was asked last
            process.communicate()
        return process.wait()

    def _start(self) -> dict[str, Any]:
        self._process = subprocess.Popen(
            self._command,
            env=self._environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        return self._hear()

    def _ask(self, request: Mapping[str, Any]) -> dict[str, Any]:
        assert self._process is not None
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):  # it has ended: so `_hear` says
            print(json.dumps(request), file=self._process.stdin, flush=True)
        return self._hear()

    def _hear(self) -> dict[str, Any]:
        assert self._process is not None
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise CompetitorFailed(f"{self.name} ended with code {self.close()}")
        answer: dict[str, Any] = json.loads(line)
        if "failed" in answer:
            self.close()
            raise CompetitorFailed(answer["failed"])
        return answer


@contextmanager
def started(
    commands: Mapping[str, Sequence[str]],
    threads: int,
    interpreters: Mapping[str, str] | None = None,
) -> Iterator[list[Competitor]]:
    """Starts competitors, says which do not take part, and ends them afterwards.

    Args:
        commands: By name, what `Competitor` is given.
        threads: The same.
        interpreters: By name, the Pythons that are not this one.
    """
    chosen = interpreters or {}
    with ExitStack() as stack:
        present = []
        for name, command in commands.items():
            competitor = Competitor(name, command, threads, chosen.get(name, sys.executable))
            stack.callback(competitor.close)
            if competitor.skipped is None:
                present.append(competitor)
            else:
                print(f"{name} is left out: {competitor.skipped}", file=sys.stderr)
        yield present


def add_interpreter_options(parser: argparse.ArgumentParser, *more: str) -> None:
    """Options for the Pythons that TensorFlow, PyTorch and others are installed for."""
    for name in ("tensorflow", "torch", *more):
        parser.add_argument(
            f"--{name}-python", default=sys.executable, help=f"the Python that has {name}"
        )


def interpreters(options: argparse.Namespace) -> dict[str, str]:
    """What these options say, by the names of competitors; see `started`."""
    torch = options.torch_python
    found = {"TensorFlow": options.tensorflow_python, "torch": torch, "torch.compile": torch}
    return found | ({"JAX": options.jax_python} if "jax_python" in options else {})


def compare(
    competitors: Sequence[Competitor],
    case: str,
    rounds: int,
    round_s: float,
    failed: MutableMapping[str, str] | None = None,
) -> dict[str, Measured]:
    """Seconds per call of each competitor that has the case.

    Args:
        competitors: Who is measured.
        case: What.
        rounds: How often.
        round_s: Seconds of calls per round.
        failed: Where the reason is put, by competitor, when one fails; it is left out then, and the
            others go on. None where nothing is worth knowing without it.

    Raises:
        CompetitorFailed: One has failed, and there is no `failed`.
        Disagreement: They do not compute the same.
    """
    times: dict[str, list[float]] = {}

    def asked(each: Competitor, question: Callable[[], Any]) -> Any:
        """What it answers; None where it has failed, which leaves it out."""
        try:
            return question()
        except CompetitorFailed as error:
            if failed is None:
                raise
            print(f"{each.name} failed in {case}: {error}", file=sys.stderr)
            failed[each.name] = str(error)
            times.pop(each.name, None)
            return None

    checks = {each.name: asked(each, partial(each.prepare, case)) for each in competitors}
    require_agreement(case, {name: check for name, check in checks.items() if check})
    times |= {name: [] for name, check in checks.items() if check is not None}
    for _ in range(rounds):
        for each in competitors:
            if each.name in times:
                seconds = asked(each, partial(each.measure, case, round_s))
                times.get(each.name, []).append(seconds)
    return {name: measured(rounds_) for name, rounds_ in times.items()}


def require_agreement(case: str, checks: Mapping[str, Sequence[float]]) -> None:
    """Makes sure that competitors compute the same.

    Args:
        case: For the error.
        checks: What each of them got.

    Raises:
        Disagreement: They do not.
    """
    (first, expected), *others = checks.items()
    for name, found in others:
        if len(found) != len(expected) or any(
            abs(a - b) > TOLERANCE * max(abs(a), abs(b))
            for a, b in zip(found, expected, strict=True)
        ):
            raise Disagreement(f"{case}: {name} gets {found}, {first} gets {expected}")

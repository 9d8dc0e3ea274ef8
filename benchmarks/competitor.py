"""Competitors: separate processes that are measured alternately.

Thread pools of libraries interfere within one process, and the benchmark must control the number of
threads. So each competitor is a process that measures the time of a call on request; only one of
them works at a time, and rounds alternate between them.

The process speaks lines of JSON. It starts with {"ready": its software} or {"skip": reason} and
answers

    {"prepare": case}                 with  {"check": [numbers]}, null where it has no such case
    {"measure": case, "round_s": s}   with  {"seconds": t}

or, if that fails, with {"failed": the exception}, and exits; it is restarted for the next case.
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
"""Maximum relative difference between results of competitors: float32 sums in any order."""


@dataclass(frozen=True, slots=True)
class Case:
    """A measured case.

    Attributes:
        call: Runs it once.
        check: Numbers that every competitor must reproduce; computed before measuring. Empty if
            only the time matters, because something else is computed.
        share: The fraction of a call's time that counts.
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
        make_case: Builds the case with a name; None if this competitor does not have it.
        software: The software it runs on, with versions.
        clock: Returns the seconds to measure with.
    """
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # output of libraries must not mix with the answers
    print(json.dumps({"ready": software}), file=answers, flush=True)
    cases: dict[str, Case] = {}
    for line in sys.stdin:
        request = json.loads(line)
        try:
            if "prepare" in request:
                cases.clear()  # the memory of the last case is reused by this one
                made = make_case(request["prepare"])
                answer: dict[str, Any] = {"check": None}
                if made is not None:
                    cases[request["prepare"]] = made
                    answer["check"] = [float(value) for value in made.check]
            else:
                case = cases[request["measure"]]
                seconds = seconds_per_call(case.call, request["round_s"], clock) * case.share
                answer = {"seconds": seconds}
        except Exception as error:  # the process cannot be used for another case
            traceback.print_exc()
            said = traceback.format_exception_only(error)[-1].strip().partition("\n")[0]
            print(json.dumps({"failed": said}), file=answers, flush=True)
            sys.exit(1)
        print(json.dumps(answer), file=answers, flush=True)


def skip(reason: str) -> None:
    """The competitor's side: reports that it cannot take part."""
    print(json.dumps({"skip": reason}), flush=True)


def load_torch(threads: int) -> Any:
    """Returns PyTorch with this many threads; reports and returns None if it is not installed."""
    if importlib.util.find_spec("torch") is None:
        skip("PyTorch is not installed")
        return None
    import torch  # type: ignore[import-not-found]  # optional, often for another Python

    torch.set_num_threads(threads)
    return torch


def load_jax(threads: int) -> Any:
    """Returns JAX on this many processors (it has no setting for threads); see `load_torch`."""
    if importlib.util.find_spec("jax") is None:
        skip("JAX is not installed")
        return None
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads])
    import jax

    return jax


class CompetitorFailed(RuntimeError):
    """A competitor's process has failed in a case or exited."""


class Disagreement(RuntimeError):
    """Competitors compute different results."""


class Competitor:
    """The benchmark's side of a competitor process.

    A process that has failed is restarted by the next request to prepare a case.

    Args:
        name: Its name in tables.
        command: The arguments of Python that start it.
        threads: The size of the thread pools of numerical libraries.
        interpreter: The Python with its software.

    Attributes:
        skipped: Why it does not take part; None if it does.
        software: The software that it reports.
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
        """Makes it build a case; returns its results, or None if it does not have the case.

        Raises:
            CompetitorFailed: It has failed in the case.
        """
        if self._process is None:
            self._start()
        answer: list[float] | None = self._ask({"prepare": case})["check"]
        return answer

    def measure(self, case: str, round_s: float) -> float:
        """Returns the seconds per call over one round.

        Raises:
            CompetitorFailed: It has failed in the case.
        """
        return float(self._ask({"measure": case, "round_s": round_s})["seconds"])

    def close(self) -> int:
        """Ends the process, if any, and returns its exit code."""
        process, self._process = self._process, None
        if process is None:
            return 0
        with suppress(BrokenPipeError):  # it has exited without reading the last request
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
        with suppress(BrokenPipeError):  # it has exited, which `_hear` reports
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
    """Starts competitors, reports which do not take part, and ends them afterwards.

    Args:
        commands: The commands for `Competitor` by name.
        threads: See `Competitor`.
        interpreters: The Pythons by name, if other than this one.
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
    """Adds options for the Pythons with TensorFlow, PyTorch and others."""
    for name in ("tensorflow", "torch", *more):
        parser.add_argument(
            f"--{name}-python", default=sys.executable, help=f"the Python that has {name}"
        )


def interpreters(options: argparse.Namespace) -> dict[str, str]:
    """Returns the values of these options by competitor; see `started`."""
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
    """Measures the seconds per call of each competitor that has the case.

    Args:
        competitors: The competitors to measure.
        case: The case.
        rounds: The number of rounds.
        round_s: Seconds of calls per round.
        failed: Receives the reason if a competitor fails, which is then left out while the others
            continue. None if the results of others are useless without it.

    Raises:
        CompetitorFailed: One has failed, and `failed` is None.
        Disagreement: They compute different results.
    """
    times: dict[str, list[float]] = {}

    def asked(each: Competitor, question: Callable[[], Any]) -> Any:
        """Returns its answer; None if it has failed, which leaves it out."""
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
    """Checks that competitors compute the same.

    Args:
        case: The case, for the error.
        checks: The results of each.

    Raises:
        Disagreement: They compute different results.
    """
    if not checks:  # all have failed
        return
    (first, expected), *others = checks.items()
    for name, found in others:
        if len(found) != len(expected) or any(
            abs(a - b) > TOLERANCE * max(abs(a), abs(b))
            for a, b in zip(found, expected, strict=True)
        ):
            raise Disagreement(f"{case}: {name} gets {found}, {first} gets {expected}")

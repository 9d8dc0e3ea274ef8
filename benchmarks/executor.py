"""The goals of the compiled executor, compared with TensorFlow, PyTorch and numpy.

    python benchmarks/executor.py --torch-python /path/to/python [--record]

One row per case and number of threads: times, their ratios, the goal, and how far it was reached.
TensorFlow and PyTorch may be installed in other Pythons than this one; if one is missing, its
column has "-".
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import machine
from competitor import add_interpreter_options, compare, interpreters, require_agreement, started
from report import Report, Table, add_call_options, ratio_text, time_text
from timing import Measured, measured

OURS, THEIRS = "sparkflow", "TensorFlow"
COMPETITORS = (OURS, THEIRS, "torch", "torch.compile", "numpy", "limit")
PACKAGES = ("numpy", "llvmlite", "tensorflow")
KERNEL_CACHE = "SPARKFLOW_KERNEL_CACHE"
FIRST_RUN = "first_run"

Times = Mapping[str, Measured]


@dataclass(frozen=True, slots=True)
class Goal:
    """A goal.

    Attributes:
        text: Its text in the table.
        other: The competitor whose time is required.
        reached: The figure that was reached.
        shown: The text of the figure in the table.
        met: Whether its median is good enough.
    """

    text: str
    other: str
    reached: Callable[[Measured, Measured], Measured]
    shown: Callable[[Measured], str]
    met: Callable[[float], bool]

    def verdict(self, times: Times) -> str:
        """Returns the text of how far it was reached."""
        if self.other not in times:
            return "-"
        figure = self.reached(times[OURS], times[self.other])
        return f"{self.shown(figure)}, {'met' if self.met(figure.median) else 'missed'}"


def at_most(bound: float, other: str) -> Goal:
    """A multiple of the time of a competitor."""
    return Goal(
        f"≤ {bound:g} {other}",
        other,
        lambda ours, theirs: ours.over(theirs),
        ratio_text,
        lambda ratio: ratio <= bound,
    )


def at_most_above(bound_s: float, other: str) -> Goal:
    """A number of seconds more than a competitor."""
    return Goal(
        f"≤ {other} + {bound_s * 1e6:g} µs",
        other,
        lambda ours, theirs: ours.minus(theirs),
        time_text,
        lambda seconds: seconds <= bound_s,
    )


def at_least_share(bound: float, other: str) -> Goal:
    """A fraction of a limit."""
    return Goal(
        f"≥ {bound:.0%} of {other}",
        other,
        lambda ours, theirs: theirs.over(ours),
        lambda share: f"{share.median:.0%}",
        lambda share: share >= bound,
    )


def within(bound_s: float) -> Goal:
    """A number of seconds."""
    return Goal(
        f"≤ {bound_s:g} s",
        OURS,
        lambda ours, _: ours,
        time_text,
        lambda seconds: seconds <= bound_s,
    )


@dataclass(frozen=True, slots=True)
class Row:
    """A case with its text in the table and its goals."""

    text: str
    goals: Sequence[Goal]

    def cells(self, columns: Sequence[str], threads: int, times: Times) -> list[str]:
        """Returns the table row for these competitors."""
        ratios = {name: times[OURS].over(times[name]) for name in columns if name in times}
        return [
            self.text,
            str(threads),
            *(time_text(times[name]) if name in times else "-" for name in columns),
            *(ratio_text(ratios[name]) if name in ratios else "-" for name in _others(columns)),
            "; ".join(goal.text for goal in self.goals) or "-",
            "; ".join(goal.verdict(times) for goal in self.goals) or "-",
        ]


CASES = {
    "add": Row("Session.run of one add, 10 floats fed", [at_most(0.2, THEIRS)]),
    "add_callable": Row("the same through make_callable", [at_most_above(6e-6, "limit")]),
    "chain": Row("200 chained elementwise ops, 10 floats", [at_most(0.2, THEIRS)]),
    "chain_large": Row("the same on (512, 1024); limit: copying", [at_most(2, "limit")]),
    "mlp": Row("MLP 784-256-128-10, batch 100, SGD", [at_most(0.7, THEIRS)]),
    "mlp_large": Row(
        "MLP 784-1024-1024-10, batch 512, Adam; limit: sgemm",
        [at_most(0.95, THEIRS), at_least_share(0.85, "limit")],
    ),
    "cnn": Row("CNN of 28×28, batch 64, SGD", [at_most(1, THEIRS)]),
    "embedding": Row("embedding 1M × 64, 4096 ids, Adagrad", [at_most(0.7, THEIRS)]),
    "while": Row("while_loop of 128 turns", [at_most(0.5, THEIRS)]),
    "while_gradient": Row("its gradient", [at_most(0.5, THEIRS)]),
}
FIRST_RUNS = {
    "cold": Row("build and first step, no kernel cached", [at_most(1, THEIRS), within(3)]),
    "warm": Row("the same, kernels cached on disk", [at_most(1, THEIRS), within(3)]),
    "third": Row("build and three steps, no kernel cached", []),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    add_call_options(parser, 5, 0.15, [*CASES, FIRST_RUN])
    parser.add_argument("--first-runs", type=int, default=3, help="processes of first_run each")
    add_interpreter_options(parser)
    options = parser.parse_args()
    report = Report("executor", PACKAGES, options)
    rows: list[list[str]] = []
    software: dict[str, None] = {}
    for threads in options.threads:
        with started(_commands(threads), threads, interpreters(options)) as competitors:
            software |= dict.fromkeys(each.software for each in competitors if each.software)
            for case in [case for case in options.cases if case != FIRST_RUN]:
                times = compare(competitors, case, options.rounds, options.round_s)
                rows.append(CASES[case].cells(COMPETITORS, threads, times))
                print(case, threads, "done", file=sys.stderr)
    tables = {}
    if rows:
        caption = f"Time per call, median of {options.rounds} rounds ({', '.join(software)})"
        tables[caption] = _table(COMPETITORS, rows)
    if FIRST_RUN in options.cases:
        tables |= first_runs(max(options.threads), options)
    report.finish(tables)


def first_runs(threads: int, options: argparse.Namespace) -> dict[str, Table]:
    """Returns the table of a graph's first runs, each in a fresh process, by its caption."""
    answers: dict[str, list[Mapping[str, Any]]] = {"cold": [], "warm": [], THEIRS: []}
    with tempfile.TemporaryDirectory() as folder:
        warm = Path(folder, "warm")
        _first_run(OURS, threads, sys.executable, warm)
        for number in range(options.first_runs):
            cold = Path(folder, f"cold{number}")
            answers["cold"].append(_first_run(OURS, threads, sys.executable, cold))
            answers["warm"].append(_first_run(OURS, threads, sys.executable, warm))
            answers[THEIRS].append(_first_run(THEIRS, threads, options.tensorflow_python, cold))
    present = {name: each for name, each in answers.items() if "skip" not in each[0]}
    require_agreement(FIRST_RUN, {name: each[0]["check"] for name, each in present.items()})
    rows = []
    for name, row in FIRST_RUNS.items():
        moment = "third" if name == "third" else "first"
        chosen = {OURS: "warm" if name == "warm" else "cold", THEIRS: THEIRS}
        times = {
            column: measured([answer[moment] for answer in present[which]])
            for column, which in chosen.items()
            if which in present
        }
        rows.append(row.cells((OURS, THEIRS), threads, times))
    nodes = ", ".join(f"{each[0]['nodes']:,} in {name}" for name, each in present.items())
    caption = f"A training graph's first runs in fresh processes; nodes: {nodes}"
    return {caption: _table((OURS, THEIRS), rows)}


def _first_run(name: str, threads: int, python: str, kernel_cache: Path) -> dict[str, Any]:
    done = subprocess.run(
        [python, str(Path(__file__).with_name("first_run.py")), name, str(threads)],
        env={
            **machine.clean_environment(threads),
            "TF_CPP_MIN_LOG_LEVEL": "3",
            KERNEL_CACHE: str(kernel_cache),
        },
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer


def _commands(threads: int) -> dict[str, list[str]]:
    """The commands that start competitors, by name."""
    here = Path(__file__).parent
    own, torch = str(here / "executor_competitor.py"), str(here / "torch_competitor.py")
    return {
        name: [torch, "compiled" if name == "torch.compile" else name, str(threads)]
        if name.startswith("torch")
        else [own, name, str(threads)]
        for name in COMPETITORS
    }


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> Table:
    ratios = [f"/ {name}" for name in _others(columns)]
    return Table(["case", "threads", *columns, *ratios, "goal", "reached"], rows)


def _others(columns: Sequence[str]) -> list[str]:
    """The competitors of sparkflow."""
    return [name for name in columns if name not in (OURS, "limit")]


if __name__ == "__main__":
    main()

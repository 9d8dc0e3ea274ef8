"""Parameter servers: transfer rates and training speed, compared with others.

    python benchmarks/parameter_servers.py --torch-python /path/to/python [--record]

One parameter server and up to two workers, each a process with one thread. Exchanges are of one
worker; training is of two, asynchronous, synchronous, or with PyTorch's DistributedDataParallel.
"run" is one `Session.run` per step in the worker's process, as in TensorFlow; "loop" means step
loops that a driver starts. The next word is sparkflow's transport: "auto" is its choice on one
host, which is shared memory that workers read in place.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import embedding
import machine
import mlp
import ps_programs
from competitor import add_interpreter_options, compare, interpreters, started
from report import Report, Table, add_options, ratio_text, time_text
from timing import Measured

PACKAGES = ("numpy", "grpcio", "protobuf")
TRANSPORTS = ("auto", "unix", "tcp", "grpc")
THEIRS = "TensorFlow"
TORCH = {"torch gloo": "gloo", "torch gloo, flattened": "flat", "torch rpc": "rpc"}
LIMITS = {"bare TCP": "tcp", "bare unix socket": "unix", "copy in memory": "memory"}

Times = Mapping[str, Measured]


@dataclass(frozen=True, slots=True)
class Goal:
    """A goal.

    Attributes:
        text: Its text in the table.
        ours: The competitor that is to reach it.
        figure: Computes the figure from the times of all competitors; KeyError if one is missing.
        shown: The text of the figure in the table.
        met: Whether its median is good enough.
    """

    text: str
    ours: str
    figure: Callable[[Times], Measured]
    shown: Callable[[Measured], str]
    met: Callable[[float], bool]

    def cells(self, times: Times) -> list[str]:
        """Returns the table's texts: competitor, goal, and figure reached."""
        try:
            figure = self.figure(times)
        except KeyError:
            return [self.ours, self.text, "-"]
        verdict = "met" if self.met(figure.median) else "missed"
        return [self.ours, self.text, f"{self.shown(figure)}, {verdict}"]


@dataclass(frozen=True, slots=True)
class Row:
    """A case.

    Attributes:
        text: What it is.
        amount: The amount per step, in `unit`.
        unit: `bytes` or `examples`; empty if only the time matters.
        goals: The goals.
    """

    text: str
    amount: int = 0
    unit: str = ""
    goals: Sequence[Goal] = ()

    def rate(self, time: Measured) -> str:
        """Returns the rate of a competitor."""
        per_second = self.amount / time.median
        if self.unit == "bytes":
            return f"{per_second / 1e9:.2f} GB/s"
        return f"{per_second:,.0f} examples/s" if self.unit else "-"


def within(bound_s: float, ours: str) -> Goal:
    """Returns the goal of a maximum time per step."""
    text = time_text(Measured((bound_s,))).removesuffix(" ±0%")
    return Goal(f"≤ {text}", ours, lambda t: t[ours], time_text, lambda s: s <= bound_s)


def bytes_per_s(bound: float, amount: int, ours: str) -> Goal:
    """Returns the goal of a minimum number of bytes per second."""

    def figure(times: Times) -> Measured:
        return Measured(tuple(amount / seconds for seconds in times[ours].rounds))

    def shown(rate: Measured) -> str:
        return f"{rate.median / 1e9:.2f} GB/s ±{rate.spread:.0%}"

    return Goal(f"≥ {bound / 1e9:g} GB/s", ours, figure, shown, lambda rate: rate >= bound)


def times_theirs(bound: float, ours: str) -> Goal:
    """Returns the goal of a minimum ratio to TensorFlow's rate."""
    return Goal(
        f"≥ {bound:g} × {THEIRS}",
        ours,
        lambda times: times[THEIRS].over(times[ours]),
        lambda ratio: f"{ratio_text(ratio)} ×",
        lambda ratio: ratio >= bound,
    )


def both(make: Callable[[float, str], Goal], tcp: float, auto: float, form: str) -> list[Goal]:
    """Returns a goal over TCP and one on a single host."""
    return [make(tcp, f"{form} tcp"), make(auto, f"{form} auto")]


_LARGE = 4 * ps_programs.LARGE_FLOATS
_MLP, _MLP_LARGE, _EMBEDDING = (
    ps_programs.NUM_WORKERS * rows for rows in (mlp.BATCH, mlp.LARGE_BATCH, embedding.IDS)
)
EXCHANGES = {
    "read": Row("read 4 bytes", 0, "", [within(60e-6, "run auto")]),
    "read_here": Row(
        "read 4 bytes, fetched from the server itself", 0, "", [within(120e-6, "run auto")]
    ),
    "pull": Row(
        "pull 100 MB",
        _LARGE,
        "bytes",
        both(lambda bound, ours: bytes_per_s(bound, _LARGE, ours), 4e9, 7e9, "run"),
    ),
    "pull_sum": Row("pull 100 MB and take the mean of it", _LARGE, "bytes"),
    "push": Row(
        "push 100 MB, which are added",
        _LARGE,
        "bytes",
        both(lambda bound, ours: bytes_per_s(bound, _LARGE, ours), 3.5e9, 5e9, "run"),
    ),
    "variables_200": Row(
        "pull 200 variables of 1,000 floats, then push their updates",
        0,
        "",
        [within(0.5e-3, "run auto"), within(0.5e-3, "loop auto")],
    ),
}
COUNTS = {
    name: Row(text)
    for count in ps_programs.COUNTS
    for name, text in (
        (f"count_{count}", f"pull {count:,} variables of 1 KB, then push their updates"),
        (f"kilobytes_{count}", f"the same with one variable of {count:,} KB"),
    )
}
TRAINING = {
    "mlp_async": Row(
        "MLP 784-256-128-10, batch 100, SGD, asynchronous",
        _MLP,
        "examples",
        both(times_theirs, 2.5, 6, "loop"),
    ),
    "mlp_sync": Row(
        "MLP 784-256-128-10, batch 100, SGD, synchronous",
        _MLP,
        "examples",
        [times_theirs(2.5, "loop tcp")],
    ),
    "mlp_large_async": Row(
        "MLP 784-1024-1024-10, batch 512, Adam, asynchronous",
        _MLP_LARGE,
        "examples",
        both(times_theirs, 1.2, 1.2, "loop"),
    ),
    "mlp_large_sync": Row(
        "MLP 784-1024-1024-10, batch 512, Adam, synchronous",
        _MLP_LARGE,
        "examples",
        both(times_theirs, 1.2, 1.2, "loop"),
    ),
}
EMBEDDINGS = {
    "embedding_async": Row(
        "embedding 1M × 64, batch 4096, Adagrad, asynchronous",
        _EMBEDDING,
        "examples",
        both(times_theirs, 1.5, 1.5, "loop"),
    ),
    "embedding_sync": Row(
        "embedding 1M × 64, batch 4096, Adagrad, synchronous",
        _EMBEDDING,
        "examples",
        both(times_theirs, 1.5, 1.5, "loop"),
    ),
}
GROUPS = (EXCHANGES, COUNTS, TRAINING, EMBEDDINGS)
"""Cases whose competitors are started together."""
FLAT = 1.2


def main() -> None:
    machine.clean_own_environment()
    parser = argparse.ArgumentParser(description=__doc__)
    add_options(parser, rounds=5)
    parser.add_argument("--round-s", type=float, default=0.3, help="seconds of steps per round")
    cases = [name for group in GROUPS for name in group]
    parser.add_argument("--case", nargs="+", default=cases, choices=cases)
    parser.add_argument("--transports", nargs="+", default=TRANSPORTS, choices=TRANSPORTS)
    add_interpreter_options(parser)
    options = parser.parse_args()
    report = Report("parameter_servers", PACKAGES, options)
    found: dict[str, Times] = {}
    software: dict[str, None] = {}
    for group in GROUPS:
        chosen = [name for name in options.case if name in group]
        if chosen:
            found |= measure(group, chosen, options, software)
    rows = {name: row for group in GROUPS for name, row in group.items() if name in found}
    caption = f"Goals, median of {options.rounds} rounds ({', '.join(software)})"
    tables = {caption: _goals(rows, found)}
    if all(name in found for name in COUNTS):
        tables["Cost of a step by number of variables of 1 KB"] = _flatness(found)
    tables |= {row.text: _table(row, found[name]) for name, row in rows.items()}
    report.finish(tables)


def measure(
    group: Mapping[str, Row],
    chosen: Sequence[str],
    options: argparse.Namespace,
    software: dict[str, None],
) -> dict[str, Times]:
    """Measures the times of all competitors by case.

    Args:
        group: The group of cases.
        chosen: The chosen cases.
        options: The options of the command line.
        software: Receives the competitors' software.
    """
    found: dict[str, Times] = {}
    commands, pythons = _commands(group, options)
    with started(commands, threads=1, interpreters=pythons) as competitors:
        software |= dict.fromkeys(each.software for each in competitors if each.software)
        for case in chosen:
            found[case] = compare(competitors, case, options.rounds, options.round_s)
            print(case, "done", file=sys.stderr)
    return found


def _commands(
    group: Mapping[str, Row], options: argparse.Namespace
) -> tuple[dict[str, list[str]], dict[str, str]]:
    """Returns the commands of competitors, and their Pythons if other than this one."""
    here = Path(__file__).parent
    exchanges, counts = group is EXCHANGES, group is COUNTS
    commands = {}
    for transport in options.transports:
        if exchanges or transport == "auto":
            commands[f"run {transport}"] = ["graph", "sparkflow", transport]
        if not exchanges or transport == "auto":
            commands[f"loop {transport}"] = ["loop", transport]
    commands[THEIRS] = ["graph", THEIRS, "auto"]
    for name, way in TORCH.items():
        if exchanges or (way == "gloo" and not counts):
            commands[name] = ["torch", way]
    if exchanges:
        commands |= {name: ["limit", kind] for name, kind in LIMITS.items()}
    theirs = interpreters(options)
    pythons = {THEIRS: theirs[THEIRS], **dict.fromkeys(TORCH, theirs["torch"])}
    return {
        name: [str(here / f"ps_{file}_competitor.py"), *arguments]
        for name, (file, *arguments) in commands.items()
    }, pythons


def _goals(rows: Mapping[str, Row], found: Mapping[str, Times]) -> Table:
    cells = [
        [row.text, *goal.cells(found[name]), *_peers(row, found[name])]
        for name, row in rows.items()
        for goal in row.goals
    ]
    return Table(["case", "sparkflow", "goal", "reached", THEIRS, *TORCH], cells)


def _peers(row: Row, times: Times) -> list[str]:
    return [
        (row.rate(times[name]) if row.unit else time_text(times[name])) if name in times else "-"
        for name in (THEIRS, *TORCH)
    ]


def _table(row: Row, times: Times) -> Table:
    headings = ["who", "time per step", "rate", f"rate / {THEIRS}"]
    return Table(
        headings,
        [
            [
                f"sparkflow, {name}" if name.startswith(("run", "loop")) else name,
                time_text(time),
                row.rate(time),
                ratio_text(times[THEIRS].over(time)) if THEIRS in times else "-",
            ]
            for name, time in times.items()
        ],
    )


def _flatness(found: Mapping[str, Times]) -> Table:
    """The cost of steps without that of additional bytes, which must not grow by a fifth."""
    first, *_, last = ps_programs.COUNTS
    rows = []
    for name in found[f"count_{first}"]:
        costs = {
            count: found[f"count_{count}"][name].minus(
                found[f"kilobytes_{count}"][name].minus(found[f"kilobytes_{first}"][name])
            )
            for count in ps_programs.COUNTS
        }
        growth = costs[last].over(costs[first])
        verdict = ", met" if growth.median <= FLAT else ", missed"
        rows.append(
            [
                name,
                *(time_text(cost) for cost in costs.values()),
                ratio_text(growth) + (verdict if name.startswith(("run", "loop")) else ""),
            ]
        )
    headings = [f"{count:,}" for count in ps_programs.COUNTS]
    return Table(["who", *headings, f"{last:,} / {first} (goal: ≤ {FLAT:g})"], rows)


if __name__ == "__main__":
    main()

"""Tables of figures, printed and appended to RESULTS.md."""

from __future__ import annotations

import argparse
import shlex
import sys
import traceback
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path

import machine
from timing import Measured

RESULTS = Path(__file__).with_name("RESULTS.md")


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of text under headings."""

    headings: Sequence[str]
    rows: Sequence[Sequence[str]]

    def __str__(self) -> str:
        """The table in Markdown, its columns aligned."""
        lines = [self.headings, *self.rows]
        widths = [max(len(line[i]) for line in lines) for i in range(len(self.headings))]
        rule = ["-" * width for width in widths]
        return "\n".join(
            "| "
            + " | ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True))
            + " |"
            for line in [self.headings, rule, *self.rows]
        )


class Report:
    """One run of one benchmark. Made before measuring, so that it knows the load then.

    Args:
        name: The benchmark.
        packages: Distributions whose versions matter.
        options: What the command line said, see `add_options`.

    Attributes:
        failures: What went wrong though the rest was measured, a text for each; `measuring` ends
            the process with them.
    """

    def __init__(self, name: str, packages: Sequence[str], options: argparse.Namespace) -> None:
        self._name = name
        self._options = options
        self._facts = {
            "command": shlex.join(["python", f"benchmarks/{name}.py", *_arguments(options)]),
            **machine.describe(packages),
            "load before": machine.load(),
        }
        self.failures: list[str] = []

    @contextmanager
    def measuring(self, tables: Callable[[], Mapping[str, Table]]) -> Iterator[None]:
        """A block that measures, and `finish` after it, however it ends.

        What was measured until an error or Ctrl-C is printed and recorded, and that it ended so.

        Args:
            tables: Gives the tables of what was measured so far.

        Raises:
            SystemExit: There are `failures`, which are its message.
        """
        try:
            yield
        except BaseException as error:
            said = traceback.format_exception_only(error)[-1].strip()
            self._facts["ended before the end by"] = said
            found = tables()
            if any(table.rows for table in found.values()):
                self.finish(found)
            raise
        self.finish(tables())
        if self.failures:
            sys.exit("\n".join(["Some have failed:", *self.failures]))

    def finish(self, tables: Mapping[str, Table]) -> None:
        """Prints the tables, and appends them to RESULTS.md when asked for.

        Args:
            tables: By caption.
        """
        facts = {**self._facts, "load after": machine.load()}
        if self.failures:
            facts["failed"] = "; ".join(self.failures)
        if self._options.note:
            facts["note"] = self._options.note
        moment = datetime.now(timezone.utc).strftime("%Y-%m-%d %H:%M UTC")
        text = f"## {self._name}, {moment}\n\n"
        text += "".join(f"- {heading}: {fact}\n" for heading, fact in facts.items())
        for caption, table in tables.items():
            text += f"\n{caption}\n\n{table}\n"
        print(text)
        if self._options.record:
            with RESULTS.open("a", encoding="utf-8") as file:
                file.write(f"\n{text}")


def _arguments(options: argparse.Namespace) -> list[str]:
    """What the command line said, but for what only concerns the record."""
    return [each for each in sys.argv[1:] if each not in ("--record", "--note", options.note)]


def add_options(parser: argparse.ArgumentParser, rounds: int) -> None:
    """The options that all benchmarks have."""
    parser.add_argument("--rounds", type=int, default=rounds, help="default: %(default)s")
    parser.add_argument("--record", action="store_true", help="append the figures to RESULTS.md")
    parser.add_argument("--note", default="", help="what else RESULTS.md should say of this run")


def add_call_options(
    parser: argparse.ArgumentParser, rounds: int, round_s: float, cases: Collection[str]
) -> None:
    """The options of benchmarks that time calls: these, seconds per round, threads and cases."""
    add_options(parser, rounds)
    per_round = "seconds of calls per round"
    parser.add_argument("--round-s", type=float, default=round_s, help=per_round)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--cases", nargs="+", default=list(cases), choices=list(cases))


def time_text(value: Measured) -> str:
    """A time of the unit that suits it, with its spread: `12.3 µs ±2%`."""
    for unit, scale in (("µs", 1e6), ("ms", 1e3)):
        if abs(value.median) * scale < 1000:
            return f"{value.median * scale:.3g} {unit} ±{value.spread:.0%}"
    return f"{value.median:.2f} s ±{value.spread:.0%}"


def rate_text(value: Measured, digits: int = 0) -> str:
    """A rate with its spread: `1,320 ±2%`."""
    return f"{value.median:,.{digits}f} ±{value.spread:.0%}"


def ratio_text(value: Measured) -> str:
    """A ratio with two to three digits: `5.2`."""
    return f"{value.median:.3g}" if value.median < 100 else f"{value.median:.0f}"

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
    """A table: rows of text under headings."""

    headings: Sequence[str]
    rows: Sequence[Sequence[str]]

    def __str__(self) -> str:
        """Returns the table in Markdown with aligned columns."""
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
    """One run of one benchmark. Create it before measuring, because it records the load.

    Args:
        name: The benchmark.
        packages: Distributions whose versions matter.
        options: The options of the command line, see `add_options`.

    Attributes:
        failures: Texts of failures that did not stop the measurement; `measuring` ends the process
            with them.
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
        """Runs a block that measures, then `finish`, however the block ends.

        On an error or Ctrl-C, prints and records the measurements so far, and the reason.

        Args:
            tables: Returns the tables of the measurements so far.

        Raises:
            SystemExit: There are `failures`, which form its message.
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
        """Prints the tables, and appends them to RESULTS.md if requested.

        Args:
            tables: The tables by caption.
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
    """Returns the options of the command line except those of recording."""
    return [each for each in sys.argv[1:] if each not in ("--record", "--note", options.note)]


def add_options(parser: argparse.ArgumentParser, rounds: int) -> None:
    """Adds the options of all benchmarks."""
    parser.add_argument("--rounds", type=int, default=rounds, help="default: %(default)s")
    parser.add_argument("--record", action="store_true", help="append the figures to RESULTS.md")
    parser.add_argument("--note", default="", help="what else RESULTS.md should say of this run")


def add_call_options(
    parser: argparse.ArgumentParser, rounds: int, round_s: float, cases: Collection[str]
) -> None:
    """Adds the options of benchmarks that time calls: also seconds per round, threads and cases."""
    add_options(parser, rounds)
    per_round = "seconds of calls per round"
    parser.add_argument("--round-s", type=float, default=round_s, help=per_round)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    parser.add_argument("--cases", nargs="+", default=list(cases), choices=list(cases))


def time_text(value: Measured) -> str:
    """Returns a time in a suitable unit with its spread: `12.3 µs ±2%`."""
    for unit, scale in (("µs", 1e6), ("ms", 1e3)):
        if abs(value.median) * scale < 1000:
            return f"{value.median * scale:.3g} {unit} ±{value.spread:.0%}"
    return f"{value.median:.2f} s ±{value.spread:.0%}"


def rate_text(value: Measured, digits: int = 0) -> str:
    """Returns a rate with its spread: `1,320 ±2%`."""
    return f"{value.median:,.{digits}f} ±{value.spread:.0%}"


def ratio_text(value: Measured) -> str:
    """Returns a ratio with two to three digits: `5.2`."""
    return f"{value.median:.3g}" if value.median < 100 else f"{value.median:.0f}"

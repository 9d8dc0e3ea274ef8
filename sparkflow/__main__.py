"""`python -m sparkflow doctor`: reports what sparkflow finds on this machine."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command; its exit status.

    Args:
        arguments: The command line without the program; that of the process when None.
    """
    parser = argparse.ArgumentParser(prog="python -m sparkflow")
    commands = parser.add_subparsers(dest="command", required=True, metavar="command")
    commands.add_parser(
        "doctor",
        help="say what sparkflow finds on this machine; exit status 1 if something needed is not",
    )
    parser.parse_args(arguments)
    from sparkflow import doctor  # here, because it loads numerical libraries

    findings = doctor.examine()
    print(doctor.report(findings))
    return int(any(each.verdict is doctor.Verdict.MISSING for each in findings))


if __name__ == "__main__":
    sys.exit(main())

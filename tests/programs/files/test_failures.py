"""Saving over existing files, with a failure at every call: the old state is left, or the new one.

Unlike a death, a failure is followed by a clean-up, which must not remove what is complete: a disk
may report that it is full after a file has its name, and Ctrl-C may come at any moment.
"""

from __future__ import annotations

import errno
import importlib.util
import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sparkflow_runtime.errors import OpError

_spec = importlib.util.spec_from_file_location(
    "saving_program", Path(__file__).with_name("saving_program.py")
)
assert _spec is not None
assert _spec.loader is not None
_program = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_program)
logging.disable(logging.NOTSET)  # which the program disabled
CASES = _program.CASES
CALLS = ("fsync", "rename", "replace", "link", "mkdir")


class Failing:
    """Makes the call with this number fail: by a full disk, or by Ctrl-C after it is done."""

    def __init__(self, number: int, is_interrupt: bool) -> None:
        self.number = number
        self.count = 0
        self._is_interrupt = is_interrupt

    def around(self, call: Callable[..., Any]) -> Callable[..., Any]:
        """Returns the function to be called instead."""

        def instead(*args: Any, **kwargs: Any) -> Any:
            self.count += 1
            if self.count != self.number:
                return call(*args, **kwargs)
            if not self._is_interrupt:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            call(*args, **kwargs)
            raise KeyboardInterrupt

        return instead


@pytest.mark.slow
@pytest.mark.parametrize("is_interrupt", [False, True], ids=["full disk", "Ctrl-C"])
@pytest.mark.parametrize("name", CASES)
def test_a_failure_at_any_call_leaves_the_old_state_or_the_new_one(
    name: str, is_interrupt: bool, tmp_path: Path
) -> None:
    case, number = CASES[name], 0
    while True:
        number += 1
        folder = tmp_path / str(number)
        folder.mkdir()
        case.before(folder)
        failing = Failing(number, is_interrupt)
        with pytest.MonkeyPatch.context() as patch:
            for call in CALLS:
                patch.setattr(os, call, failing.around(getattr(os, call)))
            told = _failure(lambda folder=folder: case.change(folder))
        assert case.state(folder) in ("1", "2"), (number, told)
        if told is not None and not is_interrupt:
            assert str(folder) in told, "a full disk names no file"
        case.change(folder)
        assert case.state(folder) == "2"
        if failing.count < number:
            return


def _failure(change: Callable[[], None]) -> str | None:
    try:
        change()
    except (OSError, OpError, KeyboardInterrupt) as error:
        return str(error)
    return None

"""The test run's own directory for temporary files, and what tests have left in it.

It is `tempfile.gettempdir()` of the run and of its processes, and is deleted with pytest's own
directories: nothing is left where other programs have their files.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest

from support import java

_GOES_S: Final = 30.0
_OURS: Final = ("tmp", "sparkflow")
"""Prefixes of the names that tests and sparkflow give temporary files: Python's default, and ours.
Libraries keep others until their process ends: JVMs, a compiled header, fonts of plots."""

_OF_USERS_TESTS: Final = "absl_testing"
"""The folder of `tf.test.get_temp_dir`: it may stay, but not what a test puts there."""


@contextmanager
def own_directory(folder: Path) -> Iterator[Path]:
    """Makes this process and those that it starts create temporary files in a folder."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TMPDIR", str(folder))
        patch.setattr(tempfile, "tempdir", None)  # Python looks only once
        java.temporary_directory().mkdir()
        java.for_drivers()
        yield folder


def taken_left(folder: Path, within_s: float = _GOES_S) -> list[str]:
    """Removes what tests have left in a folder; returns names, with the contents of directories.

    Args:
        folder: See `own_directory`.
        within_s: How long files may take to disappear by themselves.
    """
    deadline = time.monotonic() + within_s
    while (left := _left(folder)) and time.monotonic() < deadline:
        time.sleep(0.05)
    found = [_described(each) for each in left]
    for each in left:
        if each.is_dir() and not each.is_symlink():
            shutil.rmtree(each, ignore_errors=True)
        else:
            each.unlink(missing_ok=True)
    return found


def _left(folder: Path) -> list[Path]:
    return [each for each in sorted(folder.iterdir()) if not _may_stay(each)]


def _may_stay(path: Path) -> bool:
    if path.name == _OF_USERS_TESTS:
        return not any(path.iterdir())
    return not path.name.startswith(_OURS)


def _described(path: Path) -> str:
    if not path.is_dir():
        return path.name
    return f"{path.name}: {', '.join(sorted(each.name for each in path.iterdir())[:8])}"

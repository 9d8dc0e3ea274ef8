"""The files that git tracks."""

import subprocess

import pytest

from support.import_graph import ROOT


def tracked(*patterns: str) -> list[str]:
    """Returns the tracked files that match, relative to the root; skips the test without git."""
    command = ["git", "ls-files", "-z", *patterns]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip("not a work tree of git")
    return [name for name in done.stdout.split("\0") if name]

"""A process ends with its parent, and so does a program that replaces it."""

import os
import select
import subprocess
import sys

import pytest

from support import tied

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the kernel of Linux does it")

CHILD = "import os, signal; print(os.getpid(), flush=True); signal.pause()"
PARENT = f"""
import signal, subprocess, sys
from support.tied import tied
subprocess.Popen(tied([sys.executable, "-S", "-c", {CHILD!r}]))
signal.pause()
"""


def test_a_command_ends_with_the_process_that_was_killed() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", PARENT],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
    ) as parent:
        assert parent.stdout is not None
        ended = os.pidfd_open(int(parent.stdout.readline()))
        try:
            parent.kill()
            assert select.select([ended], [], [], 30)[0]
        finally:
            os.close(ended)


def test_a_command_does_not_begin_after_the_end_of_its_parent() -> None:
    adopted = "1"  # its parent is no longer the process that started it
    done = subprocess.run(
        [sys.executable, tied.__file__, adopted, "echo", "began"], capture_output=True, check=False
    )
    assert done.returncode < 0
    assert not done.stdout

"""The number of our modules that the first step imports."""

import os
import subprocess
import sys

FIRST_RUN = """
import sys
import sparkflow as tf
with tf.Session() as session:
    session.run(tf.add(1.0, 2.0))
print(len([name for name in sys.modules if name.startswith("sparkflow")]))
"""
MOST = 150
"""It shrinks: 498 on 2026-11-24 before ops were imported on demand. A folder
counts as a module, too: the folders of ops and graphs added nine."""


def test_the_first_step_imports_what_it_needs():
    command = [sys.executable, "-c", FIRST_RUN]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=_unwatched())
    assert int(done.stdout) <= MOST


def test_importing_the_front_end_imports_next_to_nothing():
    code = "import sys, sparkflow; print(len([m for m in sys.modules if m[:9] == 'sparkflow']))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(done.stdout) <= 8


def test_a_local_session_speaks_to_nobody():
    code = FIRST_RUN + "print([name for name in sys.modules if name.partition('.')[0] == 'grpc'])"
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=_unwatched())
    assert done.stdout.splitlines()[-1] == "[]"


def _unwatched() -> dict[str, str]:
    """The environment of users, in which graphs are not verified between passes."""
    return {name: value for name, value in os.environ.items() if name != "SPARKFLOW_VERIFY"}

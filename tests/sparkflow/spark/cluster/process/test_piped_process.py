"""A process behind pipes, with modules of Python's own in it."""

import os
import subprocess
import time

import pytest

from sparkflow.spark.cluster.process.piped_process import PipedProcess
from sparkflow.spark.cluster_layout import TaskName

NAME = TaskName("worker", 1)
WAIT_S = 30


def test_what_is_written_is_read_and_what_is_said_comes_back():
    said = []
    process = PipedProcess(NAME, "json.tool", os.environ, lambda out: said.append(out.read()))
    process.write(b'{"a":')
    process.write(b" 1}")
    process.end()  # its input ends, and so does it
    assert process.wait() == 0
    assert said == [b'{\n    "a": 1\n}\n']
    assert process.lines == []
    process.write(b"more")  # nothing happens
    process.end()


def test_lines_of_errors_are_kept_told_and_shown(capsys):
    heard = []
    process = PipedProcess(NAME, "no_such_module", os.environ, lambda out: out.read(), heard.append)
    assert process.wait(WAIT_S) == 1
    process.wait_for_all()
    assert "No module named no_such_module" in process.tail(1)
    assert [line.rstrip("\n") for line in heard] == process.lines
    assert "] " in capsys.readouterr().err
    process.end()


def test_one_that_does_not_end_is_killed():
    process = PipedProcess(NAME, "json.tool", os.environ, lambda out: out.read())
    with pytest.raises(subprocess.TimeoutExpired):
        process.wait(0.01)
    before = time.monotonic()
    process.kill()
    assert process.wait(WAIT_S) == -9
    process.wait_for_output()
    process.end()
    assert time.monotonic() - before < WAIT_S
    with pytest.raises(ProcessLookupError):
        os.kill(process.pid, 0)

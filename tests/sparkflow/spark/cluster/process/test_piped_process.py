"""A process behind pipes that runs modules of Python's standard library."""

import os
import queue
import subprocess
import time

import pytest

from sparkflow.spark.cluster.process.piped_process import PipedProcess, executed
from sparkflow.spark.cluster_layout import TaskName

NAME = TaskName("worker", 1)
WAIT_S = 30


def test_what_is_written_is_read_and_what_is_said_comes_back():
    said = []
    process = PipedProcess(
        NAME, executed("json.tool", os.environ), lambda out: said.append(out.read())
    )
    process.write(b'{"a":')
    process.write(b" 1}")
    process.end()  # its input ends, and so does the process
    assert process.wait() == 0
    assert said == [b'{\n    "a": 1\n}\n']
    assert process.lines == []
    process.write(b"more")  # nothing happens
    process.end()


def test_lines_of_errors_are_kept_told_and_shown(capsys):
    heard = []
    process = PipedProcess(
        NAME, executed("no_such_module", os.environ), lambda out: out.read(), heard.append
    )
    assert process.wait(WAIT_S) == 1
    process.wait_for_all()
    assert "No module named no_such_module" in process.tail(1)
    assert [line.rstrip("\n") for line in heard] == process.lines
    assert "] " in capsys.readouterr().err
    process.end()


def test_one_that_does_not_end_is_killed():
    process = PipedProcess(NAME, executed("json.tool", os.environ), lambda out: out.read())
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


def test_a_bar_of_progress_is_told_while_it_grows(tmp_path):
    (tmp_path / "bar.py").write_text(
        "import sys\nsys.stderr.write('10%\\r20%\\r\\xff')\nsys.stderr.flush()\nsys.stdin.read()\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(tmp_path), "PYTHONIOENCODING": "latin-1"}
    heard = queue.SimpleQueue()
    process = PipedProcess(NAME, executed("bar", environment), lambda out: out.read(), heard.put)
    assert [heard.get(timeout=WAIT_S) for _ in range(2)] == ["10%\n", "20%\n"]
    process.end()
    assert process.lines == ["10%", "20%", "\N{REPLACEMENT CHARACTER}"]

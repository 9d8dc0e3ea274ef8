"""A suspended process stops with all of its threads."""

import subprocess
import sys
from pathlib import Path

import pytest

from sparkflow_runtime.testing.suspending import suspend

PROGRAM = """
import sys, threading

def spin():
    while True:
        pass

for _ in range(8):
    threading.Thread(target=spin, daemon=True).start()
print(flush=True)
sys.stdin.read()
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_no_thread_runs_any_more():
    command = [sys.executable, "-c", PROGRAM]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        suspend(process.pid)
        threads = list(Path(f"/proc/{process.pid}/task").glob("*/stat"))
        assert len(threads) == 9
        assert {each.read_text().rpartition(")")[2].split()[0] for each in threads} == {"T"}
        process.kill()


def test_a_process_that_is_gone_is_said():
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        process.wait()
        with pytest.raises(ProcessLookupError):
            suspend(process.pid)

"""Memory that a step frees is there for the next one."""

import platform
import subprocess
import sys

import pytest

PROGRAM = """
import resource, sys
import numpy as np
from sparkflow_runtime.device.host_memory import keep_freed_memory

def step():
    arrays = [np.ones(1 << 20, np.uint8) for _ in range(16)]

if sys.argv[1] == "keep":
    assert keep_freed_memory()
for _ in range(5):
    step()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(10):
    step()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def page_faults(mode):
    command = [sys.executable, "-c", PROGRAM, mode]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return int(done.stdout)


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc can be told so")
def test_steps_fault_no_pages_in_once_freed_memory_is_kept():
    assert page_faults("default") > 10_000  # else there would be nothing to gain
    assert page_faults("keep") < 100

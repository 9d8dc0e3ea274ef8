"""Memory that a step frees is reused by the next one; arrays begin at a cache line."""

from __future__ import annotations

import platform
import subprocess
import sys

import numpy as np
import pytest

from sparkflow_runtime import dtypes
from sparkflow_runtime.device.host_memory import aligned_empty, aligned_memory, is_aligned
from sparkflow_runtime.resources.variable import Variable

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
    assert page_faults("default") > 10_000  # otherwise there would be nothing to gain
    assert page_faults("keep") < 100


@pytest.mark.parametrize("shape", [(256,), (3, 5, 77), (1, 100_000)])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.uint8, np.complex64])
def test_arrays_of_some_size_begin_with_a_line(shape: tuple[int, ...], dtype: type) -> None:
    arrays = [aligned_empty(shape, dtype) for _ in range(5)]
    for array in arrays:
        assert (array.shape, array.dtype) == (shape, dtype)
        assert array.flags.c_contiguous
        assert array.flags.writeable
        assert array.nbytes < 1024 or is_aligned(array)
    assert not np.shares_memory(arrays[0], arrays[1])


@pytest.mark.parametrize("shape", [(), (0,), (0, 3), (4, 0, 2), (3,)])
def test_small_and_empty_arrays(shape: tuple[int, ...]) -> None:
    array = aligned_empty(shape, np.float32)
    assert (array.shape, array.dtype) == (shape, np.float32)


def test_texts_are_objects() -> None:
    texts = aligned_empty((1000,), object)
    assert (texts.shape, texts.dtype) == ((1000,), object)
    assert texts[999] is None


def test_memory_has_as_many_bytes_as_asked_for() -> None:
    for size in (0, 1, 63, 64, 4097):
        block = aligned_memory(size)
        assert (block.size, block.dtype) == (size, np.uint8)
        assert not size or is_aligned(block)  # numpy does not define the start of an empty array


def test_what_a_variable_allocates_is_aligned() -> None:
    assert is_aligned(Variable("v", dtypes.float32, (64, 64)).allocate((64, 64), np.float32))

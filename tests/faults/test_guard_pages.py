"""Kernels do not access memory beyond their arrays, which would end their process with SIGSEGV."""

from __future__ import annotations

import platform
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from sparkflow_runtime.codegen.machine import native

ROOT = Path(__file__).parents[2]
pytestmark = [
    pytest.mark.skipif(
        sys.platform != "linux" or platform.machine() != "x86_64" or not native.available(),
        reason="needs Linux on x86-64 and machine code",
    ),
    pytest.mark.timeout(7200),
]

_BEYOND = """
import ctypes, sys
import numpy as np
from support.guarded import Guarded

guard = Guarded()
with guard.on():
    guard.draw(int(sys.argv[1]))
    for size in (1, 7, 4095, 4096, 4097, 10_000):
        array = np.arange(size, dtype=np.uint8)
        array = np.append(array, array).reshape(2, -1)  # numpy allocates and resizes as it likes
        assert array.sum() == 2 * np.arange(size, dtype=np.uint8).sum()
    array = np.zeros(100, np.float32)
    start = array.ctypes.data
    if sys.argv[2] == "gone":
        del array
    print(flush=True)
    place = {"after": start + 400, "before": start - 1, "gone": start, "within": start}[sys.argv[2]]
    ctypes.string_at(place, 1)
"""


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    paths = f"import sys; sys.path.insert(0, {str(ROOT / 'tests')!r})\n"
    command = ["-c", paths + _BEYOND, *arguments] if len(arguments) == 2 else list(arguments)
    return subprocess.run(
        [sys.executable, *command], check=False, capture_output=True, text=True, cwd=ROOT
    )


@pytest.mark.parametrize(
    ("how", "where", "ends"),
    [("0", "after", True), ("0", "gone", True), ("0", "within", False), ("0", "before", False)],
)
def test_one_byte_too_many_ends_the_process(how: str, where: str, ends: bool) -> None:
    found = run(how, where)
    assert found.stdout == "\n", found.stderr
    assert found.returncode == (-signal.SIGSEGV if ends else 0)


def test_arrays_at_the_start_of_their_pages_have_nothing_before_them() -> None:
    codes = {run(str(seed), "before").returncode for seed in range(1, 9)}
    assert codes == {0, -signal.SIGSEGV}


def kernels(first: int, count: int, *processor: str) -> None:
    found = run("fuzz/guarded.py", str(first), str(count), *processor)
    assert found.returncode == 0, (
        f"exit status {found.returncode} after {found.stdout[-40:]!r}: {found.stderr[-3000:]}"
    )
    assert " runs, " in found.stdout


def test_kernels_stay_within_their_arrays() -> None:
    kernels(0, 34)


@pytest.mark.nightly
@pytest.mark.parametrize("processor", [(), ("avx2",)], ids=["this processor", "avx2"])
def test_22_000_runs_of_kernels(processor: tuple[str, ...]) -> None:
    kernels(34, 1900, *processor)

"""Plans in processes that lack something: a code generator, a folder for kernels, threads."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from sparkflow_runtime.codegen.machine import native

NATIVE = pytest.mark.skipif(not native.available(), reason="needs llvmlite")

PROGRAM = """
import os, sys
if "without" in sys.argv:
    sys.modules["llvmlite"] = None
import numpy as np
from sparkflow_runtime import dtypes
from sparkflow_runtime.codegen.machine import native
from sparkflow_runtime.compiler.program import compile_partition
from support.graphs import const, node
from support.plans import arg, fetch, new_context

assert native.available() == ("without" not in sys.argv)
x = np.linspace(-1, 1, 400_000, dtype=np.float32).reshape(1000, 400)  # enough for every thread

def run():
    nodes = [
        arg("x", 0),
        const("axis", [1], dtypes.int32),
        node("y", "Tanh", "x"),
        node("z", "Softmax", "y"),
        node("m", "MatMul", "z", "z", transpose_b=True),
        node("s", "Sum", "m", "axis"),
        fetch("s"),
    ]
    program = compile_partition(nodes, new_context())
    for _ in range(4):
        (s,) = program.run(None, [x])
    assert program.statistics.planned >= 2
    e = np.exp(np.tanh(x.astype(np.float64)))
    p = e / e.sum(1, keepdims=True)
    np.testing.assert_allclose(s, (p @ p.T).sum(1), rtol=1e-4)

run()
if "fork" in sys.argv:
    child = os.fork()
    run()
    if not child:
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
print("right")
"""


def start(cache: Path | None, *arguments: str) -> subprocess.Popen[str]:
    environment = {
        **os.environ,
        "SPARKFLOW_KERNEL_CACHE": "" if cache is None else str(cache),
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),  # `support` is where pytest found it
    }
    return subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", PROGRAM, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=environment,
    )


def check(process: subprocess.Popen[str], told: str = "") -> None:
    try:
        output, _ = process.communicate(timeout=120)
    finally:
        process.kill()
    *lines, last = output.splitlines()
    assert (last, len(lines)) == ("right", bool(told))
    assert told in output
    assert process.returncode == 0


def test_without_llvmlite(tmp_path: Path) -> None:
    check(start(tmp_path / "kernels", "without"), "Graphs run without compiled kernels")
    assert not (tmp_path / "kernels").exists()


@NATIVE
def test_without_a_place_for_kernels() -> None:
    check(start(None))


@NATIVE
def test_with_a_folder_that_nothing_can_be_written_to(tmp_path: Path) -> None:
    in_a_file = tmp_path / "file"
    in_a_file.write_text("no folder")
    check(start(in_a_file / "kernels"))
    read_only = tmp_path / "kernels"
    read_only.mkdir(mode=0o500)
    check(start(read_only))
    read_only.chmod(0o700)


@NATIVE
@pytest.mark.nightly
def test_with_files_that_a_full_disk_left(tmp_path: Path) -> None:
    kernels = tmp_path / "kernels"
    check(start(kernels))
    for path in kernels.iterdir():
        path.write_bytes(b"")
    check(start(kernels))


@NATIVE
@pytest.mark.nightly
def test_processes_that_compile_the_same_at_once(tmp_path: Path) -> None:
    for each in [start(tmp_path / "kernels") for _ in range(3)]:
        check(each)
    assert list((tmp_path / "kernels").iterdir())
    assert not list((tmp_path / "kernels").glob(".new-*"))


@NATIVE
def test_a_process_forked_from_one_that_ran_kernels() -> None:
    check(start(None, "fork"))

"""Processes whose threads use every kind of kernel concurrently, for the first time."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).with_name("first_use.py")
HOW = ("own", "shared", "servers")


@pytest.fixture(scope="module")
def warm_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with kernels compiled by an earlier process of this module."""
    return tmp_path_factory.mktemp("kernels")


def run(seed: int, how: str, folder: Path, threads: int = 4) -> None:
    environment = {**os.environ, "SPARKFLOW_KERNEL_CACHE": str(folder)}
    done = subprocess.run(
        [sys.executable, str(PROGRAM), str(seed), str(threads), how],
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert (done.returncode, done.stdout.strip()) == (0, "right"), done.stderr[-3000:]


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("seed", range(2))
def test_the_first_use_is_right_whoever_comes_first(seed: int, how: str, warm_folder: Path) -> None:
    run(seed, how, warm_folder)


@pytest.mark.nightly
@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("seed", range(2, 42))
def test_it_is_right_every_time(seed: int, how: str, tmp_path: Path, warm_folder: Path) -> None:
    run(seed, how, tmp_path / "new" if seed % 10 == 0 else warm_folder, threads=2 + seed % 7)


@pytest.mark.nightly
def test_processes_compile_into_one_folder(tmp_path: Path) -> None:
    """None finds anything; all compile the same and write it concurrently."""
    environment = {**os.environ, "SPARKFLOW_KERNEL_CACHE": str(tmp_path / "kernels")}
    command = [sys.executable, str(PROGRAM), "0", "2", "own"]
    children = [subprocess.Popen(command, env=environment) for _ in range(4)]
    assert [child.wait(300) for child in children] == [0, 0, 0, 0]

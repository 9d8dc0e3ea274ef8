"""Tests that a test run has its own temporary files, and that what tests leave is found."""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from support.temporary import own_directory, taken_left


def test_files_of_the_process_and_of_those_it_starts_are_there(tmp_path: Path) -> None:
    before = tempfile.gettempdir(), os.environ["TMPDIR"]
    with own_directory(tmp_path):
        ours = tempfile.mkdtemp()
        program = "import tempfile; print(tempfile.mkdtemp())"
        child = subprocess.run([sys.executable, "-c", program], stdout=subprocess.PIPE, check=True)
    assert {Path(ours), Path(child.stdout.decode().strip())} < set(tmp_path.iterdir())
    assert (tempfile.gettempdir(), os.environ["TMPDIR"]) == before


def test_what_is_left_is_told_once(tmp_path: Path) -> None:
    (tmp_path / "java").mkdir()
    (tmp_path / "cuda1234").mkdir()
    (tmp_path / ".ses").touch()
    (tmp_path / "absl_testing").mkdir()
    assert taken_left(tmp_path) == []
    (tmp_path / "tmpabc" / "model").mkdir(parents=True)
    (tmp_path / "sparkflow-rows-1").touch()
    (tmp_path / "tmplink").symlink_to(tmp_path / "java")
    (tmp_path / "absl_testing" / "of a test").touch()
    assert taken_left(tmp_path, within_s=0.0) == [
        "absl_testing: of a test",
        "sparkflow-rows-1",
        "tmpabc: model",
        "tmplink: ",
    ]
    assert taken_left(tmp_path, within_s=0.0) == []
    assert {each.name for each in tmp_path.iterdir()} == {"java", "cuda1234", ".ses"}


def test_this_run_has_one(temporary_directory: Path) -> None:
    assert Path(tempfile.gettempdir()) == temporary_directory

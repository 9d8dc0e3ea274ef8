"""F4 and F6: the driver is killed (its Python, its JVM or both), or suspended for a while."""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from sparkflow_runtime.testing.suspending import suspend
from support.listening import listening_sockets, open_sockets
from support.processes import (
    is_sparks,
    left_after,
    processes_of,
    shared_memory,
    training_processes,
)
from support.programs import Program
from support.waiting import wait_until

pytestmark = [
    pytest.mark.spark,
    pytest.mark.slow,
    pytest.mark.nightly,
    pytest.mark.timeout(1500),
]

PROGRAM = Path(__file__).with_name("drivers_program.py")
ASYNC_EPOCHS = 400  # of the program
GONE_S = 30.0
FIT_S = 600.0
MASTERS = ("local[4]", "local-cluster[3,1,1024]")
VICTIMS = (("python",), ("jvm",), ("python", "jvm"))


def start(folder: Path, master: str, mode: str, what: str) -> Program:
    path = os.pathsep.join(each for each in sys.path if each)
    return Program(PROGRAM, str(folder), master, mode, what, environment={"PYTHONPATH": path})


def said(program: Program, key: str) -> dict[str, Any]:
    """Returns the JSON object with a key that a program prints."""
    found: dict[str, Any] = json.loads(program.wait_for(f'^{{.*"{key}"', FIT_S).string)
    return found


def finished(folder: Path, master: str, mode: str, what: str) -> dict[str, Any]:
    """Returns the outcome of an undisturbed program."""
    with start(folder, master, mode, what) as program:
        found = said(program, "variables")
        assert program.end(60) == 0
    return found


@pytest.fixture(scope="module")
def calm(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """An undisturbed run, which has the same result on each kind of cluster."""
    return finished(tmp_path_factory.mktemp("calm"), MASTERS[0], "sync", "calm")


def files_of(folder: Path) -> set[Path]:
    """Returns temporary files of ours, without Spark's, which a killed JVM leaves."""
    places = [folder / "temporary", folder / "local"]
    paths = {(place, path) for place in places for path in place.rglob("*") if not path.is_dir()}
    return {path for place, path in paths if not is_sparks(path.relative_to(place))}


def rows_files(folder: Path) -> list[Path]:
    """Returns files with rows that have names."""
    found = (folder / "local").rglob("sparkflow-rows-*")
    return [each for each in found if each.is_file()]


def kill(program: Program, folder: Path, victims: Sequence[int]) -> float:
    """Kills processes of a program, and checks that nothing is left; returns the seconds."""
    all_of_it = processes_of(folder)
    sockets = {inode for pid in all_of_it for inode in listening_sockets(pid)}
    memory = {name for pid in all_of_it for name in shared_memory(pid)}
    assert sockets
    for each in victims:
        os.kill(each, signal.SIGKILL)
    began = time.monotonic()
    left = left_after(lambda: processes_of(folder), 2 * GONE_S)
    # A process that is ending has no environment any more when its files are closed.
    open_yet = left_after(lambda: sorted(map(int, sockets & open_sockets().keys())), GONE_S)
    gone_s = time.monotonic() - began
    output = program.output
    assert left == [], output
    assert open_yet == [], output
    assert gone_s < GONE_S, output
    assert [name for name in memory if Path(name).exists()] == []
    assert files_of(folder) == set()
    return round(gone_s, 1)


@pytest.mark.parametrize("victims", VICTIMS, ids="+".join)
@pytest.mark.parametrize("master", MASTERS)
def test_a_killed_driver_leaves_nothing_and_another_fit_goes_on(
    tmp_path: Path,
    calm: dict[str, Any],
    master: str,
    victims: Sequence[str],
    record_property: Callable[[str, object], None],
) -> None:
    with start(tmp_path, master, "sync", "faulty") as program:
        pids = said(program, "jvm")
        time.sleep(random.Random(f"{master}{victims}").uniform(0.0, 1.0))
        assert len(training_processes(tmp_path)) >= 3
        gone_s = kill(program, tmp_path, [pids[each] for each in victims])
    record_property(f"{'+'.join(victims)} on {master}: all gone after (s)", gone_s)
    again = finished(tmp_path, master, "sync", "faulty")
    assert 0 < again["resumed"] < again["steps"] == calm["steps"]
    assert again["variables"] == calm["variables"]
    assert again["restarts"] == []


@pytest.mark.parametrize("victims", VICTIMS, ids="+".join)
@pytest.mark.parametrize(
    ("master", "what"), [(MASTERS[0], "rows"), *((master, "start") for master in MASTERS)]
)
def test_a_driver_that_is_killed_before_the_first_step_leaves_nothing(
    tmp_path: Path,
    calm: dict[str, Any],
    master: str,
    what: str,
    victims: Sequence[str],
    record_property: Callable[[str, object], None],
) -> None:
    with start(tmp_path, master, "sync", what) as program:
        pids = said(program, "jvm")
        # A local session writes the rows before its tasks start, a cluster at the same time.
        begun = rows_files if what == "rows" else training_processes
        wait_until(lambda: begun(tmp_path), FIT_S)
        time.sleep(random.Random(f"{master}{what}{victims}").uniform(0.0, 1.0))
        gone_s = kill(program, tmp_path, [pids[each] for each in victims])
    record_property(f"{'+'.join(victims)} on {master}, {what}: all gone after (s)", gone_s)
    again = finished(tmp_path, master, "sync", "faulty")
    assert again["steps"] == calm["steps"]
    assert again["variables"] == calm["variables"]


@pytest.mark.parametrize("mode", ["sync", "async"])
@pytest.mark.parametrize("seconds", [5, 30, 120])
def test_a_driver_that_stands_still_goes_on(
    tmp_path: Path,
    calm: dict[str, Any],
    mode: str,
    seconds: int,
    record_property: Callable[[str, object], None],
) -> None:
    with start(tmp_path, MASTERS[0], mode, "faulty") as program:
        pid = said(program, "jvm")["python"]
        suspend(pid)
        time.sleep(seconds)
        os.kill(pid, signal.SIGCONT)
        found = said(program, "variables")
        assert program.end(60) == 0
    assert left_after(lambda: processes_of(tmp_path), GONE_S) == []
    record_property(f"{mode}, {seconds} s: restarts", found["restarts"])
    # Tasks wait for it, but not forever; it never uses what they did without it.
    assert len(found["restarts"]) <= 1
    assert found["repeated"] == 0
    if mode == "sync":
        assert found["variables"] == calm["variables"]
    else:
        assert set(found["variables"]["count"]) == {ASYNC_EPOCHS}

"""F17: storms of faults on plain TensorFlow 1 programs of a parameter server and workers.

Processes are killed and restarted, suspended and interrupted, and connections are cut, at random
moments; then the storm ends. Nothing may hang, no value may be wrong or go to another run, and in
the end nothing may be left.
"""

from __future__ import annotations

import json
import random
import re
import signal
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from support.programs import Program, free_ports

PROGRAM = Path(__file__).with_name("storm_program.py")
STORM_S, CALM_S, END_S = 40.0, 6.0, 60.0
PAUSES_S = (0.1, 0.3, 0.8, 1.5)
STOPS_S = (0.02, 0.2, 1.0, 3.0, 9.0)
Task = tuple[str, int]

pytestmark = [pytest.mark.nightly, pytest.mark.slow, pytest.mark.timeout(400)]


class Storm:
    """A cluster of one parameter server and three workers, with its faults."""

    def __init__(self, stack: ExitStack, folder: Path, kind: str, seed: int) -> None:
        self._stack = stack
        self._folder = folder
        self._random = random.Random(seed)
        ps, *workers = [f"localhost:{port}" for port in free_ports(4)]
        self._arguments = (
            f"--ps_hosts={ps}",
            f"--worker_hosts={','.join(workers)}",
            f"--folder={folder}",
            f"--kind={kind}",
        )
        self._lives: Counter[Task] = Counter()
        self.outputs: list[Program] = []
        self.tasks: dict[Task, Program] = {}
        for task in (("ps", 0), *(("worker", index) for index in range(3))):
            self._start(task)

    def _start(self, task: Task) -> None:
        job, index = task
        made = Program(
            PROGRAM,
            *self._arguments,
            f"--job_name={job}",
            f"--task_index={index}",
            f"--life={self._lives[task]}",
        )
        self._lives[task] += 1
        self.tasks[task] = self._stack.enter_context(made)
        self.outputs.append(made)

    def rage(self, faults: tuple[str, ...]) -> None:
        """Causes one fault after another."""
        for program in self.tasks.values():
            program.wait_for("^UP")
        end = time.monotonic() + STORM_S
        while time.monotonic() < end:
            time.sleep(self._random.choice(PAUSES_S))
            task = self._random.choice(list(self.tasks))
            program = self.tasks[task]
            assert program.process.poll() is None, program.output[-3000:]
            match self._random.choice(faults):
                case "kill worker" if task[0] == "worker":
                    self._kill(task)
                case "kill ps":
                    self._kill(("ps", 0))
                case "stop":
                    program.send(signal.SIGSTOP)
                    time.sleep(self._random.choice(STOPS_S))
                    program.send(signal.SIGCONT)
                case "cut":
                    program.send(signal.SIGUSR1)
                case "interrupt" if task[0] == "worker":
                    program.send(signal.SIGINT)

    def _kill(self, task: Task) -> None:
        self.tasks[task].kill()
        time.sleep(self._random.random())
        self._start(task)
        self.tasks[task].wait_for("^UP")

    def end(self) -> dict[str, int]:
        """Lets the workers end by themselves; returns what the parameter server holds then."""
        time.sleep(CALM_S)
        (self._folder / "stop").touch()
        for (job, _), program in self.tasks.items():
            if job == "worker":
                assert program.end(END_S) == 0, program.output[-5000:]
        ps = self.tasks["ps", 0]
        ps.send(signal.SIGUSR2)
        state: dict[str, int] = json.loads(ps.wait_for("^STATE (.*)")[1])
        return state

    def said(self, pattern: str) -> list[str]:
        """Returns the lines of all programs that match a pattern."""
        return [
            line
            for program in self.outputs
            for line in program.output.splitlines()
            if re.search(pattern, line)
        ]


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    before = set(Path("/dev/shm").iterdir())
    with ExitStack() as made:
        yield made
    assert set(Path("/dev/shm").iterdir()) <= before


@pytest.mark.parametrize(
    "faults",
    [("cut", "stop"), ("kill worker", "cut", "interrupt"), ("kill ps", "cut", "stop", "interrupt")],
    ids=["cuts", "workers", "ps"],
)
def test_queues_and_accumulators_of_workers(
    stack: ExitStack, tmp_path: Path, faults: tuple[str, ...]
) -> None:
    storm = Storm(stack, tmp_path, "queues", len(faults))
    storm.rage(faults)
    state = storm.end()
    assert storm.said("WRONG|HANG|Traceback") == []
    assert state["steps"] == 0
    assert state["descriptors"] < 60
    assert state["threads"] < 60
    taken = Counter((tmp_path / "ids").read_text("utf-8").split())
    assert len(taken) > 100
    assert [number for number, count in taken.items() if count > 1] == []


@pytest.mark.parametrize("faults", [("cut", "stop", "interrupt"), ("kill worker", "cut", "stop")])
def test_replicas_in_step(stack: ExitStack, tmp_path: Path, faults: tuple[str, ...]) -> None:
    storm = Storm(stack, tmp_path, "sync", len(faults))
    storm.rage(faults)
    time.sleep(CALM_S)
    (tmp_path / "stop").touch()
    chief = storm.tasks["worker", 0]
    count, different, steps = json.loads(chief.wait_for("^END (.*)", END_S)[1])
    assert steps > 50
    assert (-count, different) == (steps, 1)
    assert storm.said("WRONG|HANG") == []

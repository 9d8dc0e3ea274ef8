"""F11: exceptions and Ctrl-C at random moments, in a script and in a notebook's kernel.

The user sees the original error with its own traceback, and within seconds nothing of the training
is left: no process, no port, no file.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from support import event_loops
from support.interrupts import KINDS
from support.processes import END_S
from support.rounds import rounds_of
from support.terminals import plain

PROGRAM = Path(__file__).with_name("interrupts_program.py")
# The maximum duration of a round, on a machine that is busy with other things.
ROUND_S = 60.0


def environment(folder: Path) -> dict[str, str]:
    path = os.pathsep.join(each for each in sys.path if each)
    return {**os.environ, "PYTHONPATH": path, "TMPDIR": str(folder), "INTERRUPTS": str(folder)}


def in_a_script(folder: Path, kinds: list[str], seed: int) -> list[dict[str, Any]]:
    done = subprocess.run(
        [sys.executable, str(PROGRAM), str(folder), str(seed), *kinds],
        capture_output=True,
        text=True,
        timeout=60 + ROUND_S * len(kinds),
        check=False,
        start_new_session=True,
        env=environment(folder),
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


class Kernel:
    """A notebook's kernel that runs endless trainings."""

    def __init__(self, folder: Path, seed: int) -> None:
        from jupyter_client.manager import start_new_kernel

        self._random = random.Random(seed)
        self.manager, self.client = start_new_kernel(
            kernel_name="python3", startup_timeout=120, env=environment(folder)
        )
        self.run(
            "import json\n"
            "from support.interrupts import Rounds\n"
            f"rounds = Rounds({str(folder)!r}, {seed})"
        )

    def run(self, code: str, interrupt_after_s: float | None = None) -> tuple[dict[str, Any], str]:
        """Executes a cell; returns the reply, and its output."""
        written: list[str] = []

        def hear(message: dict[str, Any]) -> None:
            if message["msg_type"] == "stream" and message["content"]["name"] == "stdout":
                written.append(message["content"]["text"])

        timer = threading.Timer(interrupt_after_s or 0, self.manager.interrupt_kernel)
        if interrupt_after_s is not None:
            timer.start()
        reply = self.client.execute_interactive(code, output_hook=hear, timeout=ROUND_S * 2)
        content = reply["content"]
        if interrupt_after_s is None and "endless" not in code:
            assert content["status"] == "ok", content
        return content, "".join(written)

    def end_one(self, kind: str) -> dict[str, Any]:
        moment_s = float(self.run("print(rounds.moment())")[1]) if kind == "ctrl-c" else None
        ended, _ = self.run(f"rounds.endless({kind!r})", moment_s)
        left = json.loads(self.run("print(json.dumps(rounds.left()))")[1])
        trace = "\n".join(ended.get("traceback", ()))
        error, text = ended.get("ename"), ended.get("evalue")
        return {"kind": kind, "error": error, "text": text, "trace": trace, **left}

    def close(self) -> None:
        self.run("rounds.close()")
        self.client.stop_channels()
        self.manager.shutdown_kernel()


@pytest.fixture
def kernel(tmp_path: Path) -> Iterator[Kernel]:
    pytest.importorskip("ipykernel")
    with event_loops.closed_afterwards():
        kernel = Kernel(tmp_path, seed=1)
        yield kernel
        kernel.close()


def check(found: dict[str, Any]) -> None:
    """Checks that the error is the original one, and that nothing is left."""
    kind = found["kind"]
    assert found["processes"] == [], found
    assert found["left"] == [], found
    assert found["seconds"] < END_S, found
    if kind == "ctrl-c":
        assert found["error"] == "KeyboardInterrupt", found
    elif kind == "worker":  # raised elsewhere; the text contains the traceback from there
        assert found["error"] == "SparkTrainingError", found
        assert "BoomError: boom in a worker" in found["text"], found
        assert "_failing_worker" in found["text"], found
    else:
        assert found["error"] == "BoomError", found
        assert "boom in" in found["text"], found
        assert "in boom" in plain(found["trace"]), found


@pytest.mark.timeout(400)
def test_a_script_sees_what_was_raised_and_nothing_is_left(tmp_path: Path) -> None:
    found = in_a_script(tmp_path, list(KINDS), seed=3)
    assert len(found) == len(KINDS)
    for each in found:
        check(each)


@pytest.mark.nightly
@pytest.mark.timeout(400)
def test_a_notebook_sees_what_was_raised_and_nothing_is_left(kernel: Kernel) -> None:
    check(kernel.end_one("ctrl-c"))


def rounds(count: int) -> list[str]:
    return [KINDS[index % 4] if index % 2 else "ctrl-c" for index in range(count)]


@pytest.mark.nightly
@pytest.mark.timeout(120 + ROUND_S * rounds_of(70))
def test_random_moments_in_a_script(tmp_path: Path, record_property: Any) -> None:
    found = in_a_script(tmp_path, rounds(rounds_of(70)), seed=11)
    _record(found, record_property)
    assert len(found) == rounds_of(70)
    for each in found:
        check(each)


@pytest.mark.nightly
@pytest.mark.timeout(300 + ROUND_S * rounds_of(30))
def test_random_moments_in_a_notebook(kernel: Kernel, record_property: Any) -> None:
    found = [kernel.end_one(kind) for kind in rounds(rounds_of(30))]
    _record(found, record_property)
    for each in found:
        check(each)


def _record(found: list[dict[str, Any]], record_property: Any) -> None:
    seconds = sorted(each["seconds"] for each in found)
    text = {
        "rounds": len(found),
        "seconds until nothing is left, median": round(seconds[len(seconds) // 2], 2),
        "most": round(seconds[-1], 2),
    }
    record_property("found", text)
    print(json.dumps(text))

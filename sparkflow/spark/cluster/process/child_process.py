"""The Spark task's side of its child process: start, communication and end."""

from __future__ import annotations

import functools
import json
import socket
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import IO, Any, Final

from sparkflow.spark.cluster.process.fork_server import TRAINING
from sparkflow.spark.cluster.process.forking import started
from sparkflow.spark.cluster.process.piped_process import PipedProcess, Start, describe_exit
from sparkflow.spark.cluster_layout import TaskName

_TAIL_LINES = 40
_START: Final[Start] = functools.partial(started, TRAINING)

OnLine = Callable[[str], None]
OnEvent = Callable[[Mapping[str, Any]], None]


@dataclass(frozen=True, slots=True)
class Silence:
    """When a silent child is killed; it sends a message every second.

    Attributes:
        stopped_s: The seconds of silence, if the kernel has stopped it.
        hung_s: The seconds of silence in any case: native code may hold the GIL for long.
        look_s: The seconds between two checks.
    """

    stopped_s: float = 6.0
    hung_s: float = 120.0
    look_s: float = 1.0


class ChildProcess:
    """The child process of one task. `send` may be called from any thread.

    It is killed when the thread that started it ends, so that thread must live as long.

    Args:
        name: The task.
        config: Written to the child's stdin, because others can read arguments.
        environment: The environment of the child.
        on_line: Receives its output on stderr and stdout, line by line.
        on_event: Receives its messages.
        start: Starts it with the environment.
        silence: When a silent child is killed.
    """

    def __init__(
        self,
        name: TaskName,
        config: Mapping[str, Any],
        environment: Mapping[str, str],
        on_line: OnLine,
        on_event: OnEvent,
        start: Start = _START,
        silence: Silence | None = None,
    ) -> None:
        self._name = name
        self._silence = silence or Silence()
        self._heard = time.monotonic()
        self._stood_still_s = 0.0
        self._on_event = on_event
        self._process = PipedProcess(name, start(environment), self._read_events, on_line)
        with self._process.ended_on_error():
            self.send(config)

    def send(self, message: Mapping[str, Any]) -> None:
        """Writes a line to the child's stdin; does nothing if it has ended (see `wait`)."""
        self._process.write(json.dumps(message).encode() + b"\n")

    def wait(self) -> int:
        """Blocks until the child ends; returns its exit code, or the negative number of a signal.

        A silent child is killed: others wait for it, and it must not continue later.
        """
        while True:
            try:
                code = self._process.wait(self._silence.look_s)
                break
            except subprocess.TimeoutExpired:
                self._end_if_silent()
        self._process.wait_for_all()
        return code

    def _end_if_silent(self) -> None:
        silent_s = time.monotonic() - self._heard
        limit_s = (
            self._silence.stopped_s if _is_stopped(self._process.pid) else self._silence.hung_s
        )
        if silent_s > limit_s:
            self._stood_still_s = silent_s
            self._process.kill()

    def describe_end(self, code: int) -> str:
        """Returns how it ended, with its last output."""
        how = describe_exit(code)
        if self._stood_still_s:
            how = (
                f"stood still for {self._stood_still_s:.0f} s (it was stopped, for instance by "
                "SIGSTOP or a frozen container, or hung) and was killed for it"
            )
        text = f"The process of {self._name} on {socket.gethostname()} {how}"
        if tail := self._process.tail(_TAIL_LINES):
            text += ". Its last words:\n" + tail.rstrip()
        return text

    def kill(self) -> None:
        """Ends the child at once; does not wait for it."""
        self._process.kill()

    def end(self) -> None:
        """Ends the child if it is still running. May be called more than once."""
        self._process.end()

    def _read_events(self, stdout: IO[bytes]) -> None:
        for line in stdout:
            self._heard = time.monotonic()
            event = json.loads(line)
            if event["event"] != "pulse":
                self._on_event(event)


def _is_stopped(pid: int) -> bool:
    """Returns whether the kernel has stopped a process, by a signal or a debugger."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            return file.read().rpartition(")")[2].split()[0] in "Tt"
    except OSError:
        return False  # it has ended

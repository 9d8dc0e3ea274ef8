"""A task's child process as the Spark task sees it: started, spoken to, heard, ended."""

from __future__ import annotations

import contextlib
import json
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import IO, Any

from sparkflow.spark.cluster_layout import TaskName

_TAIL_LINES = 40
# The child ends by itself when its input ends; it is killed only if it does not.
_END_TIMEOUT_S = 5.0

OnLine = Callable[[str], None]
OnEvent = Callable[[Mapping[str, Any]], None]


@dataclass(frozen=True, slots=True)
class Silence:
    """When a child that is not heard of is killed; it says something every second.

    Attributes:
        stopped_s: After so many seconds, if the kernel has stopped it.
        hung_s: After so many seconds in any case: native code may hold Python's lock for long.
        look_s: How often it is looked at.
    """

    stopped_s: float = 6.0
    hung_s: float = 120.0
    look_s: float = 1.0


class ChildProcess:
    """The child process of one task. `send` may be called from any thread.

    It is killed when the thread that starts it ends, so that one has to last as long.

    Args:
        name: The task.
        config: Goes to the child's stdin, because others can read arguments.
        environment: Of the child.
        on_line: Gets what it writes to stderr and stdout, line by line.
        on_event: Gets what it tells of itself.
        module: What it runs.
        silence: When a child that stands still is killed.
    """

    def __init__(
        self,
        name: TaskName,
        config: Mapping[str, Any],
        environment: Mapping[str, str],
        on_line: OnLine,
        on_event: OnEvent,
        module: str = "sparkflow.spark.cluster.child",
        silence: Silence | None = None,
    ) -> None:
        self._name = name
        self._silence = silence or Silence()
        self._heard = time.monotonic()
        self._stood_still_s = 0.0
        self._process = subprocess.Popen(
            [sys.executable, "-m", module],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=dict(environment),
            text=True,
            encoding="utf-8",
            errors="replace",
        )
        self._tail: deque[str] = deque(maxlen=_TAIL_LINES)
        self._on_line = on_line
        self._on_event = on_event
        self._readers = [
            threading.Thread(target=read, args=(stream,), daemon=True)
            for read, stream in (
                (self._read_lines, self._process.stderr),
                (self._read_events, self._process.stdout),
            )
        ]
        for reader in self._readers:
            reader.start()
        self.send(config)

    def send(self, message: Mapping[str, Any]) -> None:
        """Writes one line to the child's stdin; nothing if it has ended, which `wait` tells."""
        stdin = self._process.stdin
        assert stdin is not None
        with contextlib.suppress(BrokenPipeError, ValueError):  # ValueError: `end` has closed it
            stdin.write(json.dumps(message) + "\n")
            stdin.flush()

    def wait(self) -> int:
        """Blocks until the child ends; its exit code, or the negative number of a signal.

        One that stands still is killed: others wait for it, and it may not go on later.
        """
        while True:
            try:
                code = self._process.wait(self._silence.look_s)
                break
            except subprocess.TimeoutExpired:
                self._end_if_silent()
        for reader in self._readers:
            reader.join(_END_TIMEOUT_S)
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
        """How it ended, and what it said last."""
        how = describe_exit(code)
        if self._stood_still_s:
            how = (
                f"stood still for {self._stood_still_s:.0f} s (it was stopped, for instance by "
                "SIGSTOP or a frozen container, or hung) and was killed for it"
            )
        text = f"The process of {self._name} on {socket.gethostname()} {how}"
        if self._tail:
            text += ". Its last words:\n" + "".join(self._tail).rstrip()
        return text

    def kill(self) -> None:
        """Ends the child at once; does not wait for it."""
        self._process.kill()

    def end(self) -> None:
        """Ends the child if it is there still. May be called more than once."""
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # it has ended already
            self._process.stdin.close()
        try:
            self._process.wait(_END_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        for reader in self._readers:
            reader.join(_END_TIMEOUT_S)
        for stream in (self._process.stdout, self._process.stderr):
            if stream is not None:
                stream.close()

    def _read_lines(self, stderr: IO[str]) -> None:
        for line in stderr:
            self._tail.append(line)
            # Spark keeps what its workers write to stderr in the executor's log.
            sys.stderr.write(f"[{self._name}] {line}")
            sys.stderr.flush()
            self._on_line(line)

    def _read_events(self, stdout: IO[str]) -> None:
        for line in stdout:
            self._heard = time.monotonic()
            event = json.loads(line)
            if event["event"] != "pulse":
                self._on_event(event)


def _is_stopped(pid: int) -> bool:
    """Whether the kernel has stopped a process, by a signal or a debugger."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            return file.read().rpartition(")")[2].split()[0] in "Tt"
    except OSError:
        return False  # it has ended


def describe_exit(code: int) -> str:
    """`exited with code 1`, or the signal that killed it, from a Popen return code."""
    if code >= 0:
        return f"exited with code {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = "unknown"
    hint = ", for instance because the machine ran out of memory" if name == "SIGKILL" else ""
    return f"was killed by signal {-code} ({name}){hint}"

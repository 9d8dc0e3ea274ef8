"""Programs in separate processes: their lines can be awaited, and they can be killed."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Final

from support.tied import tied

LINE_TIMEOUT_S: Final = 60.0
_END_TIMEOUT_S: Final = 10.0


def free_ports(count: int) -> list[int]:
    """Returns distinct ports of 127.0.0.1 that were free a moment ago."""
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


def outcomes(path: Path, *arguments: object, timeout_s: float) -> list[Any]:
    """Returns the JSON objects that a Python program prints, one per line, once it has succeeded.

    Args:
        path: The program, which may import what this process can.
        arguments: Its arguments.
        timeout_s: The time limit.

    Raises:
        CalledProcessError: It failed.
        TimeoutExpired: It did not end in time, and was killed.
    """
    said = subprocess.run(
        tied([sys.executable, str(path), *map(str, arguments)]),
        stdout=subprocess.PIPE,
        text=True,
        timeout=timeout_s,
        check=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
    ).stdout
    return [json.loads(line) for line in said.splitlines() if line.startswith("{")]


class Program:
    """A running Python program. For one thread; a context manager that ends the process.

    A separate thread reads the program's output, so that it never blocks. `_changed` guards
    `_lines` and `_over`.

    Args:
        path: The program.
        arguments: Its arguments.
        environment: Added to this process's environment.
    """

    def __init__(
        self, path: Path, *arguments: str, environment: Mapping[str, str] | None = None
    ) -> None:
        self._name = " ".join([path.name, *arguments])
        self._changed = threading.Condition()
        self._lines: list[str] = []
        self._over = False
        self._next = 0
        self.process = subprocess.Popen(
            tied([sys.executable, "-u", str(path), *arguments]),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**os.environ, **(environment or {})},
        )
        self._reader = threading.Thread(target=self._read, name="program-output", daemon=True)
        self._reader.start()

    def __enter__(self) -> Program:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Ends the process with SIGTERM, or with SIGKILL if that does not help."""
        self.process.terminate()
        try:
            self.process.wait(_END_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.kill()
        self._reader.join(_END_TIMEOUT_S)

    @property
    def output(self) -> str:
        """The whole output so far."""
        with self._changed:
            return "".join(self._lines)

    def wait_for(self, pattern: str, timeout_s: float = LINE_TIMEOUT_S) -> re.Match[str]:
        """Returns the match in the first line with `pattern` after those already waited for.

        Raises:
            AssertionError: The program ended, or the time passed, without such a line.
        """
        deadline = time.monotonic() + timeout_s
        with self._changed:
            while True:
                while self._next < len(self._lines):
                    found = re.search(pattern, self._lines[self._next])
                    self._next += 1
                    if found:
                        return found
                left_s = deadline - time.monotonic()
                if self._over or left_s <= 0:
                    how = "ended" if self._over else f"ran for {timeout_s:g} s"
                    raise AssertionError(
                        f"{self._name} {how} without {pattern!r}:\n{''.join(self._lines)[-3000:]}"
                    )
                self._changed.wait(left_s)

    def send(self, number: signal.Signals) -> None:
        """Sends a signal."""
        self.process.send_signal(number)

    def kill(self) -> None:
        """Ends the process with SIGKILL; returns when it has ended."""
        self.process.kill()
        self.process.wait(_END_TIMEOUT_S)

    def end(self, timeout_s: float = LINE_TIMEOUT_S) -> int:
        """Waits until the program ends by itself; returns its exit status, -N for signal N.

        Raises:
            AssertionError: It did not end.
        """
        try:
            status = self.process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            raise AssertionError(
                f"{self._name} did not end in {timeout_s:g} s:\n{self.output[-3000:]}"
            ) from None
        self._reader.join(_END_TIMEOUT_S)
        return status

    def _read(self) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as lines:
            for line in lines:
                with self._changed:
                    self._lines.append(line)
                    self._changed.notify_all()
        with self._changed:
            self._over = True
            self._changed.notify_all()

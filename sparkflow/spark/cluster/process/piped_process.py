"""A child process with pipes: input, output and end."""

from __future__ import annotations

import contextlib
import io
import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from typing import IO, Any, Final, Protocol

from sparkflow.spark.cluster_layout import TaskName

KEPT_LINES: Final = 1000
"""The number of last lines on stderr to keep."""
END_TIMEOUT_S: Final = 5.0
"""The time to end by itself after its input is closed, before it is killed."""


class Process(Protocol):
    """The part of `subprocess.Popen` that is used; None stands for no pipe."""

    @property
    def pid(self) -> int: ...  # noqa: D102
    @property
    def stdin(self) -> IO[bytes] | None: ...  # noqa: D102
    @property
    def stdout(self) -> IO[bytes] | None: ...  # noqa: D102
    @property
    def stderr(self) -> IO[bytes] | None: ...  # noqa: D102
    def wait(self, timeout: float | None = None) -> int: ...  # noqa: D102
    def kill(self) -> None: ...  # noqa: D102


Start = Callable[[Mapping[str, str]], Process]
"""Starts a process with an environment."""


def executed(module: str, environment: Mapping[str, str]) -> Process:
    """Starts Python with a module, and with pipes for input, output and errors."""
    return subprocess.Popen(
        [sys.executable, "-m", module],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=dict(environment),
    )


class PipedProcess:
    """Communicates with a process of a task. `write` may be called from any thread.

    Its stderr is forwarded to ours, prefixed with the task's name, which Spark keeps in the
    executor's log. Its stdout is a channel to us.

    Args:
        name: The task.
        process: The process, just started.
        read: Reads its stdout to the end, in a separate thread.
        on_line: Receives each line of its stderr.
    """

    def __init__(
        self,
        name: TaskName,
        process: Process,
        read: Callable[[IO[bytes]], None],
        on_line: Callable[[str], None] | None = None,
    ) -> None:
        self._name = name
        self._on_line = on_line
        self._lines: deque[str] = deque(maxlen=KEPT_LINES)
        self._process = process
        try:
            self._line_reader = _started(self._read_lines)
            self._output_reader = _started(self._read_output, read)
        except BaseException:  # the system may have no more threads
            process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout, process.stderr):
                assert pipe is not None
                pipe.close()
            raise

    @property
    def pid(self) -> int:
        """The id of the process."""
        return self._process.pid

    @property
    def lines(self) -> list[str]:
        """The last lines that it wrote to stderr."""
        return list(self._lines)

    def tail(self, count: int) -> str:
        """The number of these lines."""
        return "\n".join(self.lines[-count:])

    def write(self, data: bytes) -> None:
        """Writes to its stdin; does nothing if it has ended, which `wait` reports."""
        stdin = self._process.stdin
        assert stdin is not None
        with contextlib.suppress(BrokenPipeError, ValueError):  # ValueError: `end` has closed it
            stdin.write(data)
            stdin.flush()

    def wait(self, timeout_s: float | None = None) -> int:
        """Blocks until it ends; returns its exit code, or the negative number of a signal.

        Raises:
            subprocess.TimeoutExpired: It is still running.
        """
        return self._process.wait(timeout_s)

    def wait_for_all(self) -> None:
        """Blocks until its output was read, at most for the timeout: its children may continue."""
        self.wait_for_lines()
        self._output_reader.join(END_TIMEOUT_S)

    def wait_for_output(self) -> None:
        """Blocks until its stdout was read to the end."""
        self._output_reader.join()

    def wait_for_lines(self, timeout_s: float = END_TIMEOUT_S) -> None:
        """Blocks until its stderr was read to the end, at most for the timeout."""
        self._line_reader.join(timeout_s)

    def kill(self) -> None:
        """Ends it at once; does not wait for it."""
        self._process.kill()

    @contextlib.contextmanager
    def ended_on_error(self) -> Iterator[None]:
        """Ends it if the block fails: for constructors that start it and fail later."""
        try:
            yield
        except BaseException:
            self.kill()
            self.end()
            raise

    def end(self) -> None:
        """Ends it if it is still running, and waits for it. May be called more than once."""
        stdin = self._process.stdin
        assert stdin is not None
        with contextlib.suppress(OSError):  # it has ended already
            stdin.close()
        try:
            self._process.wait(END_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self.wait_for_all()  # no longer: its own children may keep the pipes open

    def _read_output(self, read: Callable[[IO[bytes]], None]) -> None:
        stdout = self._process.stdout
        assert stdout is not None
        with stdout:
            read(stdout)

    def _read_lines(self) -> None:
        stderr = self._process.stderr
        assert stderr is not None
        # Carriage returns end lines as well: progress bars may not write a newline for hours.
        with io.TextIOWrapper(stderr, "utf-8", "replace") as lines:
            for line in lines:
                self._lines.append(line.rstrip("\n"))
                sys.stderr.write(f"[{self._name}] {line}")
                sys.stderr.flush()
                if self._on_line is not None:
                    self._on_line(line)


def _started(target: Callable[..., None], *args: Any) -> threading.Thread:
    thread = threading.Thread(target=target, args=args, daemon=True)
    thread.start()
    return thread


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

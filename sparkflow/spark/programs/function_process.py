"""The process of a function in a task, as its Spark task sees it."""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import signal
import struct
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any, Final

from sparkflow.spark.cluster_layout import TaskName
from sparkflow.spark.errors import SparkTrainingError

SIZE: Final = struct.Struct("<Q")
RETURNED, RAISED = b"r", b"e"
_KEPT_LINES: Final = 1000
_SHOWN_LINES: Final = 40
_END_TIMEOUT_S: Final = 5.0
_LAST_LINES_S: Final = 0.5


class FunctionProcess:
    """Runs `function_child`. It ends with this process, whatever happens.

    Args:
        name: The task.
        work: The pickled function and its arguments.
        environment: Of the process.
        rows: What `HostedRows` is told of the rows of datasets.

    Attributes:
        lines: What it wrote last, to stdout or stderr.
    """

    def __init__(
        self,
        name: TaskName,
        work: bytes,
        environment: Mapping[str, str],
        rows: Sequence[Mapping[str, Any]] = (),
    ) -> None:
        self._name = name
        self._lines: deque[str] = deque(maxlen=_KEPT_LINES)
        self._process = subprocess.Popen(
            [sys.executable, "-m", "sparkflow.spark.programs.function_child"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=dict(environment),
        )
        self._answer = b""
        self._line_reader = threading.Thread(target=self._read_lines, daemon=True)
        self._answer_reader = threading.Thread(target=self._read_answer, daemon=True)
        self._line_reader.start()
        self._answer_reader.start()
        stdin = self._process.stdin
        assert stdin is not None
        with contextlib.suppress(BrokenPipeError):  # `result` tells what became of it
            worker = name.index if name.job == "worker" else None
            hosted = json.dumps({"worker": worker, "rows": list(rows)}).encode()
            for part in (hosted, work):
                stdin.write(SIZE.pack(len(part)) + part)
            stdin.flush()

    @property
    def lines(self) -> list[str]:
        """See the class."""
        return list(self._lines)

    def result(self) -> object:
        """Blocks until the function returns; what it returned.

        Raises:
            SparkTrainingError: It raised, or its process ended; with traceback and last lines.
        """
        self._answer_reader.join()
        answer = self._answer
        code = 0
        if not answer:
            code = self._process.wait()
            self._line_reader.join(_END_TIMEOUT_S)
        elif answer.startswith(RAISED):
            self._line_reader.join(_LAST_LINES_S)
        tail = "\n".join(list(self._lines)[-_SHOWN_LINES:])
        written = f"\nIts last lines:\n{tail}" if tail else ""
        if answer.startswith(RETURNED):
            # Its process goes on: others may need a server that the function has started.
            # Of our own child, through a pipe.
            return pickle.loads(answer[len(RETURNED) :])  # noqa: S301
        if answer.startswith(RAISED):
            raise SparkTrainingError(
                answer[len(RAISED) :].decode("utf-8", "replace").strip() + written
            )
        how = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
        raise SparkTrainingError(
            f"The process of the function ended with {how} before it returned{written}"
        )

    def end(self) -> None:
        """Ends the process, and waits until it has."""
        stdin = self._process.stdin
        assert stdin is not None
        with contextlib.suppress(OSError):
            stdin.close()
        try:
            self._process.wait(_END_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        # Processes that the function has started may hold the pipes open.
        self._line_reader.join(_END_TIMEOUT_S)
        self._answer_reader.join(_END_TIMEOUT_S)

    def _read_answer(self) -> None:
        stdout = self._process.stdout
        assert stdout is not None
        with stdout:
            self._answer = stdout.read()

    def _read_lines(self) -> None:
        stderr = self._process.stderr
        assert stderr is not None
        with stderr:
            for line in stderr:
                text = line.decode("utf-8", "replace")
                os.write(2, f"[{self._name}] {text}".encode())
                self._lines.append(text.rstrip("\n"))

"""The child process of a Spark task that runs a function."""

from __future__ import annotations

import functools
import json
import pickle
import struct
from collections.abc import Mapping, Sequence
from typing import IO, Any, Final

from sparkflow.spark.cluster.process.fork_server import FUNCTION
from sparkflow.spark.cluster.process.forking import started
from sparkflow.spark.cluster.process.piped_process import PipedProcess, Start, describe_exit
from sparkflow.spark.cluster_layout import TaskName
from sparkflow.spark.errors import SparkTrainingError

SIZE: Final = struct.Struct("<Q")
RETURNED, RAISED = b"r", b"e"
_SHOWN_LINES: Final = 40
_LAST_LINES_S: Final = 0.5
_START: Final[Start] = functools.partial(started, FUNCTION)


class FunctionError(SparkTrainingError):
    """A function raised, or its process ended before it had returned.

    Args:
        text: The message for the user.
        error_type: The class name of the raised exception; "" if none was raised.
    """

    def __init__(self, text: str, error_type: str = "") -> None:
        super().__init__(text)
        self.error_type = error_type


class FunctionProcess:
    """Runs `function_child`. The child ends with this process in any case.

    Args:
        name: The task.
        work: The pickled function and its arguments.
        environment: The environment of the child.
        rows: The description of the datasets' rows for `HostedRows`.
        start: Starts it with the environment.

    Attributes:
        lines: The last lines that it wrote to stdout or stderr.
    """

    def __init__(
        self,
        name: TaskName,
        work: bytes,
        environment: Mapping[str, str],
        rows: Sequence[Mapping[str, Any]] = (),
        start: Start = _START,
    ) -> None:
        self._answer = b""
        self._process = PipedProcess(name, start(environment), self._read_answer)
        worker = name.index if name.job == "worker" else None
        with self._process.ended_on_error():
            hosted = json.dumps({"worker": worker, "rows": list(rows)}).encode()
            for part in (hosted, work):  # `result` reports how it ended
                self._process.write(SIZE.pack(len(part)) + part)

    @property
    def lines(self) -> list[str]:
        """See the class."""
        return self._process.lines

    def result(self) -> object:
        """Blocks until the function returns, and returns its result.

        Raises:
            FunctionError: It raised, or its process ended; contains the traceback and last lines.
        """
        self._process.wait_for_output()
        answer = self._answer
        code = 0
        if not answer:
            code = self._process.wait()
            self._process.wait_for_lines()
        elif answer.startswith(RAISED):
            self._process.wait_for_lines(_LAST_LINES_S)
        tail = self._process.tail(_SHOWN_LINES)
        written = f"\nIts last lines:\n{tail}" if tail else ""
        if answer.startswith(RETURNED):
            # Its process continues: others may need a server that the function has started.
            # Of our own child, through a pipe.
            return pickle.loads(answer[len(RETURNED) :])  # noqa: S301
        if answer.startswith(RAISED):
            error_type, text = answer[len(RAISED) :].decode("utf-8", "replace").split("\n", 1)
            raise FunctionError(text.strip() + written, error_type)
        raise FunctionError(
            f"The process of the function {describe_exit(code)}; it had not returned{written}"
        )

    def end(self) -> None:
        """Ends the process and waits for its exit."""
        self._process.end()

    def _read_answer(self, stdout: IO[bytes]) -> None:
        self._answer = stdout.read()

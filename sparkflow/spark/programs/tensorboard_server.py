"""TensorBoard's server as a child process of a program."""

from __future__ import annotations

import json
import logging
import os
import threading
from typing import IO, Final

from sparkflow.spark.cluster.process.piped_process import PipedProcess, executed
from sparkflow.spark.cluster_layout import TaskName
from sparkflow.spark.errors import SparkTrainingError
from sparkflow_runtime.errors import require_package
from sparkflow_runtime.security.tokens import is_loopback

_log = logging.getLogger(__name__)

LOOPBACK: Final = "127.0.0.1"
_START_S: Final = 60.0


class TensorBoardServer:
    """Shows the event files below a folder until `close` or the end of this process.

    It has no authentication: on loopback every user of the machine can read it, otherwise everyone
    who can reach the port.

    Args:
        folder: A local path, or a URI that TensorBoard reads.
        host: The address to listen on.
        port: The port; 0 for any free one.

    Attributes:
        url: Its address.

    Raises:
        ImportError: TensorBoard is not installed.
        SparkTrainingError: It does not start; contains its output.
    """

    def __init__(self, folder: str, host: str = LOOPBACK, port: int = 0) -> None:
        require_package("cluster.tensorboard", "tensorboard", "tensorboard")
        if not is_loopback(host):
            _log.warning(
                "TensorBoard listens on %s without authentication: everyone who can reach it can "
                "read all files below %s",
                host,
                folder,
            )
        self._answer: dict[str, str] = {}
        self._answered = threading.Event()
        self._process = PipedProcess(
            TaskName("tensorboard", 0),
            executed("sparkflow.spark.programs.tensorboard_child", os.environ),
            self._read,
        )
        asked = {"folder": folder, "host": host, "port": port}
        with self._process.ended_on_error():
            self._process.write(json.dumps(asked).encode() + b"\n")
            self._answered.wait(_START_S)
            if "url" not in self._answer:
                self._process.kill()
                self._process.end()  # it has written all its output
                why = self._answer.get("error") or self._process.tail(10) or "it said nothing"
                raise SparkTrainingError(f"TensorBoard for {folder} did not start: {why}")
        self.url = self._answer["url"]

    def close(self) -> None:
        """Ends it and waits for its exit. May be called more than once."""
        self._process.end()

    def _read(self, stdout: IO[bytes]) -> None:
        line = stdout.readline()
        if line:
            self._answer = json.loads(line)
        self._answered.set()
        stdout.read()

"""How tasks find the chief without a barrier stage: through a file that all executors can read.

The file contains an address, to which tasks send the job's token. It is therefore signed with the
token: write access to the directory alone does not suffice to redirect tasks. After training the
file contains no address, because a task that Spark restarts must not look for a chief that has
ended. The client removes the file when no task can start any more.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import threading
import time
from typing import Final

from sparkflow.spark.errors import SparkTrainingError
from sparkflow.spark.storage.checkpoint_files import CheckpointFiles, PathFiles
from sparkflow_runtime.errors import NotFoundError

_NAME: Final = "address"
_POLL_S: Final = 0.5

OVER: Final = ""
"""Replaces the address when training is over."""


def publish(directory: str, token: str, address: str, files: CheckpointFiles | None = None) -> None:
    """Writes the chief's address.

    Args:
        directory: A directory for this job only; it is created.
        token: The job's token.
        address: `host:port`.
        files: The storage.
    """
    files = files or PathFiles()
    files.make_dirs(directory)
    _write(directory, token, address, files)


def tell_over(directory: str, token: str, files: CheckpointFiles | None = None) -> None:
    """Makes tasks that look for the chief from now on find that training is over.

    Args:
        directory: Where the chief's address has been published.
        token: The job's token.
        files: The storage.
    """
    _write(directory, token, OVER, files or PathFiles())


def is_published(directory: str, files: CheckpointFiles | None = None) -> bool:
    """Whether a chief has written its address, even if it is gone."""
    try:
        (files or PathFiles()).read(f"{directory}/{_NAME}")
    except NotFoundError:
        return False
    return True


def find(directory: str, token: str, timeout_s: float, files: CheckpointFiles | None = None) -> str:
    """Waits for the chief's address and returns it; `OVER` if training is over.

    Raises:
        SparkTrainingError: There is none within `timeout_s` seconds, or it is that of another job.
    """
    files = files or PathFiles()
    deadline = time.monotonic() + timeout_s
    pause = threading.Event()
    while True:
        try:
            return _read(files.read(f"{directory}/{_NAME}"), token, directory)
        except NotFoundError:
            if time.monotonic() > deadline:
                raise SparkTrainingError(
                    f"The task that leads the training has not written its address to {directory} "
                    f"within {timeout_s:g} s (startTimeout): it is not running yet, or this "
                    "executor cannot reach that directory. Without a barrier stage "
                    "checkpointDir, or the Spark setting spark.sparkflow.sharedDir, must be on "
                    "storage of all executors"
                ) from None
        pause.wait(_POLL_S)


def end(directory: str, files: CheckpointFiles | None = None) -> None:
    """Removes the directory after the last task has read it."""
    (files or PathFiles()).remove_tree(directory)


def _write(directory: str, token: str, address: str, files: CheckpointFiles) -> None:
    text = json.dumps({"address": address, "signature": _signature(token, address)})
    files.write_whole(f"{directory}/{_NAME}", text.encode())


def _read(content: bytes, token: str, directory: str) -> str:
    try:
        found = json.loads(content)
        address, signature = str(found["address"]), str(found["signature"])
    except (ValueError, KeyError, TypeError):
        raise SparkTrainingError(f"{directory}/{_NAME} was not written by a task") from None
    if not hmac.compare_digest(signature.encode(), _signature(token, address).encode()):
        raise SparkTrainingError(
            f"The address in {directory}/{_NAME} has not been written by a task of this job"
        )
    return address


def _signature(token: str, address: str) -> str:
    return hmac.new(token.encode(), address.encode(), hashlib.sha256).hexdigest()

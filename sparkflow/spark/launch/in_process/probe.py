"""Checks by a task whether a session's Python workers may open sockets and start processes."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import sys
import weakref
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

import pyarrow as pa

from sparkflow.spark.cluster.barrier_job import describe_spark_failure
from sparkflow.spark.errors import SparkTrainingError

_TIMEOUT_S: Final = 10.0
_SCHEMA: Final = "reason string"

_known: weakref.WeakKeyDictionary[Any, str] = weakref.WeakKeyDictionary()
"""The results by session, which do not change during a session."""


def why_locked_in(session: Any) -> str:
    """Returns why tasks of this session cannot reach each other; "" if they can.

    Runs one small Spark job per session, in the first call.

    Raises:
        SparkTrainingError: The job failed, for instance because executors lack sparkflow.
    """
    if session not in _known:
        try:
            (row,) = session.range(0, 1, 1, 1).mapInArrow(_look, _SCHEMA).collect()
        except Exception as error:
            raise SparkTrainingError(describe_spark_failure(error)) from error
        _known[session] = row["reason"]
    return _known[session]


def _look(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for _ in batches:
        pass
    yield pa.RecordBatch.from_pydict({"reason": pa.array([look()], pa.string())})


def look(
    connects: Callable[[], None] | None = None, spawns: Callable[[], None] | None = None
) -> str:
    """Returns what this process may not do although training needs it; "" if nothing.

    Args:
        connects: Opens a connection to this process; the real one if None.
        spawns: Starts a process; the real one if None.
    """
    try:
        (connects or _connect)()
    except OSError as error:
        return f"they may open no socket ({error})"
    try:
        (spawns or _spawn)()
    except (OSError, subprocess.SubprocessError) as error:
        return f"they may start no process ({error})"
    return ""


def _connect() -> None:
    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_STREAM))
        listener.settimeout(_TIMEOUT_S)
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        stack.enter_context(socket.create_connection(listener.getsockname(), _TIMEOUT_S))


def _spawn() -> None:
    # Without site packages, so that it only takes milliseconds.
    subprocess.run(
        [sys.executable, "-I", "-S", "-c", ""],
        check=True,
        timeout=_TIMEOUT_S,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )

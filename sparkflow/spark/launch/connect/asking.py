"""Small Spark tasks that send requests to the chief, and the queries that run them."""

from __future__ import annotations

import contextlib
import functools
import json
import logging
import threading
import uuid
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import pyarrow as pa

from sparkflow.spark.errors import SparkTrainingError
from sparkflow.spark.launch.connect import meeting
from sparkflow.spark.launch.connect.outcome import ROWS_SCHEMA, outcome_row
from sparkflow_runtime.security import Credentials

_log = logging.getLogger(__name__)

ANSWER = "answer"
_TIMEOUT_S = 30.0
_REMOVE_S = 10.0


class Asking:
    """A connection to a chief. Each query occupies a Spark slot. Thread-safe.

    Args:
        session: The session.
        address: `host:port` of the chief.
        credentials: The credentials of the job's tasks.
    """

    def __init__(self, session: Any, address: str, credentials: Credentials) -> None:
        self._session = session
        self._address = address
        self._credentials = credentials.export()

    def poll(self, asked: Mapping[str, Any]) -> Mapping[str, Any]:
        """Returns new events, see `Relay`. Blocks for some seconds if there are none."""
        (row,) = self._rows("Poll", json.dumps(asked).encode())
        answer: Mapping[str, Any] = json.loads(bytes(row["content"]))
        return answer

    def values(self) -> list[tuple[str, int, bytes]]:
        """Returns rows of an outcome with the current variables."""
        rows = self._rows("Values", b"")
        return [(each["part"], each["number"], bytes(each["content"])) for each in rows]

    def _rows(self, method: str, request: bytes) -> list[Any]:
        task: Any = functools.partial(ask, self._address, self._credentials, method, request)
        return _rows_of(self._session, task)


def _rows_of(session: Any, task: Any) -> list[Any]:
    """Returns the rows of a function that runs in one task while the training's tasks run."""
    rows: list[Any] = session.range(0, 1, 1, 1).mapInArrow(task, ROWS_SCHEMA).collect()
    return rows


def ask(
    address: str,
    credentials: Mapping[str, Any],
    method: str,
    request: bytes,
    batches: Iterable[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    """The function that `mapInArrow` runs."""
    from google.protobuf.wrappers_pb2 import BytesValue  # here, because the client does not need it

    from sparkflow.spark.launch.connect.relay import SERVICE
    from sparkflow_runtime.transport import rpc

    for _ in batches:
        pass
    shown = Credentials.from_export(credentials)
    channel = rpc.channel(address, shown.tls)
    try:
        stub = rpc.Stub(channel, SERVICE, shown.token, f"The process that leads at {address}")
        message = BytesValue(value=request)
        if method == "Poll":
            answer = stub.call(method, message, BytesValue.FromString, timeout_s=_TIMEOUT_S)
            yield outcome_row(ANSWER, 0, answer.value)
            return
        for each in stub.stream(method, message, BytesValue.FromString):
            part, number, content = each.value.split(b" ", 2)
            yield outcome_row(part.decode(), int(number), content)
    finally:
        channel.close()


def find_chief(session: Any, directory: str, token: str) -> str:
    """Returns the chief's address from a directory; "" if it has not written it yet.

    Args:
        session: The session.
        directory: See `meeting`.
        token: The job's token.
    """
    task: Any = functools.partial(look_up, directory, token)
    (row,) = _rows_of(session, task)
    return bytes(row["content"]).decode()


def end_meeting(session: Any, directory: str) -> None:
    """Removes the directory of a meeting by a task. Blocks for at most `_REMOVE_S`.

    Args:
        session: The session.
        directory: See `meeting`; no longer read by any task.
    """
    tag = f"sparkflow-meeting-{uuid.uuid4().hex}"

    def run() -> None:
        try:
            session.addTag(tag)  # tags belong to a thread
            _rows_of(session, functools.partial(remove, directory))
        except Exception as error:  # the session may be closed, or the cluster gone
            _log.info("%s was left: %s", directory, str(error).split("\n", 1)[0])

    thread = threading.Thread(target=run, name="sparkflow-end-meeting", daemon=True)
    try:
        thread.start()
        thread.join(_REMOVE_S)
    finally:
        if thread.is_alive():
            with contextlib.suppress(Exception):  # the session is closed
                session.interruptTag(tag)


def remove(directory: str, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The function that `mapInArrow` runs to remove the directory of a meeting."""
    for _ in batches:
        pass
    meeting.end(directory)
    yield outcome_row(ANSWER, 0, b"")


def look_up(
    directory: str, token: str, batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """The function that `mapInArrow` runs; it does not wait, since it may occupy a task's slot."""
    for _ in batches:
        pass
    try:
        address = meeting.find(directory, token, 0.0)
    except SparkTrainingError:
        address = ""
    yield outcome_row(ANSWER, 0, address.encode())

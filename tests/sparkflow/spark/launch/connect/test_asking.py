"""A task's questions over gRPC, as they are sent."""

import json
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from sparkflow.spark.launch.connect.asking import ANSWER, ask, end_meeting
from sparkflow.spark.launch.connect.meeting import publish
from sparkflow.spark.launch.connect.outcome import from_parts, from_rows
from sparkflow.spark.launch.connect.relay import Relay
from sparkflow_runtime.errors import UnauthenticatedError
from sparkflow_runtime.security import Credentials
from sparkflow_runtime.transport.rpc import RpcServer

TOKEN = "token"
SHOWN = Credentials(TOKEN).export()


@pytest.fixture
def relay() -> Relay:
    return Relay(needs_epochs=True)


@pytest.fixture
def address(relay: Relay) -> Iterator[str]:
    server = RpcServer([relay.handlers()], host="127.0.0.1", port=0, token=TOKEN)
    server.start()
    yield f"127.0.0.1:{server.port}"
    server.stop()


def _rows(batches: Iterator[pa.RecordBatch]) -> list[tuple[str, int, bytes]]:
    rows = [row for batch in batches for row in batch.to_pylist()]
    return [(row["part"], row["number"], row["content"]) for row in rows]


def test_events_arrive(relay: Relay, address: str) -> None:
    relay.on_checkpoint("path")
    request = json.dumps({"acknowledged": 0, "stop": None}).encode()
    ((part, number, content),) = _rows(ask(address, SHOWN, "Poll", request, []))
    assert (part, number) == (ANSWER, 0)
    (event,) = json.loads(content)["events"]
    assert event["path"] == "path"


def test_variables_arrive(relay: Relay, address: str) -> None:
    import threading

    class Run:
        total_steps = 1

        def __init__(self) -> None:
            from sparkflow.spark.control.history.training_history import TrainingHistory

            self.history = TrainingHistory()

        def values(self) -> Any:
            return {"w": np.arange(2 << 20, dtype=np.float32)}  # more than a piece

    relay.on_train_begin(Run())  # type: ignore[arg-type]
    leading = threading.Thread(target=relay.on_epoch_end, args=(0, {}))
    leading.start()
    rows = _rows(ask(address, SHOWN, "Values", b"", []))
    assert len(rows) > 2
    np.testing.assert_array_equal(from_parts(from_rows(rows)).values["w"], np.arange(2 << 20))
    acknowledge = json.dumps({"acknowledged": 2, "stop": "enough"}).encode()
    relay.end()
    list(ask(address, SHOWN, "Poll", acknowledge, []))
    leading.join(30)
    assert not leading.is_alive()


def test_strangers_are_told_nothing(address: str) -> None:
    with pytest.raises(UnauthenticatedError):
        list(ask(address, Credentials("another").export(), "Poll", b"{}", []))


class Session:
    """Runs a query's task in the thread that collects its rows."""

    def __init__(self, fails: bool = False) -> None:
        self.fails = fails

    def addTag(self, tag: str) -> None: ...

    def range(self, *_: int) -> Any:
        return self

    def mapInArrow(self, task: Any, schema: str) -> Any:
        if self.fails:
            raise OSError("the session is closed")
        return SimpleNamespace(collect=lambda: _rows(task([])))


def test_the_directory_of_a_meeting_goes_with_its_job(tmp_path: Path) -> None:
    directory = tmp_path / "meeting"
    publish(str(directory), TOKEN, "host:1")
    end_meeting(Session(fails=True), str(directory))  # which does not fail the training
    assert directory.exists()
    for _ in range(2):
        end_meeting(Session(), str(directory))
        assert not directory.exists()

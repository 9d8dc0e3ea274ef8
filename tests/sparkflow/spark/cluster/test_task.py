"""What a task passes to its child process, and how it reports its end."""

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from sparkflow.spark.cluster import task
from sparkflow.spark.cluster.process.piped_process import describe_exit
from sparkflow.spark.cluster.task import JobConfig, child_environment, keep_child
from sparkflow.spark.cluster_layout import ClusterLayout, TaskName
from sparkflow.spark.data.schema.row_format import DENSE, Input, RowFormat
from sparkflow.spark.errors import LostTaskError
from sparkflow_runtime.security import Credentials


def test_the_environment_of_a_child_is_clean(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(8)))
    shipped, before = "/spark/jars/with_modules.jar", [path for path in sys.path if path]
    monkeypatch.setattr(
        sys, "path", ["", "/spark/jars/spark-core_2.13-4.3.0.jar", shipped, *sys.path]
    )
    given = {"OPENBLAS_CORETYPE": "Haswell", "OMP_NUM_THREADS": "1", "HOME": "/root"}
    found = child_environment(given, cpus=1, neighbours=3)
    assert "OPENBLAS_CORETYPE" not in found
    assert found["OMP_NUM_THREADS"] == found["OPENBLAS_NUM_THREADS"] == "2"
    assert found["HOME"] == "/root"
    assert found["PYTHONPATH"].split(os.pathsep) == [shipped, *before]


def test_a_task_gets_the_threads_that_spark_gave_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0})
    found = child_environment({}, cpus=4, neighbours=3)
    assert found["OMP_NUM_THREADS"] == "4"


@pytest.mark.parametrize(
    ("code", "text"),
    [
        (1, "exited with code 1"),
        (-11, "was killed by signal 11 (SIGSEGV)"),
        (
            -9,
            "was killed by signal 9 (SIGKILL), for instance because the machine ran out of memory",
        ),
        (-64, "was killed by signal 64 (SIGRTMAX)"),
        (-63, "was killed by signal 63 (unknown)"),
    ],
)
def test_the_end_of_a_process_in_words(code: int, text: str) -> None:
    assert describe_exit(code) == text


def test_a_killed_process_may_have_been_too_large() -> None:
    assert "signal 9 (SIGKILL), for instance because the machine ran out" in describe_exit(-9)


def test_the_token_is_not_shown() -> None:
    row_format = RowFormat((Input("x", DENSE, "float32", (2,)),), None, None, named=False)
    config = JobConfig("host:1", Credentials("secret"), ClusterLayout(1, 1), row_format)
    assert "secret" not in repr(config)


class NoChild:
    """Replaces the supervisor; records what the driver is told."""

    def __init__(self, *_: object) -> None:
        self.told: list[BaseException] = []
        made.append(self)

    def send(self, message: object) -> None: ...

    def fail(self, error: BaseException) -> None:
        self.told.append(error)

    def end(self) -> None: ...


made: list[NoChild] = []


def _stream(folder: Path, cut: int) -> Iterator[pa.RecordBatch]:
    """What Spark sends, as far as it arrived."""
    sink = pa.BufferOutputStream()
    x, number = pa.array([[1.0, 2.0]], pa.list_(pa.float32())), pa.array([0], pa.int64())
    batch = pa.RecordBatch.from_pydict({"x": x, "row_number": number})
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    sent = folder / "sent"
    sent.write_bytes(sink.getvalue()[:cut])
    with sent.open("rb") as file:
        yield from pa.ipc.open_stream(file)


def test_rows_that_break_off_are_not_what_has_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A killed executor's Python workers may report that before anybody knows of the loss."""
    monkeypatch.setattr(task, "ProcessSupervisor", NoChild)
    rows = RowFormat((Input("x", DENSE, "float32", (2,)),), None, None, named=False)
    config = JobConfig("host:1", Credentials("secret"), ClusterLayout(1, 1), rows)
    arguments: Any = (config, TaskName("worker", 0), {}, {})
    outcomes = set()
    for cut in range(0, 600, 7):
        try:
            keep_child(*arguments, _stream(tmp_path, cut))
        except LostTaskError:
            outcomes.add("lost")
        except AttributeError:  # NoChild has nothing to wait for: all rows have come
            outcomes.add("came")
        assert made[-1].told == []
    assert outcomes == {"lost", "came"}

    def wrong() -> Iterator[pa.RecordBatch]:
        yield pa.RecordBatch.from_pydict({"x": pa.array(["no array"]), "row_number": [0]})

    with pytest.raises(AttributeError, match="offsets") as caught:
        keep_child(*arguments, wrong())
    assert made[-1].told == [caught.value]

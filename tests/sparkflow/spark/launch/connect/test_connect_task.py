"""Which tasks lead, wait and end in a training on Spark Connect, with a fake chief."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyspark
import pytest

from sparkflow.spark.cluster.task import JobConfig
from sparkflow.spark.cluster_layout import ClusterLayout
from sparkflow.spark.data.schema.row_format import RowFormat
from sparkflow.spark.errors import SparkTrainingError
from sparkflow.spark.launch.connect import connect_task, meeting
from sparkflow.spark.launch.connect.connect_task import ConnectConfig, run_connect_task
from sparkflow.spark.launch.connect.outcome import outcome_row
from sparkflow_runtime.security import Credentials

ADDRESS = "10.0.0.1:7"


@dataclass
class Context:
    """The part of Spark's TaskContext that is used here."""

    partition: int
    attempt: int = 0

    def partitionId(self) -> int:
        return self.partition

    def attemptNumber(self) -> int:
        return self.attempt

    def taskAttemptId(self) -> int:
        return self.partition + 100 * self.attempt


@dataclass
class Stage:
    """The tasks of an ordinary stage, one after another."""

    directory: str
    monkeypatch: pytest.MonkeyPatch
    trained: list[int] = field(default_factory=list)
    while_trained: Any = lambda: None

    def run(self, partition: int, attempt: int = 0) -> list[str]:
        """Returns the partitions of a task's rows."""
        context = Context(partition, attempt)
        self.monkeypatch.setattr(pyspark.TaskContext, "get", lambda: context)
        job = JobConfig(
            "",
            Credentials("token"),
            ClusterLayout(0, 2, 2),
            RowFormat((), None, None, False),
            barrier=False,
        )
        config = ConnectConfig(job, b"", self.directory, "", timeout_s=0.0)
        rows = run_connect_task(config, [])
        return [part for batch in rows for part in batch.column("part").to_pylist()]


@pytest.fixture
def stage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Stage:
    found = Stage(str(tmp_path / "meeting"), monkeypatch)

    class Chief:
        address = ADDRESS

        def __init__(self, *_: Any) -> None: ...

        def outcome(self) -> Iterator[pa.RecordBatch]:
            yield outcome_row("values", 0, b"v")

        def close(self) -> None: ...

    def train(job: Any, batches: Any) -> Iterator[pa.RecordBatch]:
        assert job.driver == ADDRESS
        found.trained.append(pyspark.TaskContext.get().partitionId())  # type: ignore[union-attr]
        found.while_trained()
        yield from ()

    monkeypatch.setattr(connect_task, "_Chief", Chief)
    monkeypatch.setattr(connect_task, "_own_host", lambda *_: "10.0.0.1")
    monkeypatch.setattr(connect_task, "run_task", train)
    return found


def test_a_task_that_begins_anew_after_training_ends_at_once(stage: Stage) -> None:
    stage.while_trained = lambda: stage.trained == [0] and stage.run(1)
    assert stage.run(0) == ["values"]
    assert stage.trained == [0, 1]
    assert stage.run(1, attempt=1) == []
    assert stage.run(1) == []  # as when Spark counts after losing the stage's rows
    assert stage.trained == [0, 1]


@pytest.mark.parametrize("attempt", [0, 1])
def test_a_leading_task_that_begins_anew_after_training_says_what_was_lost(
    stage: Stage, attempt: int
) -> None:
    stage.run(0)
    with pytest.raises(SparkTrainingError, match="task that leads the training was lost"):
        stage.run(0, attempt)
    assert stage.trained == [0]


def test_training_that_could_not_be_led_is_over_as_well(stage: Stage) -> None:
    def fail() -> Any:
        raise OSError("the chief is gone")

    stage.monkeypatch.setattr(connect_task._Chief, "outcome", lambda self: fail())
    with pytest.raises(OSError, match="chief is gone"):
        stage.run(0)
    assert meeting.find(stage.directory, "token", 0.0) == meeting.OVER
    assert stage.run(1) == []

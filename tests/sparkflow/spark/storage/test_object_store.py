"""Checkpoints, event files, TFRecords and Parquet on a real S3 server, which fails temporarily."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import sparkflow as tf
from sparkflow.spark.control.checkpoints.store import CheckpointStore
from sparkflow.spark.report.event_sinks import open_sink
from sparkflow.spark.storage.checkpoint_files import PathFiles
from sparkflow_runtime.errors import OpError
from sparkflow_runtime.events.records import read_records
from sparkflow_runtime.files import system, whole
from sparkflow_runtime.protos.event_pb2 import Event
from support.object_store import MOST_S, SNAPSHOT, ObjectStore, object_store

pytestmark = pytest.mark.timeout(300)


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Iterator[ObjectStore]:
    with object_store() as found:
        for key, value in found.environment.items():
            monkeypatch.setenv(key, value)
        yield found


def test_files_are_there_whole_or_not_at_all(store: ObjectStore) -> None:
    folder = "s3a://bucket/data"
    whole.write_whole(f"{folder}/a.txt", b"one")
    assert system.read_file("s3://bucket/data/a.txt") == b"one"
    tf.gfile.MakeDirs(f"{folder}/deep/er")
    with tf.gfile.GFile(f"{folder}/deep/er/b.txt", "w") as file:
        file.write("two\n")
        assert not tf.gfile.Exists(f"{folder}/deep/er/b.txt")  # not before its last byte
    assert tf.gfile.Glob(f"{folder}/*.txt") == [f"{folder}/a.txt"]
    assert [names for _, _, names in tf.gfile.Walk(folder)] == [["a.txt"], [], ["b.txt"]]
    tf.gfile.Rename(f"{folder}/a.txt", f"{folder}/c.txt")
    tf.gfile.Copy(f"{folder}/c.txt", f"{folder}/d.txt")
    assert tf.gfile.ListDirectory(folder) == ["c.txt", "d.txt", "deep"]
    with pytest.raises(tf.errors.NotFoundError, match=r"s3a://bucket/data/a\.txt"):
        system.read_file(f"{folder}/a.txt")
    with pytest.raises(OpError, match="no-such-bucket"):
        whole.write_whole("s3a://no-such-bucket/x", b"x")
    tf.gfile.DeleteRecursively(folder)
    assert not tf.gfile.Exists(folder)
    with tf.python_io.TFRecordWriter("s3://bucket/r.tfrecord") as writer:
        writer.write(b"record")
    with tf.Graph().as_default(), tf.Session() as session:
        records = tf.data.TFRecordDataset("s3://bucket/r.tfrecord").make_one_shot_iterator()
        assert session.run(records.get_next()) == b"record"
        assert session.run(tf.read_file("s3://bucket/r.tfrecord"))[12:18] == b"record"


@pytest.mark.parametrize("how", ["refuse", "cut", pytest.param("hold", marks=pytest.mark.nightly)])
def test_a_checkpoint_survives_that_the_server_is_away(store: ObjectStore, how: str) -> None:
    where = CheckpointStore("s3a://bucket/run", 2, PathFiles())
    where.prepare()
    where.write(SNAPSHOT)
    getattr(store.link, how)()
    started = time.monotonic()
    last, said = 2, "s3a://bucket/run"
    try:
        where.write(replace(SNAPSHOT, step=2))
    except (OpError, OSError) as error:
        last, said = 1, str(error)
    assert "bucket/run" in said
    assert how == "cut" or last == 1  # a cut connection may succeed: pyarrow retries
    assert time.monotonic() - started < MOST_S
    store.link.restore()
    found = where.latest()
    assert found is not None
    assert found.snapshot.step == last
    np.testing.assert_array_equal(found.snapshot.shared["v"], SNAPSHOT.shared["v"])
    third = where.write(replace(SNAPSHOT, step=3))
    found = where.latest()
    assert found is not None
    assert (found.path, found.snapshot.step) == (third, 3)


@pytest.mark.nightly
def test_a_killed_server_is_an_error_that_names_the_path(store: ObjectStore) -> None:
    where = CheckpointStore("s3a://bucket/run", 2, PathFiles())
    where.prepare()
    where.write(SNAPSHOT)
    store.kill()
    started = time.monotonic()
    with pytest.raises((OpError, OSError), match="bucket/run"):
        where.write(replace(SNAPSHOT, step=2))
    with pytest.raises((OpError, OSError), match="bucket/x"):
        system.read_file("s3a://bucket/x")
    assert time.monotonic() - started < MOST_S


def test_event_files_are_written_one_after_the_other(store: ObjectStore) -> None:
    now = [1000.0]
    sink = open_sink("s3a://bucket/logs/run", lambda: now[0])
    for step in range(2):
        sink.add(Event(wall_time=now[0], step=step))
        now[0] += 100
        sink.flush()
    sink.close()
    names = system.list_directory("s3://bucket/logs/run")
    assert len(names) == 2
    content = system.read_file(f"s3://bucket/logs/run/{names[1]}")
    events = [Event.FromString(each) for each in read_records(io.BytesIO(content))]
    assert [event.step for event in events[1:]] == [1]


@pytest.mark.nightly
def test_training_there_while_connections_are_cut(store: ObjectStore, tmp_path: Path) -> None:
    """Parquet, checkpoints and event files of a fit on S3; see `object_store_program.py`."""
    program = Path(__file__).with_name("object_store_program.py")
    environment = {**os.environ, **store.environment, "SPARK_LOCAL_DIRS": str(tmp_path)}
    environment["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
    with subprocess.Popen(
        [sys.executable, str(program)], stdout=subprocess.PIPE, text=True, env=environment
    ) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith("cut"):
                store.link.cut()
            elif line.startswith("{"):
                outcome = json.loads(line)
    assert process.returncode == 0
    assert outcome["calm"] == outcome["cut"] == outcome["again"]
    assert outcome["cuts"] >= 5
    assert outcome["checkpoints"] >= 1
    assert outcome["events"] >= 1

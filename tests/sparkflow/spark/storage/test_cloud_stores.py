"""Checkpoints, models, event files, TFRecords and Parquet on servers like Google's and Azure's.

These are real servers over HTTP (third-party emulators), killed, slowed down and cut off;
`test_object_store.py` does the same with S3, and trains there.
"""

from __future__ import annotations

import io
import threading
import time
from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import sparkflow as tf
from sparkflow.export import InferenceModel, Output, Signature
from sparkflow.export.model_files import MODEL_FILE, is_data_file
from sparkflow.spark.control.checkpoints.store import CheckpointStore
from sparkflow.spark.report.event_sinks import RemoteSink
from sparkflow.spark.storage.artifacts import InClosure
from sparkflow.spark.storage.checkpoint_files import PathFiles
from sparkflow.spark.storage.connect_files import _write as write_model
from sparkflow_runtime.errors import NotFoundError, OpError
from sparkflow_runtime.events.records import read_records
from sparkflow_runtime.files import system, whole
from sparkflow_runtime.protos.event_pb2 import Event
from support.cloud_stores import cloud_store, files_of_model, why_not
from support.object_store import MOST_S, SNAPSHOT, ObjectStore, Writer, object_store

pytestmark = [pytest.mark.nightly, pytest.mark.timeout(900)]

SLOW_S = 0.3


@pytest.fixture(params=["gs", "abfs"])
def store(
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
    record_property: Callable[[str, object], None],
) -> Iterator[ObjectStore]:
    reason = why_not(request.param)
    if reason:
        pytest.skip(reason)
    with cloud_store(request.param, monkeypatch) as found:
        began = time.monotonic()
        yield found
        record_property(f"{request.node.name} (s)", round(time.monotonic() - began, 1))


@pytest.fixture
def any_store(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> Iterator[ObjectStore]:
    """The same, and S3."""
    with (
        object_store()
        if request.param == "s3"
        else cloud_store(request.param, monkeypatch) as found
    ):
        for key, value in found.environment.items():
            monkeypatch.setenv(key, value)
        yield found


def test_files_are_there_whole_or_not_at_all(store: ObjectStore) -> None:
    folder = f"{store.root}/data"
    whole.write_whole(f"{folder}/a.txt", b"one")
    whole.write_whole(f"{folder}/empty", b"")
    assert system.read_file(f"{folder}/a.txt") == b"one"
    assert system.read_file(f"{folder}/empty") == b""
    tf.gfile.MakeDirs(f"{folder}/deep/er")
    with tf.gfile.GFile(f"{folder}/deep/er/b.txt", "w") as file:
        file.write("two\n")
        # Not before its last byte; but on Azure pyarrow creates an empty one when it is opened.
        assert tf.gfile.Exists(f"{folder}/deep/er/b.txt") == store.root.startswith("abfs")
    assert tf.gfile.Glob(f"{folder}/*.txt") == [f"{folder}/a.txt"]
    tf.gfile.Copy(f"{folder}/a.txt", f"{folder}/d.txt")
    assert tf.gfile.ListDirectory(folder) == ["a.txt", "d.txt", "deep", "empty"]
    with pytest.raises(tf.errors.NotFoundError, match=r"data/c\.txt"):
        system.read_file(f"{folder}/c.txt")
    tf.gfile.DeleteRecursively(folder)
    assert not tf.gfile.Exists(folder)
    # A folder that exists only through its files.
    whole.write_whole(f"{store.root}/other/x", b"x")
    tf.gfile.DeleteRecursively(f"{store.root}/other")
    assert not tf.gfile.Exists(f"{store.root}/other")
    with pytest.raises(NotFoundError):
        tf.gfile.DeleteRecursively(f"{store.root}/other")


@pytest.mark.parametrize("how", ["calm", "slow", "cut", "refuse"])
def test_a_checkpoint_is_the_old_one_or_the_new_one(store: ObjectStore, how: str) -> None:
    where = CheckpointStore(f"{store.root}/run", 2, PathFiles())
    where.prepare()
    where.write(SNAPSHOT)
    if how == "slow":
        store.link.delay(SLOW_S)
    elif how != "calm":
        getattr(store.link, how)()
    last, said, began = 2, f"{store.root}/run", time.monotonic()
    try:
        where.write(replace(SNAPSHOT, step=2))
    except (OpError, OSError) as error:
        last, said = 1, str(error)
    assert "/run" in said
    assert (last == 1) == (how == "refuse")  # all others retry
    assert time.monotonic() - began < MOST_S
    store.link.restore()
    for step in (last, 3, 4):
        if step > 2:
            where.write(replace(SNAPSHOT, step=step))
        found = where.latest()
        assert found is not None
        assert found.snapshot.step == step
        np.testing.assert_array_equal(found.snapshot.shared["v"], SNAPSHOT.shared["v"])
    left = [
        each for each in system.list_directory(f"{store.root}/run") if "4" in each or "3" in each
    ]
    assert left  # and older ones are deleted
    assert not any("1" in each for each in system.list_directory(f"{store.root}/run"))


def test_a_killed_server_is_an_error_that_names_the_path(store: ObjectStore) -> None:
    where = CheckpointStore(f"{store.root}/run", 2, PathFiles())
    where.prepare()
    where.write(SNAPSHOT)
    store.kill()
    for act in (
        lambda: where.write(replace(SNAPSHOT, step=2)),
        lambda: system.read_file(f"{store.root}/run/x"),
    ):
        began = time.monotonic()
        with pytest.raises((OpError, OSError), match="/run"):
            act()
        assert time.monotonic() - began < MOST_S


_SETUP = """
import pathlib
import pytest
from sparkflow.spark.storage import connect_files
from sparkflow.spark.storage.artifacts import InClosure
from sparkflow.export.model_files import is_data_file
from support.cloud_stores import files_of_model, lead_to
address, root, folder = sys.argv[1:]
files = files_of_model(pathlib.Path(folder))
def save(name):
    if root.startswith("abfs"):
        lead_to(address, root, pytest.MonkeyPatch())
    connect_files._write(f"{root}/{name}", InClosure(files), is_data_file)
"""


@pytest.mark.timeout(3600)  # on Azurite, one in ten deletions takes seven seconds
@pytest.mark.parametrize(
    "any_store",
    [
        pytest.param(each, marks=pytest.mark.skipif(bool(why_not(each)), reason=why_not(each)))
        for each in ("gs", "abfs")
    ]
    + ["s3"],
    indirect=True,
)
def test_a_model_survives_the_death_of_who_saves_another_over_it(
    any_store: ObjectStore, tmp_path: Path, record_property: Callable[[str, object], None]
) -> None:
    before = model(1.0).to_files()
    after = saved_files(2.0, tmp_path / "2", before)
    last = saved_files(3.0, tmp_path / "3", [*before, *after])
    values: list[float] = []

    def died() -> bool:
        folder = f"{any_store.root}/model{len(values)}"
        write_model(folder, InClosure(before), is_data_file)
        # As left by a previous writer that died.
        whole.write_through(whole.partial_name(f"{folder}/{MODEL_FILE}"), b"")
        whole.write_through(f"{folder}/graph-01234567.pb", b"")
        return any_store.kills(len(values), writer, f"model{len(values)}")

    address, root = any_store.link.address, any_store.root
    with Writer(_SETUP, "save(what)", address, root, str(tmp_path / "2")) as writer:
        while died():
            values.append(saved(f"{root}/model{len(values)}"))
    assert set(values) == {1.0, 2.0}
    assert (values[0], values[-1]) == (1.0, 2.0)
    # A later piece is a later moment, except for what the network merges: an undisturbed save to S3
    # took 81 to 96 pieces.
    first_new, last_old = values.index(2.0), len(values) - 1 - values[::-1].index(1.0)
    assert last_old - first_new < len(values) / 4
    # Nothing is left of the dead writers, nor of the first model, after another save. All have died
    # by now, because Azure keeps a lease on what they were deleting for a minute.
    for number in range(len(values) + 1):
        folder = f"{root}/model{number}"
        write_model(folder, InClosure(last), is_data_file)
        assert saved(folder) == 3.0
        assert set(system.list_directory(folder)) == set(last)
    record_property("deaths", len(values))


def saved_files(value: float, folder: Path, taken: Collection[str]) -> dict[str, bytes]:
    """Returns the files of a model with unused names."""
    model(value).save(folder, taken=taken)
    return files_of_model(folder)


def saved(folder: str) -> float:
    """Returns the value of the variable of the model in a folder."""
    files = {name: system.read_file(f"{folder}/{name}") for name in system.list_directory(folder)}
    value: float = InferenceModel.from_files(files).variables["v"][0]
    return value


@pytest.mark.parametrize("how", ["calm", "slow", "cut"])
def test_models_events_records_and_tables(store: ObjectStore, how: str) -> None:
    files = model().to_files()
    table = pa.table({"x": np.arange(100, dtype=np.float32)})
    buffer = io.BytesIO()
    pq.write_table(table, buffer, row_group_size=30)
    if how == "slow":
        store.link.delay(SLOW_S / 10)

    def disturb() -> None:
        if how == "cut":
            store.link.cut()

    write_model(f"{store.root}/model", InClosure(files), lambda name: False)
    disturb()
    read = {name: system.read_file(f"{store.root}/model/{name}") for name in files}
    np.testing.assert_array_equal(InferenceModel.from_files(read).variables["v"], [1.0, 1.0])

    now = [1000.0]
    events, path, _ = system.resolve(f"{store.root}/logs")
    assert isinstance(events, system.ArrowFiles)
    sink = RemoteSink(events._system, path, lambda: now[0])
    for step in range(2):
        sink.add(Event(wall_time=now[0], step=step))
        now[0] += 100
        disturb()
        sink.flush()
    sink.close()
    names = system.list_directory(f"{store.root}/logs")
    content = system.read_file(f"{store.root}/logs/{names[1]}")
    assert len(names) == 2
    assert [Event.FromString(each).step for each in read_records(io.BytesIO(content))][1:] == [1]

    whole.write_whole(f"{store.root}/rows.parquet", buffer.getvalue())
    with tf.python_io.TFRecordWriter(f"{store.root}/r.tfrecord") as writer:
        writer.write(b"record")
    disturb()
    with tf.Graph().as_default(), tf.Session() as session:
        records = tf.data.TFRecordDataset(f"{store.root}/r.tfrecord").make_one_shot_iterator()
        assert session.run(records.get_next()) == b"record"
    # Not by `tf.data`: seeking in a file of gs: holds the GIL, which the link needs, too.
    files_there, path, _ = system.resolve(f"{store.root}/rows.parquet")
    assert isinstance(files_there, system.ArrowFiles)
    assert pq.read_table(path, filesystem=files_there._system).equals(table)


def model(value: float = 1.0) -> InferenceModel:
    """A model with one variable that contains this value twice."""
    with tf.Graph().as_default() as graph:
        x = tf.placeholder(tf.float32, [None, 2], name="x")
        tf.identity(x * tf.get_variable("v", [2]), name="y")
    signature = Signature.of_features("x:0", 2, (Output("y", "y:0", "float32", (2,)),))
    return InferenceModel.build(
        graph.as_graph_def(), {"v": np.full(2, value, np.float32)}, signature
    )


def test_other_threads_go_on_while_a_file_is_read(store: ObjectStore) -> None:
    """pyarrow used to hold the GIL until the server of `gs:` answered, however long that took."""
    whole.write_whole(f"{store.root}/a", b"x" * 1000)
    store.link.delay(1.0)
    longest, last, done = 0.0, time.monotonic(), threading.Event()

    def tick() -> None:
        nonlocal longest, last
        while not done.wait(0.01):
            now = time.monotonic()
            longest, last = max(longest, now - last), now

    ticking = threading.Thread(target=tick)
    ticking.start()
    began = time.monotonic()
    assert system.read_file(f"{store.root}/a") == b"x" * 1000
    tf.gfile.Copy(f"{store.root}/a", f"{store.root}/b")
    took = time.monotonic() - began
    done.set()
    ticking.join()
    assert took > 1.0
    assert longest < took / 2

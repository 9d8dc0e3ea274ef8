"""Checkpoints on disk: complete, or ignored."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from pyarrow import fs

from sparkflow.spark.control.checkpoints.saving import (
    MAX_FAILURES,
    CheckpointEnded,
    CheckpointWriter,
)
from sparkflow.spark.control.checkpoints.snapshot import Position, Snapshot, WorkerState
from sparkflow.spark.control.checkpoints.store import MANIFEST, CheckpointStore
from sparkflow.spark.errors import SparkTrainingError
from sparkflow.spark.storage.checkpoint_files import PathFiles, pyarrow_reaches
from sparkflow.spark.storage.hadoop_files import HadoopFiles
from sparkflow_runtime.checkpoint.sealed import open_json, seal_json
from sparkflow_runtime.errors import OpError, ResourceExhaustedError
from sparkflow_runtime.files import system, whole
from support.damage import damages, disk_of

SNAPSHOT = Snapshot(
    step=12,
    position=Position((7, 5), (4, 3), {"seed": 1}),
    shared={
        "layer/kernel": np.arange(6, dtype=np.float32).reshape(2, 3),
        "narrow": np.array([0.5, -2], ml_dtypes.bfloat16),
        "turning": np.array([1 + 2j], np.complex64),
        "global_step": np.array(12, np.int64),
        "empty": np.zeros((0, 4), np.float64),
    },
    best={"layer/kernel": np.ones((2, 3), np.float32)},
    workers=(
        WorkerState(b'{"a": 1}', {"sum": np.array([True, False])}),
        WorkerState(b"{}", {}),
    ),
    history={"loss": [1.0, float("nan")]},
    early_stopping={"best": None, "best_step": 0, "waited": 1},
)


def store(directory: Path | str, keep: int = 3, files: Any = None) -> CheckpointStore:
    return CheckpointStore(str(directory), keep, files or PathFiles())


def assert_equal(found: Snapshot, expected: Snapshot) -> None:
    assert (found.step, found.position) == (expected.step, expected.position)
    assert found.early_stopping == expected.early_stopping
    assert str(found.history) == str(expected.history)  # NaN is not equal to itself
    assert found.tensors().keys() == expected.tensors().keys()
    for name, value in expected.tensors().items():
        assert found.tensors()[name].dtype == value.dtype
        np.testing.assert_array_equal(found.tensors()[name], value)


@pytest.mark.parametrize("scheme", ["", "file://"])
def test_what_was_written_is_read(tmp_path: Path, scheme: str) -> None:
    where = store(f"{scheme}{tmp_path}/new/folder")
    where.prepare()
    assert where.latest() is None
    path = where.write(SNAPSHOT)
    assert path.endswith("/checkpoint-000001-step-12")
    found = where.latest()
    assert found is not None
    assert found.path == path
    assert_equal(found.snapshot, SNAPSHOT)
    names = sorted(each.name for each in (tmp_path / "new/folder").rglob("*") if each.is_file())
    assert names == [MANIFEST, "tensors-00000.safetensors"]


def test_the_latest_is_the_last_written_and_old_ones_go(tmp_path: Path) -> None:
    where = store(tmp_path, keep=2)
    for step in (30, 20, 10):
        where.write(replace(SNAPSHOT, step=step))
    assert where.names() == ["checkpoint-000002-step-20", "checkpoint-000003-step-10"]
    found = where.latest()
    assert found is not None
    assert found.snapshot.step == 10
    every = store(tmp_path, keep=0)
    every.write(SNAPSHOT)
    assert len(every.names()) == 3


def cut(folder: Path) -> None:
    file = folder / "tensors-00000.safetensors"
    file.write_bytes(file.read_bytes()[:-3])


def turn_a_bit(folder: Path) -> None:
    file = folder / "tensors-00000.safetensors"
    data = bytearray(file.read_bytes())
    data[-2] ^= 4
    file.write_bytes(data)


def unfinish(folder: Path) -> None:
    (folder / MANIFEST).rename(folder / f"{MANIFEST}.partial")


def lose_a_file(folder: Path) -> None:
    (folder / "tensors-00000.safetensors").unlink()


def garble(folder: Path) -> None:
    (folder / MANIFEST).write_text("{")


def manifest_of(folder: Path) -> dict[str, Any]:
    return open_json((folder / MANIFEST).read_bytes(), "the manifest")[0]


def forget_tensors(folder: Path) -> None:
    manifest = manifest_of(folder)
    del manifest["tensors"]
    (folder / MANIFEST).write_bytes(seal_json(manifest))


def forget_the_checksum(folder: Path) -> None:
    (folder / MANIFEST).write_text(json.dumps(manifest_of(folder)))


def forget_one_tensor(folder: Path) -> None:
    manifest = manifest_of(folder)
    del manifest["tensors"]["variables/narrow"]
    (folder / MANIFEST).write_bytes(seal_json(manifest))


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (cut, "bytes instead of"),
        (turn_a_bit, "its checksum is"),
        (unfinish, "has no manifest"),
        (lose_a_file, "No such file"),
        (garble, f"{MANIFEST} cannot be read"),
        (forget_the_checksum, "it lacks its checksum"),
        (forget_one_tensor, "does not list: variables/narrow"),
        (forget_tensors, "does not fit its files"),
    ],
)
def test_damaged_ones_are_passed_over_with_a_warning(
    tmp_path: Path,
    damage: Callable[[Path], None],
    reason: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    where = store(tmp_path)
    where.write(SNAPSHOT)
    damage(Path(where.write(replace(SNAPSHOT, step=13))))
    with caplog.at_level(logging.WARNING):
        found = where.latest()
    assert found is not None
    assert found.snapshot.step == 12
    assert "checkpoint-000002-step-13 is ignored" in caplog.text
    assert reason in caplog.text
    # Its number stays in use, and leftovers are removed with the next one.
    assert where.write(SNAPSHOT).endswith("checkpoint-000003-step-12")
    left = {"checkpoint-000002-step-13"} if damage is not unfinish else set()
    assert left <= set(where.names())
    assert ("checkpoint-000002-step-13" in where.names()) == bool(left)


@pytest.mark.parametrize("file", [MANIFEST, "tensors-00000.safetensors"])
def test_whatever_byte_is_damaged_no_other_values_are_read(tmp_path: Path, file: str) -> None:
    """All bytes are changed in two ways, and all lengths are cut: detected, or without effect."""
    where = store(tmp_path)
    path = Path(where.write(SNAPSHOT)) / file
    good = path.read_bytes()
    found = 0
    for damaged in damages(good):
        path.write_bytes(damaged)
        latest = where.latest()
        if latest is None:
            found += 1
        else:
            assert_equal(latest.snapshot, SNAPSHOT)
    assert found > 2 * len(good)


def test_notes_are_kept_as_they_are(tmp_path: Path) -> None:
    notes = {"fingerprint": {"learningRate": 0.1, "graph": "ab12", "rows": [1, None]}}
    store(tmp_path).write(replace(SNAPSHOT, notes=notes))
    found = store(tmp_path).latest()
    assert found is not None
    assert found.snapshot.notes == notes


def test_checkpoints_of_the_first_version_are_read_and_it_is_said(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Checkpoints from before 2026-11-23: they have only sizes, and no checksum of the manifest."""
    path = Path(store(tmp_path).write(SNAPSHOT))
    manifest = manifest_of(path)
    del manifest["notes"]
    files = {name: known["size"] for name, known in manifest["files"].items()}
    (path / MANIFEST).write_text(json.dumps({**manifest, "version": 1, "files": files}))
    with caplog.at_level(logging.WARNING):
        found = store(tmp_path).latest()
    assert found is not None
    assert_equal(found.snapshot, SNAPSHOT)
    assert "has no checksum" in caplog.text


def test_a_full_disk_is_told_with_what_was_wanted_removed_and_kept(tmp_path: Path) -> None:
    where = store(tmp_path)
    where.write(SNAPSHOT)
    large = replace(SNAPSHOT, shared={"w": np.ones(100_000)})
    with disk_of(4096), pytest.raises(OpError) as caught:
        where.write(large)
    assert isinstance(caught.value, ResourceExhaustedError)
    message = str(caught.value)
    assert f"{tmp_path}/checkpoint-000002-step-12 of 800,0" in message
    assert "tensors-00000.safetensors" in message
    assert "was removed; kept in" in message
    assert "checkpoint-000001-step-12" in message
    assert where.names() == ["checkpoint-000001-step-12"]


def test_files_outside_of_the_directory_are_not_read(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = Path(store(tmp_path).write(SNAPSHOT))
    (path / MANIFEST).write_bytes(
        seal_json({**manifest_of(path), "files": {"../../secret": {"size": 3}}})
    )
    with caplog.at_level(logging.WARNING):
        assert store(tmp_path).latest() is None
    assert "not the name of a file" in caplog.text


def test_a_newer_format_is_refused_not_passed_over(tmp_path: Path) -> None:
    path = Path(store(tmp_path).write(SNAPSHOT))
    (path / MANIFEST).write_bytes(seal_json({**manifest_of(path), "version": 99}))
    with pytest.raises(SparkTrainingError, match=r"version 99 .*up to version 2\."):
        store(tmp_path).latest()


def test_a_directory_that_cannot_be_written_is_found_at_once(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(SparkTrainingError, match=r"checkpointDir='.*file/x' cannot be written"):
        store(tmp_path / "file" / "x").prepare()


def test_strings_are_refused_with_a_way_out(tmp_path: Path) -> None:
    words = replace(SNAPSHOT, shared={"words": np.array([b"a"], object)})
    with pytest.raises(SparkTrainingError, match="words holds strings"):
        store(tmp_path).write(words)


def test_an_object_store_has_files_only_when_they_are_complete(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(source: Any, target: Any, overwrite: bool = False) -> None:
        raise AssertionError("objects are copied, not renamed")

    monkeypatch.setattr(whole, "renames", lambda path: False)
    monkeypatch.setattr(system, "rename", refuse)
    where = store(tmp_path)
    where.write(SNAPSHOT)
    found = where.latest()
    assert found is not None
    assert_equal(found.snapshot, SNAPSHOT)


def test_pyarrow_reaches_object_stores_by_their_uri(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder behind pyarrow's interface simulates a bucket."""

    def elsewhere(uri: str) -> tuple[Any, str]:
        assert uri.startswith("s3://bucket/")
        return fs.SubTreeFileSystem(str(tmp_path), fs.LocalFileSystem()), uri[len("s3://") :]

    (tmp_path / "bucket").mkdir()
    monkeypatch.setattr(system, "_elsewhere", elsewhere)
    where = store("s3a://bucket/run", keep=1)
    where.prepare()
    where.write(SNAPSHOT)
    where.write(replace(SNAPSHOT, step=13))
    found = where.latest()
    assert found is not None
    assert_equal(found.snapshot, replace(SNAPSHOT, step=13))
    assert where.names() == ["checkpoint-000002-step-13"]
    assert not list(tmp_path.rglob("*.partial"))


def test_unknown_schemes_are_for_hadoop() -> None:
    assert not pyarrow_reaches("wasbs://container@account/run")
    assert pyarrow_reaches("/plain/path")


def test_failures_are_told_and_three_in_a_row_end_training(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("")
    messages: list[CheckpointEnded] = []
    writer = CheckpointWriter(store(tmp_path / "file"), messages.append)
    for _ in range(MAX_FAILURES):
        writer.write(SNAPSHOT)
    writer.wait()
    assert [each.path for each in messages] == [""] * MAX_FAILURES
    for each in messages[:-1]:
        writer.count(each)
    assert "The checkpoint of step 12 could not be written" in caplog.text
    with pytest.raises(SparkTrainingError, match="3 checkpoints in a row"):
        writer.count(messages[-1])
    writer.count(CheckpointEnded(13, "somewhere"))
    writer.count(messages[0])


class FakeHadoop:
    """The part of Hadoop's FileSystem that `HadoopFiles` uses, over the local disk."""

    class Path:
        def __init__(self, path: str) -> None:
            self.local = Path(path.removeprefix("fake://").removeprefix("file://"))

        def getName(self) -> str:
            return self.local.name

        def getFileSystem(self, configuration: Any) -> Any:
            return FakeHadoop()

        def getPath(self) -> Any:
            return self

    def getUri(self) -> Any:
        return self

    def getScheme(self) -> str:
        return "hdfs"

    def mkdirs(self, path: Any) -> bool:
        path.local.mkdir(parents=True, exist_ok=True)
        return True

    def exists(self, path: Any) -> bool:
        return bool(path.local.exists())

    def listStatus(self, path: Any) -> list[Any]:
        return [self.Path(str(each)) for each in path.local.iterdir()]

    def copyToLocalFile(self, move: bool, source: Any, target: Any, raw: bool) -> None:
        target.local.write_bytes(source.local.read_bytes())

    def copyFromLocalFile(self, move: bool, overwrite: bool, source: Any, target: Any) -> None:
        target.local.write_bytes(source.local.read_bytes())

    def delete(self, path: Any, recursive: bool) -> bool:
        import shutil

        shutil.rmtree(path.local)
        return True


class FakeContext:
    @staticmethod
    def getFileContext(uri: Any, configuration: Any) -> Any:
        return FakeContext()

    def rename(self, source: Any, target: Any, options: list[Any]) -> None:
        assert options == [FakeOverwrite]
        source.local.replace(target.local)


class FakeOverwrite:
    @staticmethod
    def getDeclaringClass() -> Any:
        return FakeOverwrite


class FakeArray:
    @staticmethod
    def newInstance(kind: Any, length: int) -> list[Any]:
        return [None] * length


class FakeJvm:
    class org:
        class apache:
            class hadoop:
                class fs:
                    Path = FakeHadoop.Path
                    FileContext = FakeContext

                    class Options:
                        class Rename:
                            OVERWRITE = FakeOverwrite

    class java:
        class lang:
            class reflect:
                Array = FakeArray


class Py4JJavaError(Exception):
    """Py4j's error: the exception, and a text with its stack trace."""

    __module__ = "py4j.protocol"

    def __init__(self, text: str) -> None:
        super().__init__(f"An error occurred while calling o1.x.\n: {text}\n\tat Somewhere.java")
        self.java_exception = self
        self.toString = lambda: text


@pytest.mark.parametrize(
    "failing", ["mkdirs", "listStatus", "copyFromLocalFile", "copyToLocalFile"]
)
def test_what_hadoop_throws_is_one_line_with_the_path(
    tmp_path: Path, failing: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = HadoopFiles(FakeJvm, None)
    where = store(f"fake://{tmp_path}/run", files=files)
    where.write(SNAPSHOT)

    def fail(*given: Any) -> Any:
        raise Py4JJavaError("org.apache.hadoop.QuotaExceededException: 3 of 2 bytes\nmore")

    monkeypatch.setattr(FakeHadoop, failing, fail)
    calls: dict[str, Callable[[], Any]] = {
        "mkdirs": where.prepare,
        "listStatus": lambda: files.list(where.directory),
        "copyFromLocalFile": lambda: where.write(SNAPSHOT),
        "copyToLocalFile": lambda: files.read(f"{where.directory}/{where.names()[0]}/{MANIFEST}"),
    }
    with pytest.raises((SparkTrainingError, OpError)) as caught:
        calls[failing]()
    assert "fake://" in str(caught.value)
    assert "QuotaExceededException: 3 of 2 bytes" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_hadoop_reaches_what_pyarrow_does_not(tmp_path: Path) -> None:
    where = store(f"fake://{tmp_path}/run", keep=1, files=HadoopFiles(FakeJvm, None))
    where.prepare()
    where.write(SNAPSHOT)
    where.write(replace(SNAPSHOT, step=13))
    found = where.latest()
    assert found is not None
    assert_equal(found.snapshot, replace(SNAPSHOT, step=13))
    assert where.names() == ["checkpoint-000002-step-13"]

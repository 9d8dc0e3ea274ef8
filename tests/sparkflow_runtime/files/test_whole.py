import os
import time

import pytest

from sparkflow_runtime.errors import NotFoundError, ResourceExhaustedError, UnknownError
from sparkflow_runtime.files import system, whole


def test_a_file_is_made_and_replaced_and_nothing_else_is_left(tmp_path):
    path = tmp_path / "file"
    for content in (b"one", b"another", b""):
        whole.write_whole(path, content)
        assert path.read_bytes() == content
        assert os.listdir(tmp_path) == ["file"]


def test_uris_of_this_host(tmp_path):
    whole.write_whole(f"file://{tmp_path}/file", b"content")
    assert (tmp_path / "file").read_bytes() == b"content"


def test_without_its_directory_a_file_is_not_written(tmp_path):
    with pytest.raises(NotFoundError, match="missing"):
        whole.write_whole(tmp_path / "missing" / "file", b"x")


@pytest.mark.parametrize("fails", ["fsync", "rename"])
def test_a_failure_leaves_what_was_there(tmp_path, monkeypatch, fails):
    path = tmp_path / "file"
    path.write_bytes(b"before")

    def fail(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail) if fails == "fsync" else monkeypatch.setattr(
        system, "rename", fail
    )
    with pytest.raises((ResourceExhaustedError, OSError), match="No space left"):
        whole.write_whole(path, b"after")
    assert path.read_bytes() == b"before"
    assert os.listdir(tmp_path) == ["file"]


def test_the_disk_has_the_content_before_the_name(tmp_path, monkeypatch):
    order = []
    for name in ("fsync", "replace", "rename"):
        real = getattr(os, name)

        def noted(*args, real=real, name=name, **others):
            order.append(name)
            return real(*args, **others)

        monkeypatch.setattr(os, name, noted)
    whole.write_whole(tmp_path / "file", b"x")
    renamed = [place for place, name in enumerate(order) if name != "fsync"]
    assert len(renamed) == 1
    assert order[: renamed[0]] == ["fsync"]  # of the content
    assert order[renamed[0] + 1 :] == ["fsync"]  # of the directory


def test_names_of_what_is_not_complete():
    name = whole.partial_name("/a/b/file")
    assert os.path.dirname(name) == "/a/b"
    assert whole.is_partial(os.path.basename(name))
    assert os.path.basename(name).startswith(".file.")
    assert whole.partial_name("/a/b/file") != name
    for other in ("file", ".file", ".file.partial", "file.0123456789abcdef.partial"):
        assert not whole.is_partial(other)


def test_what_dead_writers_left_goes_after_an_hour(tmp_path):
    old, new, other = (
        tmp_path / os.path.basename(whole.partial_name(name)) for name in ("file", "file", "g")
    )
    for path in (old, new, other):
        path.write_bytes(b"half")
    for path in (old, other):
        os.utime(path, (0, time.time() - whole._ABANDONED_S - 60))
    whole.write_whole(tmp_path / "file", b"x")
    left = set(os.listdir(tmp_path))
    assert left == {"file", new.name, other.name}  # `other` belongs to a different file
    whole.remove_partial(tmp_path)
    assert os.listdir(tmp_path) == ["file"]


def test_directories_of_file_systems_that_sync_none(tmp_path, monkeypatch):
    def refuse(_):
        raise OSError(22, "Invalid argument")

    monkeypatch.setattr(os, "fsync", refuse)
    whole.sync_directory(str(tmp_path))

    def fail(_):
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises((OSError, UnknownError), match="Input/output"):
        whole.sync_directory(str(tmp_path))


@pytest.mark.parametrize(
    ("path", "renames"),
    [("/a", True), ("file:///a", True), ("hdfs://h/a", True), ("s3://b/a", False)],
)
def test_object_stores_have_no_renaming(path, renames, monkeypatch):
    monkeypatch.setattr(whole, "is_local", lambda path: path.startswith(("/", "file:")))
    assert whole.renames(path) is renames

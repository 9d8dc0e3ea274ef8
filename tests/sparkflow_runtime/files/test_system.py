"""Local files and, with the same tests, files behind pyarrow."""

import functools

import pytest
from pyarrow import fs

from sparkflow_runtime import errors
from sparkflow_runtime.files import system


@pytest.fixture(params=["local", "arrow"])
def root(request, tmp_path, monkeypatch):
    if request.param == "local":
        return str(tmp_path)
    known = fs.SubTreeFileSystem(str(tmp_path), fs.LocalFileSystem())
    monkeypatch.setattr(system, "_elsewhere", lambda uri: (known, uri[len("s3://") :]))
    return "s3://bucket"


def write(path, data=b"data"):
    with system.open_file(path, "wb") as stream:
        stream.write(data)


def test_a_tree_of_files(root):
    system.make_dirs(f"{root}/a/b")
    write(f"{root}/a/one.txt")
    write(f"{root}/a/b/two.txt", b"two")
    write(f"{root}/a/.hidden")
    assert system.list_directory(f"{root}/a") == [".hidden", "b", "one.txt"]
    assert list(system.walk(f"{root}/a")) == [
        (f"{root}/a", ["b"], [".hidden", "one.txt"]),
        (f"{root}/a/b", [], ["two.txt"]),
    ]
    assert [top for top, _, _ in system.walk(f"{root}/a", in_order=False)][-1] == f"{root}/a"
    assert system.glob(f"{root}/a/*") == [f"{root}/a/.hidden", f"{root}/a/b", f"{root}/a/one.txt"]
    assert system.glob(f"{root}/*/*/t?o.[tx]xt") == [f"{root}/a/b/two.txt"]
    assert system.glob([f"{root}/a/one.txt", f"{root}/none"]) == [f"{root}/a/one.txt"]
    assert system.read_file(f"{root}/a/b/two.txt") == b"two"
    assert system.statistics(f"{root}/a/b/two.txt").length == 3
    assert system.statistics(f"{root}/a").is_directory
    system.delete_recursively(f"{root}/a")
    assert not system.exists(f"{root}/a")


def test_rename_and_copy_ask_before_they_replace(root):
    system.make_dirs(f"{root}/d")
    one, two = f"{root}/d/1", f"{root}/d/2"
    write(one, b"1")
    write(two, b"2")
    for act in (system.rename, system.copy):
        with pytest.raises(errors.AlreadyExistsError, match="already exists"):
            act(one, two)
    system.copy(one, two, overwrite=True)
    assert system.read_file(two) == b"1"
    system.rename(one, f"{root}/d/3")
    assert system.list_directory(f"{root}/d") == ["2", "3"]
    for act in (system.rename, system.copy):
        with pytest.raises(errors.NotFoundError):
            act(one, f"{root}/d/4")


def test_what_is_missing_is_named(root):
    path = f"{root}/none"
    for act in (
        system.read_file,
        system.statistics,
        system.list_directory,
        system.remove,
        system.delete_recursively,
    ):
        with pytest.raises(errors.NotFoundError, match="none"):
            act(path)
    assert not system.exists(path)
    assert not system.is_directory(path)
    assert list(system.walk(path)) == []


def test_directories_are_not_files(root):
    system.make_dirs(f"{root}/d")
    with pytest.raises(errors.AlreadyExistsError):
        system.make_dir(f"{root}/d")
    with pytest.raises(errors.FailedPreconditionError):
        system.remove(f"{root}/d")
    system.make_dir(f"{root}/d/e")
    assert system.is_directory(f"{root}/d/e")


def test_local_paths_in_other_spellings(tmp_path):
    write(tmp_path / "a b", b"1")
    assert system.read_file(str(tmp_path / "a b").encode()) == b"1"
    assert system.read_file(f"file://{tmp_path}/a b") == b"1"
    with pytest.raises(errors.FailedPreconditionError, match="Is a directory"):
        system.read_file(tmp_path)
    with pytest.raises(errors.InvalidArgumentError):
        system.read_file("a\0b")
    with pytest.raises(errors.NotFoundError):
        system.make_dir(tmp_path / "x" / "y")


def test_glob_below_the_working_directory(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write("x.txt")
    assert system.glob("*.txt") == ["x.txt"]


def test_unknown_schemes_are_refused():
    with pytest.raises(errors.UnimplementedError, match="scheme 'foo' not implemented"):
        system.read_file("foo://x/y")


def test_the_names_that_hadoop_has_for_s3():
    assert system.arrow_uri("s3a://bucket/a") == system.arrow_uri("s3n://bucket/a")
    assert system.arrow_uri("s3a://bucket/a") == "s3://bucket/a"
    assert system.arrow_uri("hdfs://s3a/a") == "hdfs://s3a/a"
    assert system.arrow_uri("/s3a:/a") == "/s3a:/a"


def test_a_server_of_gs_is_given_up() -> None:
    """pyarrow's own limit is 15 minutes, longer than anybody waits."""
    assert system.arrow_uri("gs://bucket/a") == "gs://bucket/a?retry_limit_seconds=60"
    assert system.arrow_uri("gs://b/a?x=1") == "gs://b/a?x=1&retry_limit_seconds=60"
    asked = "gs://b/a?retry_limit_seconds=5"
    assert system.arrow_uri(asked) == asked
    found, inner, head = system.resolve("gs://anonymous@bucket/a/b")
    assert (inner, head) == ("bucket/a/b", "gs://anonymous@")
    assert isinstance(found, system.ArrowFiles)


class Flat:
    """A store that cannot rename, like Azure accounts without directories; `done` was called."""

    def __init__(self):
        self._local = fs.LocalFileSystem()
        self.done = []

    def move(self, source, target):
        raise NotImplementedError("move")

    def __getattr__(self, name):
        self.done.append(name)
        return getattr(self._local, name)


def test_a_store_that_cannot_rename_copies(tmp_path):
    flat = Flat()
    files = system.ArrowFiles(flat)
    (tmp_path / "new").write_bytes(b"new")
    (tmp_path / "old").write_bytes(b"old")
    files.move(str(tmp_path / "new"), str(tmp_path / "old"))
    assert (tmp_path / "old").read_bytes() == b"new"
    assert not (tmp_path / "new").exists()
    assert flat.done == ["get_file_info", "copy_file", "delete_file"]
    (tmp_path / "folder").mkdir()
    with pytest.raises(NotImplementedError):
        files.move(str(tmp_path / "folder"), str(tmp_path / "other"))


@pytest.mark.parametrize(
    ("failures", "longest_s", "is_moved"),
    [
        (["[LeaseIdMissing] 412 There is currently a lease"] * 2, 60.0, True),
        (["[LeaseIdMissing] 412 There is currently a lease"] * 2, 0.0, False),
        (["[AuthorizationFailure] 403"], 60.0, False),
    ],
    ids=["until the lease ends", "not for ever", "of leases only"],
)
def test_a_target_on_lease_is_waited_for(tmp_path, monkeypatch, failures, longest_s, is_moved):
    """A process that died while deleting it has left the lease."""
    monkeypatch.setattr(system, "_LEASE_S", longest_s)
    monkeypatch.setattr(system, "_LEASE_LOOK_S", 0.01)
    left = list(failures)

    class Leased(Flat):
        def copy_file(self, source, target):
            if left:
                raise OSError(f"Azure Error: {left.pop(0)}")
            self._local.copy_file(source, target)

    (tmp_path / "new").write_bytes(b"new")
    move = functools.partial(
        system.ArrowFiles(Leased()).move, str(tmp_path / "new"), str(tmp_path / "old")
    )
    if is_moved:
        move()
        assert (tmp_path / "old").read_bytes() == b"new"
    else:
        with pytest.raises(OSError, match="Azure Error"):
            move()
        assert (tmp_path / "new").exists()

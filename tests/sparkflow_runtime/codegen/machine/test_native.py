"""Machine code is called with arrays, rejects what does not fit, and is cached on disk."""

from __future__ import annotations

import ast
import multiprocessing
import os
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from sparkflow_runtime.codegen.machine import entry, linking, native
from sparkflow_runtime.codegen.machine.object_cache import ObjectCache, default_folder
from sparkflow_runtime.errors import InvalidArgumentError
from sparkflow_runtime.once import Once

needs_llvm = pytest.mark.skipif(not native.available(), reason="llvmlite is not installed")

ADD_PART_AND_SIZE = """
define void @body(ptr %sizes, ptr %arrays, i64 %lo, i64 %hi, i64 %part) {
start:
  %source = load ptr, ptr %arrays
  %at_target = getelementptr ptr, ptr %arrays, i64 1
  %target = load ptr, ptr %at_target
  %size = load i64, ptr %sizes
  br label %test
test:
  %i = phi i64 [%lo, %start], [%next, %loop]
  %more = icmp slt i64 %i, %hi
  br i1 %more, label %loop, label %end
loop:
  %from = getelementptr i64, ptr %source, i64 %i
  %x = load i64, ptr %from
  %y = add i64 %x, %size
  %z = add i64 %y, %part
  %to = getelementptr i64, ptr %target, i64 %i
  store i64 %z, ptr %to
  %next = add i64 %i, 1
  br label %test
end:
  ret void
}
"""


@needs_llvm
@pytest.mark.parametrize("releases_gil", [False, True])
def test_a_body_runs_over_its_extent(releases_gil: bool) -> None:
    call = native.body(ADD_PART_AND_SIZE).bind([100], [6, 6], 5, releases_gil=releases_gil)
    source, target = np.arange(6), np.zeros(6, np.int64)
    assert call(source, target) is True
    assert target.tolist() == [100, 101, 102, 103, 104, 0]


@needs_llvm
def test_what_does_not_fit_is_refused_and_left_alone() -> None:
    call = native.body(ADD_PART_AND_SIZE).bind([1], [4, 4], 4)
    target = np.zeros(4, np.int64)
    source = np.arange(4)
    for given in (
        (source,),
        (source, target, target),
        (np.arange(5), target),
        (np.arange(8)[::2], target),
        ([0, 1, 2, 3], target),
        (np.int64(3), target),
        (np.ma.masked_array(source), target),
    ):
        assert call(*given) is False
    assert not target.any()
    assert call(source.reshape(2, 2), target.reshape(2, 2)) is True
    assert target.tolist() == [1, 2, 3, 4]


@needs_llvm
def test_an_array_that_is_not_counted_may_have_any_strides() -> None:
    call = native.body(ADD_PART_AND_SIZE).bind([1], [entry.NOT_COUNTED, 1], 1)
    target = np.zeros(1, np.int64)
    assert call(np.arange(9).reshape(3, 3)[:, 1], target) is True
    assert target.tolist() == [2]


@needs_llvm
def test_calls_leave_no_reference_behind() -> None:
    import sys

    call = native.body(ADD_PART_AND_SIZE).bind([1], [4, 4], 4)
    source, target = np.arange(4), np.zeros(4, np.int64)
    before = sys.getrefcount(source), sys.getrefcount(target)
    for _ in range(1000):
        call(source, target)
        call(source, 1)
    assert (sys.getrefcount(source), sys.getrefcount(target)) == before


def test_a_stored_object_is_found_again(tmp_path: Path) -> None:
    folder = tmp_path / "kernels"
    ObjectCache(folder).store("key", b"code")
    assert ObjectCache(folder).load("key") == b"code"
    assert ObjectCache(folder).load("other") is None


def test_a_torn_file_is_not_used(tmp_path: Path) -> None:
    cache = ObjectCache(tmp_path / "kernels")
    cache.store("key", b"code")
    path = tmp_path / "kernels" / "key"
    path.write_bytes(path.read_bytes()[:-1])
    assert cache.load("key") is None


def test_a_folder_that_others_may_write_to_is_not_used(tmp_path: Path) -> None:
    folder = tmp_path / "kernels"
    cache = ObjectCache(folder)
    cache.store("key", b"code")
    os.chmod(folder, 0o777)  # noqa: S103  (what the test is about)
    assert cache.load("key") is None
    cache.store("new", b"code")
    assert not (folder / "new").exists()


def test_a_folder_that_cannot_be_made_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    cache = ObjectCache(tmp_path / "file" / "kernels")
    cache.store("key", b"code")
    assert cache.load("key") is None


def test_the_longest_unused_half_makes_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sparkflow_runtime.codegen.machine.object_cache.MAX_FILES", 4)
    monkeypatch.setattr("sparkflow_runtime.codegen.machine.object_cache._LOOK_EVERY", 1)
    cache = ObjectCache(tmp_path / "kernels")
    for number in range(6):
        cache.store(f"key{number}", b"code")
        os.utime(tmp_path / "kernels" / f"key{number}", (number, number))
    assert cache.load("key0") is None
    assert cache.load("key5") == b"code"


def test_processes_and_threads_share_a_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All look, write and evict concurrently; a file that is found is complete."""
    monkeypatch.setattr("sparkflow_runtime.codegen.machine.object_cache.MAX_FILES", 8)
    monkeypatch.setattr("sparkflow_runtime.codegen.machine.object_cache._LOOK_EVERY", 1)
    folder = tmp_path / "kernels"

    def work(seed: int) -> int:
        cache, found = ObjectCache(folder), 0
        for number in range(200):
            name = str((seed + number) * 7 % 24)
            code = cache.load(name)
            assert code in (None, name.encode() * 1000)
            found += code is not None
            cache.store(name, name.encode() * 1000)
        return found

    children = [multiprocessing.get_context("fork").Process(target=work, args=(i,)) for i in (0, 5)]
    for child in children:
        child.start()
    with ThreadPoolExecutor(2) as pool:
        assert sum(pool.map(work, (10, 15))) > 0
    for child in children:
        child.join()
    assert [child.exitcode for child in children] == [0, 0]
    assert not [each for each in folder.iterdir() if each.name.startswith(".new-")]


def test_the_environment_names_the_folder() -> None:
    assert default_folder({"SPARKFLOW_KERNEL_CACHE": ""}) is None
    assert str(default_folder({"SPARKFLOW_KERNEL_CACHE": "/k"})) == "/k"
    assert str(default_folder({"XDG_CACHE_HOME": "/c", "HOME": "/h"})) == "/c/sparkflow/kernels"
    assert str(default_folder({"HOME": "/h"})) == "/h/.cache/sparkflow/kernels"
    assert default_folder({}) is None
    relative = {"XDG_CACHE_HOME": "c", "HOME": "/h"}
    assert str(default_folder(relative)) == "/h/.cache/sparkflow/kernels"
    with pytest.raises(InvalidArgumentError, match="SPARKFLOW_KERNEL_CACHE is 'off', which is not"):
        default_folder({"SPARKFLOW_KERNEL_CACHE": "off"})


@needs_llvm
def test_described_text_is_written_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = ObjectCache(tmp_path / "kernels")
    monkeypatch.setattr(linking, "_disk", lambda: cache)
    written = []

    def write() -> str:
        written.append(1)
        return ADD_PART_AND_SIZE

    body = native.described_body(f"in {tmp_path}", write)
    target = np.zeros(2, np.int64)
    assert body.bind([3], [2, 2], 2)(np.arange(2), target)
    assert target.tolist() == [3, 4]
    loaded: list[bytes] = []
    monkeypatch.setattr(linking, "_linked", Once())  # as in another process

    def load(key: str, code: bytes, names: tuple[str, ...]) -> linking.Linked:
        loaded.append(code)
        return body._linked

    monkeypatch.setattr(linking, "_load", load)
    native.described_body(f"in {tmp_path}", write)
    assert written == [1]
    assert len(loaded) == 1


@needs_llvm
def test_what_a_function_writes_is_written_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = ObjectCache(tmp_path / "kernels")
    monkeypatch.setattr(linking, "_disk", lambda: cache)
    name = str(tmp_path)
    written = []

    def add(size_bits: int, name: str) -> str:
        written.append((size_bits, name))
        return ADD_PART_AND_SIZE.replace("i64 %x, %size", f"i{size_bits} %x, %size")

    body = native.written_body(add, (64, name))
    assert native.written_body(add, (64, name)) is body
    with pytest.raises(RuntimeError, match="i32"):
        native.written_body(add, (32, name))  # a different text with the same code
    assert written == [(64, name), (32, name)]
    monkeypatch.setattr(linking, "_linked", Once())  # as in another process
    monkeypatch.setattr(linking, "_load", lambda *_: body._linked)
    native.written_body.__wrapped__(add, (64, name))
    assert written == [(64, name), (32, name)]


def test_text_that_depends_on_arguments_is_written_where_nothing_was_compiled() -> None:
    """No module of `codegen` writes such text before it looks it up."""
    written_before = []
    for path in Path(native.__file__).parents[1].rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if not (isinstance(node, ast.Call) and ast.unparse(node.func) == "native.body"):
                continue
            text = node.args[0]
            if isinstance(text, ast.Call) and text.args and ast.unparse(text.func).endswith("text"):
                written_before.append(f"{path.name}:{node.lineno}")
    assert not written_before


def test_described_text_is_written_anew_where_a_generator_has_changed(tmp_path: Path) -> None:
    codegen = Path(native.__file__).parents[1]
    known = [path.read_bytes() for path in codegen.rglob("*.py")]
    sources = list(native._sources(codegen))
    assert sorted(sources) == sorted(known)
    assert (codegen / "cpu" / "loops.py").read_bytes() in sources


def test_the_sources_of_a_zipped_package_are_those_of_its_folder(tmp_path: Path) -> None:
    codegen = Path(native.__file__).parents[1]
    archive = tmp_path / "zipped.whl"
    with zipfile.ZipFile(archive, "w") as target:
        for path in codegen.rglob("*.py"):
            target.write(path, path.relative_to(codegen.parent))
    found = list(native._sources(zipfile.Path(archive, "codegen/")))
    assert found == list(native._sources(codegen))
    assert len(found) > 20

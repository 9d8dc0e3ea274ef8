"""Folders and files that others may have written are never read, whatever replaces them."""

from __future__ import annotations

import errno
import hashlib
import multiprocessing
import os
import time
from pathlib import Path

import pytest

from sparkflow_runtime.codegen.machine.object_cache import ObjectCache
from sparkflow_runtime.codegen.machine.private_folder import (
    NotPrivateError,
    open_private,
    read_private,
)

needs_root = pytest.mark.skipif(os.getuid() != 0, reason="only root can be two users")
OTHER = 65534


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder of this user's. pytest's own is below /tmp, which is sticky."""
    path = tmp_path / "a" / "b"
    os.close(open_private(path, make=True))
    return path


def mode_of(path: Path) -> int:
    return path.stat().st_mode & 0o777


def test_what_is_missing_is_made_for_this_user_alone(folder: Path) -> None:
    assert mode_of(folder) == mode_of(folder.parent) == 0o700
    with pytest.raises(FileNotFoundError):
        open_private(folder / "c")


@pytest.mark.parametrize("mode", [0o720, 0o702, 0o777, 0o1777])
def test_a_folder_that_others_may_write_to(folder: Path, mode: int) -> None:
    os.chmod(folder, mode)
    with pytest.raises(NotPrivateError, match="lets others write"):
        open_private(folder)


def test_what_leads_there(folder: Path) -> None:
    os.chmod(folder.parent, 0o777)  # noqa: S103  (what the test is about)
    with pytest.raises(NotPrivateError, match="anyone may write"):
        open_private(folder)
    for mode in (0o1777, 0o770):
        os.chmod(folder.parent, mode)
        os.close(open_private(folder))


def test_own_links_are_followed(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "absolute").symlink_to(folder.parent)
    (folder.parent / "relative").symlink_to("../a/./b")
    found = open_private(tmp_path / "absolute" / "relative")
    assert os.path.samestat(os.fstat(found), folder.stat())
    os.close(found)
    (tmp_path / "round").symlink_to("round")
    with pytest.raises(OSError, match="too many"):
        open_private(tmp_path / "round")
    (folder / "file").write_text("")
    with pytest.raises(NotADirectoryError):
        open_private(folder / "file")


def test_files(folder: Path, tmp_path: Path) -> None:
    opened = open_private(folder)
    (folder / "good").write_bytes(b"x")
    os.chmod(folder / "good", 0o644)
    assert read_private("good", opened) == b"x"
    os.chmod(folder / "good", 0o664)
    with pytest.raises(NotPrivateError):
        read_private("good", opened)
    (tmp_path / "elsewhere").write_bytes(b"y")
    (folder / "link").symlink_to(tmp_path / "elsewhere")
    os.mkfifo(folder / "pipe")
    os.mkdir(folder / "folder")
    for name in ("link", "pipe", "folder", "none"):
        with pytest.raises(OSError):  # noqa: PT011  (each its own)
            read_private(name, opened)
    os.close(opened)


@needs_root
def test_what_belongs_to_another(folder: Path, tmp_path: Path) -> None:
    opened = open_private(folder)
    (folder / "file").write_bytes(b"x")
    os.chown(folder / "file", OTHER, -1)
    with pytest.raises(NotPrivateError, match="others may have written"):
        read_private("file", opened)
    os.close(opened)
    (tmp_path / "link").symlink_to(folder)
    os.chown(tmp_path / "link", OTHER, -1, follow_symlinks=False)
    with pytest.raises(NotPrivateError, match=f"link of uid {OTHER}"):
        open_private(tmp_path / "link")
    for path in (folder, folder.parent):
        os.chown(path, OTHER, -1)
        with pytest.raises(NotPrivateError, match=f"belongs to uid {OTHER}"):
            open_private(folder)


def test_a_deleted_folder_is_opened_anew(folder: Path) -> None:
    cache = ObjectCache(folder)
    cache.store("key", b"code")
    (folder / "key").unlink()
    folder.rmdir()
    assert cache.load("key") is None
    cache.store("key", b"again")
    assert cache.load("key") == ObjectCache(folder).load("key") == b"again"


def _swap(parent: str, stop: float) -> None:
    """Acts like the parent folder's owner: puts his own folder there, and removes it."""
    os.setgid(OTHER)
    os.setuid(OTHER)
    while time.monotonic() < stop:
        os.rename(f"{parent}/kernels", f"{parent}/theirs")
        os.rename(f"{parent}/mine", f"{parent}/kernels")
        os.rename(f"{parent}/kernels", f"{parent}/mine")
        os.rename(f"{parent}/theirs", f"{parent}/kernels")


@needs_root
@pytest.mark.parametrize("is_other_parent", [True, False])
def test_a_race_for_the_path_is_never_won(
    tmp_path: Path, is_other_parent: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`kernels` is ours, `mine` the other user's, who exchanges them for two seconds.

    If parents are checked, nothing is ever read; and without that check (`is_other_parent` False)
    nothing that he wrote.
    """
    parent = tmp_path / "parent"
    (parent / "kernels").mkdir(parents=True)
    os.chmod(parent / "kernels", 0o700)
    (parent / "mine").mkdir()
    for name, code in (("kernels", b"ours"), ("mine", b"evil")):
        (parent / name / "key").write_bytes(hashlib.sha256(code).digest() + code)
    for path in (parent, parent / "mine", parent / "mine" / "key"):
        os.chown(path, OTHER, OTHER)
    for path in (tmp_path.parent, tmp_path):
        os.chmod(path, 0o755)  # noqa: S103  (the other user has to come through)
    if not is_other_parent:
        monkeypatch.setattr(
            "sparkflow_runtime.codegen.machine.private_folder._require_leading", lambda *_: None
        )
    stop = time.monotonic() + 2
    context = multiprocessing.get_context("fork")
    other = context.Process(target=_swap, args=(str(parent), stop))
    other.start()
    found = set()
    while time.monotonic() < stop:
        found.add(ObjectCache(parent / "kernels").load("key"))
    other.join(10)
    assert b"evil" not in found
    assert (found == {None}) == is_other_parent


def test_a_file_system_that_is_only_read_has_kernels_as_well(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ObjectCache(folder).store("key", b"code")

    def refuse(*_: object) -> None:
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr(os, "utime", refuse)
    assert ObjectCache(folder).load("key") == b"code"

"""Compiled machine code on disk, found again by the content it was made from.

A file holds a checksum and an object file. The folder must belong to this user alone: what lies in
it is executed. Whatever goes wrong with the disk costs a compilation, nothing else.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Final

VARIABLE: Final = "SPARKFLOW_KERNEL_CACHE"
"""The environment variable that names the folder; empty for no cache on disk."""
MAX_FILES: Final = 16384
"""Above so many files, the half that was not used for longest is deleted."""
_DIGEST_BYTES: Final = 32
_LOOK_EVERY: Final = 256
"""To count the files takes longer than to write one."""


def default_folder(environ: Mapping[str, str]) -> Path | None:
    """Where an environment says that compiled kernels lie; None for nowhere.

    That is `SPARKFLOW_KERNEL_CACHE`, else `sparkflow/kernels` in `XDG_CACHE_HOME` or `~/.cache`.
    """
    chosen = environ.get(VARIABLE)
    if chosen is not None:
        return Path(chosen) if chosen else None
    base = environ.get("XDG_CACHE_HOME")
    if base:
        return Path(base) / "sparkflow" / "kernels"
    home = environ.get("HOME")
    return Path(home) / ".cache" / "sparkflow" / "kernels" if home else None


class ObjectCache:
    """Object files by key. Processes and threads may share a folder.

    Args:
        folder: Made when something is first stored; None keeps nothing.
    """

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._stored = 0

    def load(self, key: str) -> bytes | None:
        """The object stored under a key; None where there is none that is whole."""
        if self._folder is None or not _is_private(self._folder):
            return None
        path = self._folder / key
        try:
            content = path.read_bytes()
        except OSError:
            return None
        digest, code = content[:_DIGEST_BYTES], content[_DIGEST_BYTES:]
        if hashlib.sha256(code).digest() != digest:
            return None
        with contextlib.suppress(OSError):
            os.utime(path)
        return code

    def store(self, key: str, code: bytes) -> None:
        """Keeps an object under a key, if the disk lets us."""
        if self._folder is None:
            return
        with contextlib.suppress(OSError):
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            if not _is_private(self._folder):
                return
            if self._stored % _LOOK_EVERY == 0:
                self._make_room()
            self._stored += 1
            handle, name = tempfile.mkstemp(dir=self._folder, prefix=".new-")
            try:
                with os.fdopen(handle, "wb") as file:
                    file.write(hashlib.sha256(code).digest())
                    file.write(code)
                os.replace(name, self._folder / key)
            except OSError:
                os.unlink(name)
                raise

    def _make_room(self) -> None:
        assert self._folder is not None
        files = []
        with os.scandir(self._folder) as entries:
            for entry in entries:
                with contextlib.suppress(FileNotFoundError):  # another process makes room, too
                    files.append((entry.stat().st_mtime, entry.path))
        if len(files) <= MAX_FILES:
            return
        for _, path in sorted(files)[: len(files) // 2]:
            with contextlib.suppress(OSError):
                os.unlink(path)


def _is_private(folder: Path) -> bool:
    """Whether nobody else can have put a file there."""
    try:
        status = folder.stat()
    except OSError:
        return False
    return status.st_uid == os.getuid() and not status.st_mode & 0o022

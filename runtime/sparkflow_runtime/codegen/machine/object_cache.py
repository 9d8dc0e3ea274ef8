"""An on-disk cache of compiled machine code, keyed by the content it was compiled from.

A file holds a checksum and an object file. The folder's contents are executed, so they are read
only if nobody else can have written them (`private_folder`). A disk error costs a compilation,
nothing else.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from sparkflow_runtime.codegen.machine.private_folder import (
    NotPrivateError,
    open_private,
    read_private,
    require_private,
)
from sparkflow_runtime.errors import InvalidArgumentError

_log = logging.getLogger(__name__)

VARIABLE: Final = "SPARKFLOW_KERNEL_CACHE"
"""The environment variable that names the folder, an absolute path; empty for no cache on disk."""
MAX_FILES: Final = 16384
"""Above this many files, the least recently used half is deleted."""
_DIGEST_BYTES: Final = 32
_LOOK_EVERY: Final = 256
"""Writes between counts of the files: counting takes longer than writing one."""


def default_folder(environ: Mapping[str, str]) -> Path | None:
    """Returns the cache folder that an environment specifies; None for no cache on disk.

    That is `SPARKFLOW_KERNEL_CACHE`, else `sparkflow/kernels` in `XDG_CACHE_HOME` or `~/.cache`.
    A relative `XDG_CACHE_HOME` is ignored, as the XDG specification demands.

    Raises:
        InvalidArgumentError: `SPARKFLOW_KERNEL_CACHE` is a relative path.
    """
    chosen = environ.get(VARIABLE)
    if chosen is not None:
        if chosen and not os.path.isabs(chosen):
            raise InvalidArgumentError(
                message=f"{VARIABLE} is {chosen!r}, which is not an absolute path: give one, or "
                "set it to an empty string to keep no kernels on disk"
            )
        return Path(chosen) if chosen else None
    base = environ.get("XDG_CACHE_HOME")
    if base and os.path.isabs(base):
        return Path(base) / "sparkflow" / "kernels"
    home = environ.get("HOME")
    return Path(home) / ".cache" / "sparkflow" / "kernels" if home else None


class ObjectCache:
    """Object files by key. Processes and threads may share a folder.

    The folder is opened at first use and stays open; it is reopened if it was deleted in the
    meantime.

    Args:
        folder: Created when something is first stored; None stores nothing.
    """

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._stored = 0
        self._opening = threading.Lock()  # guards `_opened` and `_was_refused`
        self._opened: int | None = None
        self._was_refused = False

    def __del__(self) -> None:
        if self._opened is not None:
            os.close(self._opened)

    def load(self, key: str) -> bytes | None:
        """Returns the object stored under a key; None if none is intact and this user's."""
        folder = self._directory(make=False)
        if folder is None:
            return None
        try:
            content = read_private(key, folder)
        except OSError:
            return None
        digest, code = content[:_DIGEST_BYTES], content[_DIGEST_BYTES:]
        return code if hashlib.sha256(code).digest() == digest else None

    def store(self, key: str, code: bytes) -> None:
        """Stores an object under a key, if the disk allows it."""
        folder = self._directory(make=True)
        if folder is None:
            return
        with contextlib.suppress(OSError):
            if self._stored % _LOOK_EVERY == 0:
                self._make_room(folder)
            self._stored += 1
            name = f".new-{os.urandom(8).hex()}"
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            with open(os.open(name, flags, 0o600, dir_fd=folder), "wb") as file:
                try:
                    file.write(hashlib.sha256(code).digest())
                    file.write(code)
                    file.flush()
                    os.replace(name, key, src_dir_fd=folder, dst_dir_fd=folder)
                except OSError:
                    os.unlink(name, dir_fd=folder)
                    raise

    def _directory(self, make: bool) -> int | None:
        """Returns the open folder; None if there is none that can be used."""
        if self._folder is None:
            return None
        with self._opening:
            try:
                if self._opened is not None:
                    try:
                        require_private(self._opened, str(self._folder))
                        return self._opened
                    except FileNotFoundError:
                        # Not closed: another thread may be about to use it.
                        self._opened = None
                self._opened = open_private(self._folder, make)
            except NotPrivateError as error:
                if not self._was_refused:
                    self._was_refused = True
                    _log.warning(
                        "Compiled kernels are not kept in %s: %s: %s. Kernels are compiled in "
                        "every process; set %s to a folder of your own",
                        self._folder,
                        error.filename,
                        error.strerror,
                        VARIABLE,
                    )
                return None
            except OSError:
                return None
            return self._opened

    def _make_room(self, folder: int) -> None:
        files = []
        with os.scandir(folder) as entries:
            for entry in entries:
                with contextlib.suppress(FileNotFoundError):  # another process deletes, too
                    files.append((entry.stat(follow_symlinks=False).st_mtime, entry.name))
        if len(files) <= MAX_FILES:
            return
        for _, name in sorted(files)[: len(files) // 2]:
            with contextlib.suppress(OSError):
                os.unlink(name, dir_fd=folder)

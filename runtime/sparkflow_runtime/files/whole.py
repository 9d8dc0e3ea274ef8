"""Atomic writing of files, on every storage that `files.system` supports.

On this host, and wherever renames are atomic, the content is written to a temporary name next to
the target, synced and then renamed, so that a crash at any moment leaves the old file or the new
one. In object stores a file appears once its last byte has arrived, so it is written under its own
name. An exception is Azure (`abfs:`), where pyarrow first creates an empty file: there, too, the
content is written to a temporary name. Accounts with directories (a hierarchical namespace) rename
it; others copy it, which the store completes once begun.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import secrets
import time
from collections.abc import Iterator
from typing import Any

from sparkflow_runtime.files import system
from sparkflow_runtime.files.errors import translated

_WITHOUT_SYNC = (errno.EINVAL, errno.ENOTSUP, errno.EACCES, errno.EPERM)
"""Errors of file systems that do not sync directories, or not for this user."""
_PARTIAL = re.compile(r"\.(.+)\.[0-9a-f]{16}\.partial")
_ABANDONED_S = 3600
"""Upper bound of the time to write a file."""
_RENAMING = ("hdfs:", "viewfs:", "abfs:", "abfss:")


def write_whole(path: Any, content: bytes) -> None:
    """Creates or replaces a file atomically with these bytes.

    Blocks until they are on the disk, if the file is on this host.

    Args:
        path: A path or URI; its directory exists.
        content: The bytes.

    Raises:
        NotFoundError, PermissionDeniedError, ResourceExhaustedError, ...: The file could not be
            written. Partial files are removed, and an existing file is unchanged, unless only
            syncing the directory failed, or a temporary file on Azure could not be removed: then it
            is the new one.
    """
    path = system.as_text(path)
    if not renames(path):
        write_through(path, content)
        return
    temporary = partial_name(path)
    try:
        write_through(temporary, content)
        system.rename(temporary, path, overwrite=True)
    except BaseException:
        with contextlib.suppress(Exception):  # the first failure is the one to report
            system.remove(temporary)
        raise
    if is_local(path):
        inner = system.resolve(path)[1]
        with translated(path):
            sync_directory(os.path.dirname(inner))
        _remove_abandoned(inner)


def write_through(path: Any, content: bytes) -> None:
    """Writes a file under its own name and, on this host, waits until it is on the disk.

    Raises:
        NotFoundError, PermissionDeniedError, ResourceExhaustedError, ...: It could not be written
            completely.
    """
    path = system.as_text(path)
    with translated(f"{path} ({len(content):,} bytes)"), system.open_file(path, "wb") as stream:
        stream.write(content)
        stream.flush()
        if is_local(path):
            os.fsync(stream.fileno())


def partial_name(path: str) -> str:
    """Returns a temporary name, in the same directory, for an incomplete file.

    `remove_partial` recognises such names. They begin with a dot, so that neither Hadoop nor
    patterns treat such a file as part of a data set.
    """
    directory, name = os.path.split(path)
    return os.path.join(directory, f".{name}.{secrets.token_hex(8)}.partial")


def is_partial(name: str) -> bool:
    """Whether `partial_name` returned the file's name."""
    return _PARTIAL.fullmatch(name) is not None


def _remove_abandoned(path: str) -> None:
    """Deletes partial files that writers of a local file left when they died long ago."""
    directory, name = os.path.split(path)
    oldest = time.time() - _ABANDONED_S
    with contextlib.suppress(OSError):
        for entry in os.scandir(directory or "."):
            match = _PARTIAL.fullmatch(entry.name)
            if match is not None and match[1] == name and entry.stat().st_mtime < oldest:
                os.unlink(entry)


def remove_partial(directory: Any) -> None:
    """Deletes partial files of dead writers in a directory. For a directory with one writer."""
    directory = system.as_text(directory)
    for name in filter(is_partial, system.list_directory(directory)):
        path = system.join(directory, name)
        system.delete_recursively(path)


def renames(path: str) -> bool:
    """Whether files there are written to a temporary name, then renamed atomically."""
    return is_local(path) or path.startswith(_RENAMING)


def is_local(path: str) -> bool:
    """Whether a path is on this host."""
    return system.resolve(path)[0] is system.LOCAL


def sync_file(path: Any) -> None:
    """Waits until a local file is on the disk. Raises OSError."""
    with open(system.local_path(path), "rb") as stream, naming(stream.name):
        os.fsync(stream.fileno())


@contextlib.contextmanager
def naming(path: str) -> Iterator[None]:
    """Adds the path to an OSError from a call that knows only a descriptor."""
    try:
        yield
    except OSError as error:
        error.filename = error.filename or path
        raise


def sync_directory_of(path: str) -> None:
    """Syncs the directory of a file, if it is on this host."""
    if is_local(path):
        sync_directory(os.path.dirname(system.resolve(path)[1]))


def sync_directory(directory: str) -> None:
    """Syncs a local directory. Raises OSError."""
    descriptor = os.open(directory or ".", os.O_RDONLY)
    try:
        with naming(directory):
            os.fsync(descriptor)
    except OSError as error:
        if error.errno not in _WITHOUT_SYNC:
            raise
    finally:
        os.close(descriptor)

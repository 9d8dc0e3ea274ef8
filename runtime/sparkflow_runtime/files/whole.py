"""Atomic writing of files, on every storage that `files.system` supports.

On this host, and wherever a name can be given to a file at once, the content is written under
another name beside the target, handed to the disk and then renamed, so that a death at any moment
leaves the file that was there or the new one. In object stores a file appears when its last byte
has come, so that it is written under its own name. Not so on Azure (`abfs:`), where pyarrow
makes an empty one first: there, too, the content is written aside. Accounts with directories (a
hierarchical namespace) rename it; the others copy it, which is the store's work once it has begun.
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
"""How file systems say that they sync no directories, or not for us."""
_PARTIAL = re.compile(r"\.(.+)\.[0-9a-f]{16}\.partial")
_ABANDONED_S = 3600
"""No file takes longer to be written."""
_RENAMING = ("hdfs:", "viewfs:", "abfs:", "abfss:")


def write_whole(path: Any, content: bytes) -> None:
    """Creates or replaces a file atomically with these bytes.

    Blocks until the disk has them, where the file is on this host.

    Args:
        path: A path or URI; its directory exists.
        content: The bytes.

    Raises:
        NotFoundError, PermissionDeniedError, ResourceExhaustedError, ...: The file could not be
            written. What had been written is removed, and what was there before is as it was,
            unless only the disk would not confirm the file's name, or what was written aside on
            Azure could not be removed: then it is the new one.
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
        with contextlib.suppress(Exception):  # the reason for the failure is what matters
            system.remove(temporary)
        raise
    if is_local(path):
        inner = system.resolve(path)[1]
        with translated(path):
            sync_directory(os.path.dirname(inner))
        _remove_abandoned(inner)


def write_through(path: Any, content: bytes) -> None:
    """Writes a file under its own name and, on this host, waits until the disk has it.

    Raises:
        NotFoundError, PermissionDeniedError, ResourceExhaustedError, ...: It could not be written,
            or not to its end.
    """
    path = system.as_text(path)
    with translated(f"{path} ({len(content):,} bytes)"), system.open_file(path, "wb") as stream:
        stream.write(content)
        stream.flush()
        if is_local(path):
            os.fsync(stream.fileno())


def partial_name(path: str) -> str:
    """A new name beside a file's own, for what is not complete.

    `remove_partial` knows such names. They begin with a dot, so that neither Hadoop nor patterns
    take such a file for one of a data set.
    """
    directory, name = os.path.split(path)
    return os.path.join(directory, f".{name}.{secrets.token_hex(8)}.partial")


def is_partial(name: str) -> bool:
    """Whether a file's name is one that `partial_name` gave."""
    return _PARTIAL.fullmatch(name) is not None


def _remove_abandoned(path: str) -> None:
    """Deletes what writers of a file of this host have left that died long ago."""
    directory, name = os.path.split(path)
    oldest = time.time() - _ABANDONED_S
    with contextlib.suppress(OSError):
        for entry in os.scandir(directory or "."):
            match = _PARTIAL.fullmatch(entry.name)
            if match is not None and match[1] == name and entry.stat().st_mtime < oldest:
                os.unlink(entry)


def remove_partial(directory: Any) -> None:
    """Deletes what writers that died have left in a directory. For a directory with one writer."""
    directory = system.as_text(directory)
    for name in filter(is_partial, system.list_directory(directory)):
        path = system.join(directory, name)
        system.delete_recursively(path)


def renames(path: str) -> bool:
    """Whether a file is written aside there, and takes the other's place at once."""
    return is_local(path) or path.startswith(_RENAMING)


def is_local(path: str) -> bool:
    """Whether a path is of this host."""
    return system.resolve(path)[0] is system.LOCAL


def sync_file(path: Any) -> None:
    """Waits until the disk has a file of this host. Raises OSError."""
    with open(system.local_path(path), "rb") as stream, naming(stream.name):
        os.fsync(stream.fileno())


@contextlib.contextmanager
def naming(path: str) -> Iterator[None]:
    """Gives an OSError raised inside, by a call that knows a descriptor only, the path."""
    try:
        yield
    except OSError as error:
        error.filename = error.filename or path
        raise


def sync_directory_of(path: str) -> None:
    """Waits until the disk has the names in the directory of a file, where that is on this host."""
    if is_local(path):
        sync_directory(os.path.dirname(system.resolve(path)[1]))


def sync_directory(directory: str) -> None:
    """Waits until the disk has the names in a directory of this host. Raises OSError."""
    descriptor = os.open(directory or ".", os.O_RDONLY)
    try:
        with naming(directory):
            os.fsync(descriptor)
    except OSError as error:
        if error.errno not in _WITHOUT_SYNC:
            raise
    finally:
        os.close(descriptor)

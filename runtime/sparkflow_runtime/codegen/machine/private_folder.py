"""A folder whose files only this user or root can have written; always accessed by descriptor.

Checking a path says nothing about its next use: anyone who may write to one of its parents can swap
the folder in between. So each component is opened relative to the one before, the opened file is
checked, and from then on the folder is used by its descriptor.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from pathlib import Path
from typing import Final

_OPEN: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_MOST_LINKS: Final = 40
_OTHERS_MAY_WRITE: Final = stat.S_IWGRP | stat.S_IWOTH


class NotPrivateError(OSError):
    """Raised if others may write to a folder or to its path; the message says which, and who."""


def open_private(path: Path, make: bool = False) -> int:
    """Opens this user's folder through a path of only this user's and root's folders.

    Symbolic links in the path are followed if they are this user's or root's, too. Folders on the
    path may be group-writable, and those with a sticky bit (`/tmp`) world-writable: the user's own
    entries in them cannot be swapped unnoticed, since each component is checked.

    Args:
        path: The folder.
        make: Whether to create what is missing of it, for this user alone.

    Raises:
        NotPrivateError: Others may write to the folder, or own a part of its path.
        OSError: It cannot be opened or created.
    """
    todo = list(reversed(Path(os.path.abspath(path)).parts[1:]))
    shown = "/"
    links = 0
    folder = os.open("/", _OPEN)
    try:
        _require_leading(folder, shown)
        while todo:
            name = todo.pop()
            below = os.path.join(shown, name)
            try:
                inner = os.open(name, _OPEN, dir_fd=folder)
            except FileNotFoundError:
                if not make:
                    raise
                _make(name, folder)
                todo.append(name)
                continue
            except OSError as error:
                links += 1
                target = _target(name, folder, below, error)
                if links > _MOST_LINKS:
                    raise OSError(errno.ELOOP, "too many symbolic links", below) from error
                todo += reversed(Path(target).parts)
                if os.path.isabs(target):
                    todo.pop()  # the root itself
                    os.close(folder)
                    folder, shown = os.open("/", _OPEN), "/"
                continue
            os.close(folder)
            folder, shown = inner, below
            if todo:
                _require_leading(folder, shown)
        require_private(folder, shown)
        return folder
    except BaseException:
        os.close(folder)
        raise


def require_private(folder: int, shown: str) -> None:
    """Checks that an open folder still exists and is private to this user.

    Raises:
        NotPrivateError: It is not.
        FileNotFoundError: It was deleted.
    """
    status = os.fstat(folder)
    if status.st_nlink == 0:
        raise FileNotFoundError(errno.ENOENT, "it was deleted", shown)
    if status.st_uid != os.getuid():
        raise NotPrivateError(errno.EPERM, f"it belongs to uid {status.st_uid}", shown)
    if status.st_mode & _OTHERS_MAY_WRITE:
        mode = stat.S_IMODE(status.st_mode)
        raise NotPrivateError(errno.EPERM, f"its mode {mode:o} lets others write to it", shown)


def read_private(name: str, folder: int) -> bytes:
    """Returns the content of a file in an open folder, if nobody else can have written it.

    Raises:
        NotPrivateError: It belongs to another user, or others may write to it.
        OSError: It cannot be read, or is not a regular file.
    """
    file = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    with open(file, "rb") as stream:
        status = os.fstat(file)
        if not stat.S_ISREG(status.st_mode):
            raise NotPrivateError(errno.EPERM, "it is not a regular file", name)
        if status.st_uid != os.getuid() or status.st_mode & _OTHERS_MAY_WRITE:
            raise NotPrivateError(errno.EPERM, "others may have written it", name)
        with contextlib.suppress(OSError):  # of a read-only file system, as in an image
            os.utime(file)
        return stream.read()


def _require_leading(folder: int, shown: str) -> None:
    status = os.fstat(folder)
    if status.st_uid not in (0, os.getuid()):
        raise NotPrivateError(errno.EPERM, f"it belongs to uid {status.st_uid}", shown)
    if status.st_mode & stat.S_IWOTH and not status.st_mode & stat.S_ISVTX:
        raise NotPrivateError(errno.EPERM, "anyone may write to it", shown)


def _target(name: str, folder: int, shown: str, error: OSError) -> str:
    """Returns the target of a symbolic link."""
    try:
        target = os.readlink(name, dir_fd=folder)
    except OSError:
        raise error from None
    owner = os.stat(name, dir_fd=folder, follow_symlinks=False).st_uid
    if owner not in (0, os.getuid()):
        raise NotPrivateError(errno.EPERM, f"it is a link of uid {owner}", shown)
    return target


def _make(name: str, folder: int) -> None:
    with contextlib.suppress(FileExistsError):  # another process was faster
        os.mkdir(name, 0o700, dir_fd=folder)

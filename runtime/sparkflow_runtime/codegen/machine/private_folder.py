"""A folder whose files nobody but this user, or root, can have written; always by descriptor.

A check of a path says nothing about the next use of the path: who may write to one of its parents
puts another folder there in between. So every part of the path is opened within the one before,
what was opened is looked at, and from then on the folder is its descriptor.
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
    """Others may write to a folder, or to what leads to it; the text says which, and who."""


def open_private(path: Path, make: bool = False) -> int:
    """A descriptor of a folder of this user's that leads only through folders of his and root's.

    Symbolic links in the path are followed where they are his or root's, too. Folders that lead
    there may have a group that writes to them, and those with a sticky bit (`/tmp`) everybody:
    what is the user's own in them cannot be exchanged unseen, as each part is looked at.

    Args:
        path: The folder.
        make: Make what is missing of it, for this user alone.

    Raises:
        NotPrivateError: Others may write to the folder, or have what leads to it.
        OSError: It cannot be opened or made.
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
    """Passes when an open folder, which still exists, is this user's and no other's.

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
    """The content of a file in an open folder, if nobody else can have written it.

    Raises:
        NotPrivateError: It belongs to another, or others may write to it.
        OSError: It cannot be read, or is no plain file.
    """
    file = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    with open(file, "rb") as stream:
        status = os.fstat(file)
        if not stat.S_ISREG(status.st_mode):
            raise NotPrivateError(errno.EPERM, "it is no plain file", name)
        if status.st_uid != os.getuid() or status.st_mode & _OTHERS_MAY_WRITE:
            raise NotPrivateError(errno.EPERM, "others may have written it", name)
        with contextlib.suppress(OSError):  # of a file system that is only read, as in an image
            os.utime(file)
        return stream.read()


def _require_leading(folder: int, shown: str) -> None:
    status = os.fstat(folder)
    if status.st_uid not in (0, os.getuid()):
        raise NotPrivateError(errno.EPERM, f"it belongs to uid {status.st_uid}", shown)
    if status.st_mode & stat.S_IWOTH and not status.st_mode & stat.S_ISVTX:
        raise NotPrivateError(errno.EPERM, "everybody may write to it", shown)


def _target(name: str, folder: int, shown: str, error: OSError) -> str:
    """Where a symbolic link leads."""
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

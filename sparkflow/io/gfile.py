"""`tf.io.gfile`: files by path or URI, with the names of TensorFlow 2."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from sparkflow._api.loading import answers
from sparkflow.io.file import GFile
from sparkflow_runtime.errors import NotFoundError
from sparkflow_runtime.files import system


def copy(src: Any, dst: Any, overwrite: bool = False) -> None:
    """Copies a file; AlreadyExistsError where `dst` exists and `overwrite` is False."""
    system.copy(src, dst, overwrite)


def exists(path: Any) -> bool:
    """Whether there is a file or directory."""
    return system.exists(path)


def get_registered_schemes() -> list[str]:
    """The schemes of URLs that there is a file system for; "" for plain paths."""
    return system.schemes()


def glob(pattern: Any) -> list[str]:
    """The paths that match a pattern, or one of several, sorted."""
    return system.glob(pattern)


def isdir(path: Any) -> bool:
    """Whether there is a directory."""
    return system.is_directory(path)


def listdir(path: Any) -> list[str]:
    """The names in a directory; NotFoundError where there is none."""
    return system.list_directory(path)


def makedirs(path: Any) -> None:
    """Creates a directory, and its parents if they are missing."""
    system.make_dirs(path)


def mkdir(path: Any) -> None:
    """Creates a directory; its parent must exist."""
    system.make_dir(path)


def remove(path: Any) -> None:
    """Deletes a file."""
    system.remove(path)


def rename(src: Any, dst: Any, overwrite: bool = False) -> None:
    """Renames a file; AlreadyExistsError where `dst` exists and `overwrite` is False."""
    system.rename(src, dst, overwrite)


def rmtree(path: Any) -> None:
    """Deletes a directory and everything in it."""
    system.delete_recursively(path)


def stat(path: Any) -> system.FileStatistics:
    """Size and time of a file or directory."""
    return system.statistics(path)


def walk(
    top: Any, topdown: bool = True, onerror: Callable[[NotFoundError], Any] | None = None
) -> Iterator[tuple[str, list[str], list[str]]]:
    """For each directory below `top`: its path, the directories in it and the files in it.

    Args:
        top: A directory.
        topdown: A directory before those in it, else after them.
        onerror: Called with a NotFoundError when `top` is no directory.
    """
    if onerror is not None and not system.is_directory(top):
        onerror(NotFoundError(message=f"Could not find directory {top}"))
    return system.walk(top, topdown)


join = system.join

__getattr__ = answers("io.gfile")

__all__ = [
    "GFile",
    "copy",
    "exists",
    "get_registered_schemes",
    "glob",
    "isdir",
    "join",
    "listdir",
    "makedirs",
    "mkdir",
    "remove",
    "rename",
    "rmtree",
    "stat",
    "walk",
]

"""`tf.gfile`: files by path or URI, with the names of TensorFlow 1."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sparkflow.io.file import FastGFile, GFile
from sparkflow_runtime.files import system

Open = GFile


def Copy(oldpath: Any, newpath: Any, overwrite: bool = False) -> None:
    """Copies a file; AlreadyExistsError where `newpath` exists and `overwrite` is False."""
    system.copy(oldpath, newpath, overwrite)


def DeleteRecursively(dirname: Any) -> None:
    """Deletes a directory and everything in it."""
    system.delete_recursively(dirname)


def Exists(filename: Any) -> bool:
    """Whether there is a file or directory."""
    return system.exists(filename)


def Glob(filename: Any) -> list[str]:
    """The paths that match a pattern, or one of several, sorted."""
    return system.glob(filename)


def IsDirectory(dirname: Any) -> bool:
    """Whether there is a directory."""
    return system.is_directory(dirname)


def ListDirectory(dirname: Any) -> list[str]:
    """The names in a directory; NotFoundError where there is none."""
    return system.list_directory(dirname)


def MakeDirs(dirname: Any) -> None:
    """Creates a directory, and its parents if they are missing."""
    system.make_dirs(dirname)


def MkDir(dirname: Any) -> None:
    """Creates a directory; its parent must exist."""
    system.make_dir(dirname)


def Remove(filename: Any) -> None:
    """Deletes a file."""
    system.remove(filename)


def Rename(oldname: Any, newname: Any, overwrite: bool = False) -> None:
    """Renames a file; AlreadyExistsError where `newname` exists and `overwrite` is False."""
    system.rename(oldname, newname, overwrite)


def Stat(filename: Any) -> system.FileStatistics:
    """Size and time of a file or directory."""
    return system.statistics(filename)


def Walk(top: Any, in_order: bool = True) -> Iterator[tuple[str, list[str], list[str]]]:
    """For each directory below `top`: its path, the directories in it and the files in it."""
    return system.walk(top, in_order)


__all__ = [
    "Copy",
    "DeleteRecursively",
    "Exists",
    "FastGFile",
    "GFile",
    "Glob",
    "IsDirectory",
    "ListDirectory",
    "MakeDirs",
    "MkDir",
    "Open",
    "Remove",
    "Rename",
    "Stat",
    "Walk",
]

"""Storage for checkpoints: a few operations that every file system supports.

Paths are whole URIs; without a scheme they are of this machine.
"""

from __future__ import annotations

from typing import Protocol

from sparkflow_runtime.errors import NotFoundError, UnimplementedError
from sparkflow_runtime.files import system, whole


class CheckpointFiles(Protocol):
    """Storage. Errors are OSErrors, or OpErrors of the runtime."""

    def make_dirs(self, path: str) -> None:
        """Creates a directory and its parents, if missing."""

    def list(self, path: str) -> list[str]:
        """Returns the names in a directory; none if it does not exist."""

    def read(self, path: str) -> bytes:
        """A whole file.

        Raises:
            NotFoundError: There is none.
        """

    def write(self, path: str, data: bytes) -> None:
        """Writes a file that is not in use yet; it may be visible half written."""

    def write_whole(self, path: str, data: bytes) -> None:
        """Writes or replaces a file atomically: either the old one or the new one is visible."""

    def remove_tree(self, path: str) -> None:
        """Deletes a directory and its content; does nothing if it does not exist."""


class PathFiles:
    """This machine's files, and by URI (`hdfs:`, `s3a:`, `gs:`) those that pyarrow reaches."""

    def make_dirs(self, path: str) -> None:
        """Makes directories."""
        system.make_dirs(path)

    def list(self, path: str) -> list[str]:
        """Lists names."""
        try:
            return system.list_directory(path)
        except NotFoundError:
            return []

    def read(self, path: str) -> bytes:
        """Reads a file."""
        return system.read_file(path)

    def write(self, path: str, data: bytes) -> None:
        """Writes a file and, on this machine, waits until the disk has it."""
        whole.write_through(path, data)

    def write_whole(self, path: str, data: bytes) -> None:
        """Writes aside and renames; object stores show no file before its last byte."""
        whole.write_whole(path, data)

    def remove_tree(self, path: str) -> None:
        """Deletes a directory."""
        try:
            system.delete_recursively(path)
        except NotFoundError:
            return


def pyarrow_reaches(path: str) -> bool:
    """Whether `PathFiles` can be used for a path: pyarrow knows its scheme and can connect."""
    try:
        system.resolve(path)
    except (OSError, UnimplementedError):
        return False
    return True

"""Where checkpoints are kept: a few operations that every file system can do.

Paths are whole URIs; without a scheme they are of this machine.
"""

from __future__ import annotations

import os
from typing import Protocol

from sparkflow_runtime.errors import NotFoundError, UnimplementedError
from sparkflow_runtime.files import system


class CheckpointFiles(Protocol):
    """Storage. Errors are OSErrors, or OpErrors of the runtime."""

    def make_dirs(self, path: str) -> None:
        """A directory and its parents, where they are missing."""

    def list(self, path: str) -> list[str]:
        """The names in a directory; none where there is no such directory."""

    def read(self, path: str) -> bytes:
        """A whole file.

        Raises:
            NotFoundError: There is none.
        """

    def write(self, path: str, data: bytes) -> None:
        """A whole file; it may be seen half written unless `renames` is false."""

    def rename(self, source: str, target: str) -> None:
        """Renames a file at once."""

    def remove_tree(self, path: str) -> None:
        """Deletes a directory and what is in it; nothing where there is none."""

    def renames(self, path: str) -> bool:
        """Whether files there are renamed at once.

        Object stores copy instead; but there a file appears only when it is complete.
        """


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
        with system.open_file(path, "wb") as stream:
            stream.write(data)
            if self._is_local(path):
                stream.flush()
                os.fsync(stream.fileno())

    def rename(self, source: str, target: str) -> None:
        """Renames a file."""
        system.rename(source, target, overwrite=True)

    def remove_tree(self, path: str) -> None:
        """Deletes a directory."""
        try:
            system.delete_recursively(path)
        except NotFoundError:
            return

    def renames(self, path: str) -> bool:
        """True for this machine and HDFS."""
        return self._is_local(path) or path.startswith(("hdfs:", "viewfs:"))

    def _is_local(self, path: str) -> bool:
        return system.resolve(path)[0] is system.LOCAL


def pyarrow_reaches(path: str) -> bool:
    """Whether `PathFiles` can be used for a path: pyarrow knows its scheme and can connect."""
    try:
        system.resolve(path)
    except (OSError, UnimplementedError):
        return False
    return True

"""Checkpoints on a file system that only Hadoop supports, through the driver's JVM.

pyspark is not imported: the caller hands in its JVM gateway. Bytes go by a temporary file on this
machine, because py4j would send them as text.
"""

from __future__ import annotations

import contextlib
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from sparkflow_runtime.errors import NotFoundError, UnknownError
from sparkflow_runtime.files.whole import partial_name

_RENAMING: Final = ("hdfs", "viewfs", "file", "abfs", "abfss")
"""Hadoop's other file systems are object stores, which copy in place of renaming."""


class HadoopFiles:
    """Hadoop's FileSystem as `CheckpointFiles`.

    Args:
        jvm: The gateway's view of the driver's JVM, e.g. `sparkContext._jvm`.
        configuration: Hadoop's configuration of the session.
    """

    def __init__(self, jvm: Any, configuration: Any) -> None:
        self._jvm = jvm
        self._configuration = configuration

    def make_dirs(self, path: str) -> None:
        """Makes directories."""
        with naming_path(path):
            files, where = self._at(path)
            files.mkdirs(where)

    def list(self, path: str) -> list[str]:
        """Lists names."""
        with naming_path(path):
            files, where = self._at(path)
            if not files.exists(where):
                return []
            return sorted(str(each.getPath().getName()) for each in files.listStatus(where))

    def read(self, path: str) -> bytes:
        """Reads a file."""
        with tempfile.TemporaryDirectory(prefix="sparkflow-") as folder, naming_path(path):
            files, where = self._at(path)
            if not files.exists(where):
                raise NotFoundError(message=f"{path}; No such file or directory")
            local = Path(folder) / "data"
            # The last argument leaves out Hadoop's own checksum file.
            files.copyToLocalFile(False, where, self._local(local), True)
            return local.read_bytes()

    def write(self, path: str, data: bytes) -> None:
        """Writes a file."""
        with tempfile.TemporaryDirectory(prefix="sparkflow-") as folder, naming_path(path):
            files, where = self._at(path)
            local = Path(folder) / "data"
            local.write_bytes(data)
            files.copyFromLocalFile(False, True, self._local(local), where)

    def write_whole(self, path: str, data: bytes) -> None:
        """Writes aside and renames; object stores show no file before its last byte."""
        with naming_path(path):
            files, where = self._at(path)
            renames = files.getUri().getScheme() in _RENAMING
        if not renames:
            self.write(path, data)
            return
        temporary = partial_name(path)
        self.write(temporary, data)
        with naming_path(path):
            self._replace(files, temporary, where)

    def _replace(self, files: Any, temporary: str, where: Any) -> None:
        hadoop = self._jvm.org.apache.hadoop.fs
        # FileSystem.rename does not replace a file on HDFS; this does, at once.
        replaces = hadoop.Options.Rename.OVERWRITE
        options = self._jvm.java.lang.reflect.Array.newInstance(replaces.getDeclaringClass(), 1)
        options[0] = replaces
        context = hadoop.FileContext.getFileContext(files.getUri(), self._configuration)
        try:
            context.rename(self._at(temporary)[1], where, options)
        except Exception:
            self.remove_tree(temporary)
            raise

    def remove_tree(self, path: str) -> None:
        """Deletes a directory."""
        with naming_path(path):
            files, where = self._at(path)
            files.delete(where, True)

    def _at(self, path: str) -> tuple[Any, Any]:
        where = self._jvm.org.apache.hadoop.fs.Path(path)
        return where.getFileSystem(self._configuration), where

    def _local(self, path: Path) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(path.as_uri())


@contextlib.contextmanager
def naming_path(path: str) -> Iterator[None]:
    """Has what the JVM throws come out as an OpError of one line that names the path.

    Raises:
        UnknownError: Hadoop failed; its stack is the cause.
    """
    try:
        yield
    except Exception as error:
        # pyspark has classes of its own for some of Java's.
        if type(error).__module__.partition(".")[0] not in ("py4j", "pyspark"):
            raise
        thrown = getattr(error, "java_exception", None)
        text = str(error) if thrown is None else str(thrown.toString())
        line = next(iter(text.strip().splitlines()), type(error).__name__)
        raise UnknownError(message=f"{path}; {line}") from error

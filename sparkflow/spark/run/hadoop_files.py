"""Checkpoints on a file system that only Hadoop reaches: through the driver's JVM.

pyspark is not imported: the caller hands in its JVM gateway. Bytes go by a temporary file on this
machine, because py4j would send them as text.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from sparkflow_runtime.errors import NotFoundError


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
        files, where = self._at(path)
        files.mkdirs(where)

    def list(self, path: str) -> list[str]:
        """Lists names."""
        files, where = self._at(path)
        if not files.exists(where):
            return []
        return sorted(str(each.getPath().getName()) for each in files.listStatus(where))

    def read(self, path: str) -> bytes:
        """Reads a file."""
        files, where = self._at(path)
        if not files.exists(where):
            raise NotFoundError(message=f"{path}; No such file or directory")
        with tempfile.TemporaryDirectory(prefix="sparkflow-") as folder:
            local = Path(folder) / "data"
            # The last argument leaves out Hadoop's own checksum file.
            files.copyToLocalFile(False, where, self._local(local), True)
            return local.read_bytes()

    def write(self, path: str, data: bytes) -> None:
        """Writes a file."""
        files, where = self._at(path)
        with tempfile.TemporaryDirectory(prefix="sparkflow-") as folder:
            local = Path(folder) / "data"
            local.write_bytes(data)
            files.copyFromLocalFile(False, True, self._local(local), where)

    def rename(self, source: str, target: str) -> None:
        """Renames a file.

        Raises:
            OSError: Hadoop did not, and does not say why.
        """
        files, where = self._at(source)
        if not files.rename(where, self._at(target)[1]):
            raise OSError(f"Hadoop could not rename {source} to {target}")

    def remove_tree(self, path: str) -> None:
        """Deletes a directory."""
        files, where = self._at(path)
        files.delete(where, True)

    def renames(self, path: str) -> bool:
        """True for HDFS and this machine; Hadoop's object stores copy."""
        scheme = self._at(path)[0].getUri().getScheme()
        return scheme in ("hdfs", "viewfs", "file", "abfs", "abfss")

    def _at(self, path: str) -> tuple[Any, Any]:
        where = self._jvm.org.apache.hadoop.fs.Path(path)
        return where.getFileSystem(self._configuration), where

    def _local(self, path: Path) -> Any:
        return self._jvm.org.apache.hadoop.fs.Path(path.as_uri())

"""Small files on any file system that Spark can reach."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Mapping
from typing import Any

from pyspark.sql import SparkSession

# py4j carries bytes as text in one message.
_CHUNK_BYTES = 8 << 20


def write_files(session: SparkSession, directory: str, files: Mapping[str, bytes]) -> None:
    """Writes files into a directory, which is made if it does not exist."""
    file_system, gateway = _file_system(session, directory)
    for name, content in files.items():
        stream = file_system.create(gateway.org.apache.hadoop.fs.Path(_join(directory, name)), True)
        try:
            for start in range(0, len(content), _CHUNK_BYTES):
                stream.write(bytearray(content[start : start + _CHUNK_BYTES]))
        finally:
            stream.close()


def read_files(session: SparkSession, directory: str, names: Iterable[str]) -> dict[str, bytes]:
    """The content of files in a directory; those that do not exist are left out."""
    file_system, gateway = _file_system(session, directory)
    found = {}
    for name in names:
        path = gateway.org.apache.hadoop.fs.Path(_join(directory, name))
        if not file_system.exists(path):
            continue
        stream = file_system.open(path)
        parts = []
        try:
            while part := bytes(stream.readNBytes(_CHUNK_BYTES)):
                parts.append(part)
        finally:
            stream.close()
        found[name] = b"".join(parts)
    return found


def _join(directory: str, name: str) -> str:
    return posixpath.join(directory, name)


def _file_system(session: SparkSession, directory: str) -> tuple[Any, Any]:
    gateway: Any = session.sparkContext._jvm
    context: Any = session.sparkContext._jsc
    path = gateway.org.apache.hadoop.fs.Path(directory)
    return path.getFileSystem(context.hadoopConfiguration()), gateway

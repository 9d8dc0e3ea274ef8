"""TFRecord files of a data source: lookup, reading, and committed writes.

Paths are local or URIs that pyarrow supports (`hdfs:`, `s3:`, `gs:`, ...); Spark's `s3a:` is
treated as `s3:`. Compressed files are recognised by their first bytes.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import BinaryIO, Final

from sparkflow_runtime.errors import NotFoundError
from sparkflow_runtime.events.crc32c import masked_crc32c
from sparkflow_runtime.events.records import frame_record, read_records
from sparkflow_runtime.files import system
from sparkflow_runtime.files.compression import compressing, expanding

TEMPORARY: Final = "_temporary"
SUCCESS: Final = "_SUCCESS"

# The kind in sparkflow_runtime.files.compression, and the suffix of file names.
_COMPRESSIONS: Final = {
    "none": ("", ""),
    "uncompressed": ("", ""),
    "": ("", ""),
    "gzip": ("GZIP", ".gz"),
    "org.apache.hadoop.io.compress.gzipcodec": ("GZIP", ".gz"),
    "zlib": ("ZLIB", ".zlib"),
    "deflate": ("ZLIB", ".zlib"),
}
_SPARK_ONLY = re.compile(r"s3[an]:(?=/)")
_HEADER_BYTES: Final = 12
_FRAME_BYTES: Final = 16
_GZIP_START: Final = b"\x1f\x8b"


def compression_of(name: str) -> tuple[str, str]:
    """Returns the kind of a compression by the user's name for it, and the suffix of file names.

    Raises:
        ValueError: There is no such compression.
    """
    found = _COMPRESSIONS.get(name.lower())
    if found is None:
        raise ValueError(
            f"compression={name!r} is not supported by the tfrecord source; use none, gzip or zlib"
        )
    return found


def find_files(paths: Sequence[str]) -> list[str]:
    """Returns the files for paths: files, patterns (`*`, `?`, `[...]`) and whole directories.

    Files and directories whose names begin with `_` or `.` are left out, as Spark does.

    Raises:
        NotFoundError: A path does not exist.
    """
    found: list[str] = []
    for path in paths:
        places = system.glob(plain_path(path))
        if not places:
            raise NotFoundError(message=f"{path}: there is no such file or directory")
        for place in places:
            found += _below(place) if system.is_directory(place) else [place]
    return found


def _below(directory: str) -> Iterator[str]:
    for name in system.list_directory(directory):
        if name.startswith(("_", ".")):
            continue
        path = system.join(directory, name)
        if system.is_directory(path):
            yield from _below(path)
        else:
            yield path


def plain_path(path: str) -> str:
    """Returns a path in the form for pyarrow and this host, without Spark's schemes."""
    storage, inner, _ = system.resolve(_SPARK_ONLY.sub("s3:", path))
    return inner if storage is system.LOCAL else _SPARK_ONLY.sub("s3:", path)


def numbered_records(path: str) -> Iterator[tuple[int, bytes]]:
    """Yields the records of a file, each with its offset in the decompressed data.

    Raises:
        NotFoundError: There is no such file.
        DataLossError: It is damaged; the text names the file and the offset.
    """
    with _opened(path) as stream:
        offset = 0
        for record in read_records(stream, origin=path):
            yield offset, record
            offset += len(record) + _FRAME_BYTES


def _opened(path: str) -> BinaryIO:
    with system.open_file(path) as stream:
        start = stream.read(_HEADER_BYTES)
    return expanding(system.open_file(path), _kind(start))


def _kind(start: bytes) -> str:
    """Returns the compression of a file by its first bytes."""
    if len(start) == _HEADER_BYTES and _is_header(start):
        return ""
    if start.startswith(_GZIP_START):
        return "GZIP"
    # RFC 1950: method 8, and the first two bytes are a multiple of 31.
    is_zlib = len(start) > 1 and start[0] & 0x0F == 8 and int.from_bytes(start[:2], "big") % 31 == 0
    return "ZLIB" if is_zlib else ""


def _is_header(start: bytes) -> bool:
    return masked_crc32c(start[:8]) == int.from_bytes(start[8:], "little")


@dataclass(frozen=True, slots=True)
class Staging:
    """A write to a directory that becomes visible when it is committed.

    Tasks write to `_temporary/<job>` in the directory, which readers ignore; `commit` moves the
    files of the tasks that Spark accepted. Each file appears atomically, one after another (as with
    Hadoop's committers); `_SUCCESS` comes last.

    Attributes:
        directory: The target directory.
        job: The unique name of the write.
    """

    directory: str
    job: str

    @property
    def _temporary(self) -> str:
        return system.join(plain_path(self.directory), TEMPORARY, self.job)

    def write(self, name: str, records: Iterable[bytes], compression: str) -> int:
        """Writes one file, not yet visible as `name`, and returns its number of records."""
        system.make_dirs(self._temporary)
        path = system.join(self._temporary, name)
        count = 0
        with compressing(system.open_file(path, "wb"), compression) as stream:
            for record in records:
                stream.write(frame_record(record))
                count += 1
        return count

    def commit(self, names: Sequence[str], overwrite: bool) -> None:
        """Makes the files visible; with `overwrite`, removes the previous ones."""
        directory = plain_path(self.directory)
        system.make_dirs(directory)
        success = system.join(directory, SUCCESS)
        if system.exists(success):
            system.remove(success)
        before = list(_below(directory)) if overwrite else []
        for name in names:
            system.rename(system.join(self._temporary, name), system.join(directory, name))
        for path in before:
            system.remove(path)
        self.abort()
        with system.open_file(success, "wb"):
            pass

    def abort(self) -> None:
        """Removes what the tasks wrote. May be called more than once."""
        if system.is_directory(self._temporary):
            system.delete_recursively(self._temporary)
        parent = posixpath.dirname(self._temporary)
        # Another write to the same directory may be in progress.
        if system.is_directory(parent) and not system.list_directory(parent):
            system.delete_recursively(parent)

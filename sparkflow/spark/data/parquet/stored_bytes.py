"""A digest of Parquet columns, computed from their stored bytes without decoding rows."""

from __future__ import annotations

import hashlib
from bisect import bisect_right
from collections.abc import Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import accumulate, groupby
from typing import Any, Final

from sparkflow.spark.data.parquet.footers import ParquetFiles, open_location

_WHOLE_BYTES: Final = 256 << 20
"""Maximum bytes to read: half a second from a disk, some seconds from an object store."""
_PIECES: Final = 1024
_FILES_AT_ONCE: Final = 16

Piece = tuple[str, int, int]
"""A file, and the offset and number of bytes in it."""


def column_digest(
    files: ParquetFiles, columns: Collection[str], whole_bytes: int = _WHOLE_BYTES
) -> str:
    """Returns a digest of the content of these columns, which is the same for a copy of the files.

    The digest always includes the footers. Of columns with more than `whole_bytes`, it includes
    only evenly spread pieces, so a change of few rows may go undetected.

    Args:
        files: The files.
        columns: Names of columns.
        whole_bytes: Maximum number of bytes to read.
    """
    pieces = _pieces(list(_chunks(files, columns)), whole_bytes)
    by_file = [(path, list(found)) for path, found in groupby(pieces, key=lambda each: each[0])]
    system, _ = open_location(files.uri)

    def read(of_file: tuple[str, list[Piece]]) -> bytes:
        path, wanted = of_file
        hashed = hashlib.blake2b(digest_size=16)
        with system.open_input_file(path) as file:
            for _, start, size in wanted:
                file.seek(start)
                hashed.update(file.read(size))
        return hashed.digest()

    digest = hashlib.blake2b(digest_size=8)
    for line in files.describe(columns):
        digest.update(line.encode())
    with ThreadPoolExecutor(_FILES_AT_ONCE) as pool:
        for each in pool.map(read, by_file):
            digest.update(each)
    return digest.hexdigest()


def _chunks(files: ParquetFiles, columns: Collection[str]) -> Iterator[Piece]:
    """Yields the places where these columns are stored."""
    for path, footer in files.footers:
        names = files.layouts.of(path).columns(columns)
        for number in range(footer.num_row_groups):
            group = footer.row_group(number)
            for index in range(group.num_columns):
                stored = group.column(index)
                if stored.path_in_schema.partition(".")[0] in names:
                    yield path, _start(stored), stored.total_compressed_size


def _start(stored: Any) -> int:
    begins = [stored.data_page_offset]
    if stored.has_dictionary_page and stored.dictionary_page_offset is not None:
        begins.append(stored.dictionary_page_offset)
    return int(min(begins))


def _pieces(chunks: Sequence[Piece], whole_bytes: int) -> list[Piece]:
    """Returns all chunks, or evenly spaced pieces if their total exceeds `whole_bytes`."""
    ends = list(accumulate(size for _, _, size in chunks))
    if not ends or ends[-1] <= whole_bytes:
        return list(chunks)
    size = max(whole_bytes // _PIECES, 1)
    found: dict[Piece, None] = {}
    for number in range(_PIECES):
        place = number * (ends[-1] - size) // (_PIECES - 1)
        path, start, length = chunks[index := bisect_right(ends, place)]
        inside = place - (ends[index] - length)
        found[path, start + inside, min(size, length - inside)] = None
    return list(found)

"""Protobuf messages in files with a checksum that other programs ignore.

A seal consists of two marks, so that a file that is damaged in one place or truncated is never
mistaken for an unsealed one. In binary files they are fields that no TensorFlow message has, the
first and the last of the file; in text files they are comments, the first and the last line. The
first mark has the checksums of files that belong to the message, the last one the checksum of
everything before it.

A file without marks comes from another program, or from sparkflow before 2026-11-23, and is
accepted. So is one that another program has read and rewritten, which puts both marks at the end.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from sparkflow_runtime.checkpoint.sorted_table import decode_varint, encode_varint
from sparkflow_runtime.errors import DataLossError
from sparkflow_runtime.events.crc32c import crc32c

_FIRST: Final = encode_varint(24387 << 3 | 2)
_LAST: Final = encode_varint(24388 << 3 | 5)
_FIRST_LINE: Final = b"# sparkflow "
_LAST_LINE: Final = b"# crc32c "
_LAST_LINE_BYTES: Final = len(_LAST_LINE) + 9


@dataclass(frozen=True, slots=True)
class Opened:
    """The contents of a file.

    Attributes:
        content: The message.
        files: The CRC-32C of files that belong to it, by their names.
    """

    content: bytes
    files: Mapping[str, int] = field(default_factory=dict)


def seal_message(content: bytes, files: Mapping[str, int] | None = None) -> bytes:
    """Returns a binary message with its marks.

    Args:
        content: The message.
        files: The CRC-32C of files that belong to it, by their names.
    """
    described = _described(files)
    marked = _FIRST + encode_varint(len(described)) + described + content
    return marked + _LAST + crc32c(marked).to_bytes(4, "little")


def seal_text(content: bytes, files: Mapping[str, int] | None = None) -> bytes:
    """Returns a message in protobuf's text format with its marks; see `seal_message`."""
    marked = _FIRST_LINE + _described(files) + b"\n" + content
    if not marked.endswith(b"\n"):
        marked += b"\n"
    return marked + _LAST_LINE + b"%08x\n" % crc32c(marked)


def open_message(data: bytes, origin: str) -> Opened:
    """Parses the message of a file, binary or text, with or without marks.

    Args:
        data: The file.
        origin: Its path, for error texts.

    Raises:
        DataLossError: It was changed or truncated after it was written.
    """
    if data.startswith(_FIRST_LINE) or data[-_LAST_LINE_BYTES:].startswith(_LAST_LINE):
        return _open_text(data, origin)
    end = len(data) - len(_LAST) - 4
    has_last = end >= 0 and data[end : end + len(_LAST)] == _LAST
    if not data.startswith(_FIRST):
        was_cut = data and (_FIRST.startswith(data) or _FIRST_LINE.startswith(data))
        if was_cut or (has_last and not _ends_with_first(data[:end])):
            raise _damaged(origin)
        return Opened(data)
    if not has_last or crc32c(data[:end]) != int.from_bytes(data[-4:], "little"):
        raise _damaged(origin)
    size, start = decode_varint(data, len(_FIRST))
    return Opened(data[start + size : end], _files(data[start : start + size], origin))


def _open_text(data: bytes, origin: str) -> Opened:
    body, last = data[:-_LAST_LINE_BYTES], data[-_LAST_LINE_BYTES:]
    if last != _LAST_LINE + b"%08x\n" % crc32c(body) or not body.startswith(_FIRST_LINE):
        raise DataLossError(
            message=f"{_damaged(origin).message}. If you have edited it, delete its first and its "
            "last line, which begin with #"
        )
    first, _, content = body.partition(b"\n")
    return Opened(content, _files(first[len(_FIRST_LINE) :], origin))


def _files(described: bytes, origin: str) -> Mapping[str, int]:
    """Parses what `_described` wrote.

    Raises:
        DataLossError: It is something else, although the checksum matches.
    """
    try:
        files = json.loads(described)
    except (ValueError, RecursionError) as error:
        raise DataLossError(message=f"{origin} cannot be read: {error!r}") from error
    if not isinstance(files, dict) or not all(type(each) is int for each in files.values()):
        raise DataLossError(message=f"{origin} cannot be read: its first line lists no files")
    return files


def _ends_with_first(data: bytes) -> bool:
    """Whether data end with the first mark."""
    place = data.rfind(_FIRST)
    if place < 0:
        return False
    try:
        size, start = decode_varint(data, place + len(_FIRST))
    except DataLossError:
        return False
    return start + size == len(data)


def _damaged(origin: str) -> DataLossError:
    return DataLossError(
        message=f"{origin} is damaged: its checksum shows that it was changed or truncated after "
        "it was written"
    )


def _described(files: Mapping[str, int] | None) -> bytes:
    return json.dumps(dict(files or {}), sort_keys=True).encode()

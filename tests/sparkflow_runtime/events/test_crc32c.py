import pytest

from sparkflow_runtime.events.crc32c import crc32c, masked_crc32c


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", 0x00000000),
        (b"123456789", 0xE3069283),
        # RFC 3720, appendix B.4.
        (bytes(32), 0x8A9136AA),
        (b"\xff" * 32, 0x62A8AB43),
        (bytes(range(32)), 0x46DD794E),
        (bytes(reversed(range(32))), 0x113FDB5C),
    ],
)
def test_crc32c_matches_published_values(data: bytes, expected: int) -> None:
    assert crc32c(data) == expected


def test_masked_crc32c_matches_the_length_checksum_of_an_empty_tensorflow_record() -> None:
    assert masked_crc32c(bytes(8)) == 0x07980329


def test_masked_crc32c_stays_within_32_bits() -> None:
    for number in range(200):
        assert 0 <= masked_crc32c(bytes([number])) < 1 << 32

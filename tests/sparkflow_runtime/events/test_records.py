import io
import itertools

import pytest

from sparkflow_runtime.errors import DataLossError, InvalidArgumentError
from sparkflow_runtime.events import records
from sparkflow_runtime.events.records import frame_record, read_records

DATA = [b"", b"abc", bytes(range(40))]
# The output of TensorFlow 2.21's TFRecordWriter for DATA.
TENSORFLOW_BYTES = bytes.fromhex(
    "000000000000000029039807d8ea82a2"
    "0300000000000000b099490e6162636e57f121"
    "2800000000000000ff70164a"
    "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f2021222324252627"
    "75118983"
)
# The beginnings of the records in TENSORFLOW_BYTES, and the end.
BOUNDARIES = [0, 16, 35, 91]


def test_records_have_the_bytes_that_tensorflow_writes() -> None:
    assert b"".join(frame_record(data) for data in DATA) == TENSORFLOW_BYTES


def test_reading_gives_back_what_was_written() -> None:
    assert list(read_records(io.BytesIO(TENSORFLOW_BYTES))) == DATA


def test_reading_an_empty_file_gives_nothing() -> None:
    assert list(read_records(io.BytesIO())) == []


@pytest.mark.parametrize("size", range(len(TENSORFLOW_BYTES) + 1))
def test_a_truncated_file_gives_its_whole_records_and_then_fails(size: int) -> None:
    whole = sum(boundary <= size for boundary in BOUNDARIES) - 1
    found = read_records(io.BytesIO(TENSORFLOW_BYTES[:size]))
    assert list(itertools.islice(found, whole)) == DATA[:whole]
    if size in BOUNDARIES:
        assert list(found) == []
    else:
        expected = f"record at byte {BOUNDARIES[whole]} is damaged: the file ends "
        with pytest.raises(DataLossError, match=f"^{expected}"):
            next(found)


@pytest.mark.parametrize("position", range(len(TENSORFLOW_BYTES)))
def test_a_flipped_bit_is_found_anywhere(position: int) -> None:
    damaged = bytearray(TENSORFLOW_BYTES)
    damaged[position] ^= 0x10
    with pytest.raises(DataLossError, match="is damaged: the checksum of its "):
        list(read_records(io.BytesIO(damaged)))


def test_a_wrong_checksum_is_shown_with_the_computed_one() -> None:
    damaged = bytearray(frame_record(b"abc"))
    damaged[12] = ord("x")
    with pytest.raises(DataLossError) as error:
        list(read_records(io.BytesIO(damaged)))
    assert str(error.value) == (
        "record at byte 0 is damaged: the checksum of its data is 0x21f1576e, computed 0x7f90a2cb"
    )


def test_a_record_above_the_limit_is_refused_before_it_is_read() -> None:
    stream = io.BytesIO(frame_record(bytes(100)))
    with pytest.raises(DataLossError, match=r"its length 100 is above the limit of 99$"):
        list(read_records(stream, max_size_bytes=99))
    stream.seek(0)
    assert list(read_records(stream, max_size_bytes=100)) == [bytes(100)]
    large = 1 << 20
    stream = io.BytesIO(frame_record(bytes(large)))
    with pytest.raises(DataLossError, match="above the limit"):
        list(read_records(stream, max_size_bytes=large - 1))
    assert stream.tell() <= large // 8


class _Short(io.BytesIO):
    """A stream that returns a few bytes at a time, as pipes do."""

    def read1(self, size: int | None = -1) -> bytes:
        return super().read1(min(size or 0, 7))


@pytest.mark.parametrize("kind", [io.BytesIO, _Short])
def test_records_of_any_size_whatever_is_read_at_once(kind: type[io.BytesIO]) -> None:
    sizes = [0, 1, 5, 65_535, 65_536, 65_537, 3, 200_000, 12, 0, 70_000, 1]
    records = [bytes([number]) * size for number, size in enumerate(sizes)]
    data = b"".join(map(frame_record, records))
    assert list(read_records(kind(data))) == records
    for cut in (1, 3, 4, 5, 11, 18, 70_020):
        found: list[bytes] = []
        with pytest.raises(DataLossError, match="the file ends"):
            found.extend(read_records(kind(data[:-cut])))
        assert found == records[: len(found)]
        assert len(found) >= 9


def test_data_above_the_limit_are_not_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "MAX_RECORD_SIZE_BYTES", 10)
    assert len(frame_record(bytes(10))) == 26
    with pytest.raises(InvalidArgumentError, match="a record of 11 bytes is longer than the limit"):
        frame_record(bytes(11))

import pytest
from hypothesis import given, strategies as st

from sparkflow_runtime.checkpoint.sorted_table import (
    TableReader,
    decode_varint,
    encode_table,
    encode_varint,
)
from sparkflow_runtime.errors import DataLossError, UnimplementedError
from sparkflow_runtime.events.crc32c import masked_crc32c
from support.damage import damages


@given(st.integers(0, 2**64 - 1), st.binary(max_size=4))
def test_numbers_are_read_back_and_tell_where_they_end(number, rest):
    encoded = encode_varint(number)
    assert decode_varint(b"x" + encoded + rest, 1) == (number, 1 + len(encoded))


@pytest.mark.parametrize("data", [b"", b"\x80", b"\xff" * 11])
def test_a_number_that_does_not_end_is_refused(data):
    with pytest.raises(DataLossError, match="is not terminated"):
        decode_varint(data, 0)


def reader(tmp_path, data):
    path = tmp_path / "table"
    path.write_bytes(data)
    return TableReader(path)


@pytest.mark.parametrize("count", [0, 1, 15, 16, 17, 5000])
def test_every_pair_is_found_and_no_other(tmp_path, count):
    # Keys with long common prefixes, enough for several blocks.
    pairs = {f"layer/{n // 7}/weights_{n}".encode(): bytes([n % 256]) * 99 for n in range(count)}
    table = reader(tmp_path, encode_table(pairs))
    assert dict(table) == pairs
    assert [key for key, _ in table] == sorted(pairs)
    for key in list(pairs)[:: max(1, count // 50)]:
        assert table.get(key) == pairs[key]
    for missing in (b"", b"layer", b"layer/0/weights_", b"zzz"):
        assert table.get(missing) is None


def test_empty_keys_and_values(tmp_path):
    pairs = {b"": b"header", b"a": b""}
    assert dict(reader(tmp_path, encode_table(pairs))) == pairs


def test_damage_is_told_or_harmless(tmp_path):
    pairs = {f"key{n}".encode(): bytes(20) for n in range(40)}
    for bad in damages(encode_table(pairs)):
        try:
            found = dict(reader(tmp_path, bad))
        except (DataLossError, UnimplementedError):
            continue
        assert found == pairs  # in bytes of the footer that are not read


def test_what_is_no_table_is_told_apart(tmp_path):
    with pytest.raises(DataLossError, match="too short to be a table"):
        reader(tmp_path, b"short")
    with pytest.raises(DataLossError, match="bad magic number"):
        reader(tmp_path, bytes(100))


def test_compressed_blocks_are_refused(tmp_path):
    data = bytearray(encode_table({b"a": b"b"}))
    end = data.index(b"ab") + 2 + 8  # the block's compression byte, after its restarts
    assert data[end] == 0
    data[end] = 1
    data[end + 1 : end + 5] = masked_crc32c(bytes(data[: end + 1])).to_bytes(4, "little")
    table = reader(tmp_path, bytes(data))
    with pytest.raises(UnimplementedError, match=r"compressed blocks \(type 1\)"):
        table.get(b"a")

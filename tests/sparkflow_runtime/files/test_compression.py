import gzip
import io
import zlib

import pytest

from sparkflow_runtime import errors
from sparkflow_runtime.files.compression import compressing, expanding

DATA = bytes(range(256)) * 5000


class Kept(io.BytesIO):
    """Can be read after it was closed."""

    def close(self):
        self.data = self.getvalue()
        super().close()


@pytest.mark.parametrize(("kind", "expand"), [("GZIP", gzip.decompress), ("ZLIB", zlib.decompress)])
def test_round_trip(kind, expand):
    below = Kept()
    with compressing(below, kind) as stream:
        for start in range(0, len(DATA), 7000):
            stream.write(DATA[start : start + 7000])
    assert below.closed
    assert expand(below.data) == DATA
    with expanding(io.BytesIO(below.data), kind) as stream:
        assert stream.read(3) == DATA[:3]
        assert stream.read() == DATA[3:]


def test_several_gzip_members_follow_one_another():
    two = gzip.compress(b"one") + gzip.compress(b"two")
    assert expanding(io.BytesIO(two), "GZIP").read() == b"onetwo"


def test_no_compression_is_the_stream_itself():
    stream = io.BytesIO()
    assert compressing(stream, "") is stream
    assert expanding(stream, "") is stream


def test_empty_input_is_empty():
    assert expanding(io.BytesIO(), "GZIP").read() == b""


def test_damage_is_reported():
    with pytest.raises(errors.DataLossError, match="damaged"):
        expanding(io.BytesIO(b"no zlib"), "ZLIB").read()
    with pytest.raises(errors.DataLossError, match="too early"):
        expanding(io.BytesIO(zlib.compress(DATA)[:-10]), "ZLIB").read()
    with pytest.raises(errors.InvalidArgumentError, match="LZ4"):
        expanding(io.BytesIO(), "LZ4")


@pytest.mark.parametrize("kind", ["GZIP", "ZLIB"])
@pytest.mark.parametrize("damage", [lambda data: data[:-10], lambda data: b"no" + data[2:]])
def test_damage_names_the_file(tmp_path, kind, damage):
    path = tmp_path / "rows"
    with compressing(open(path, "wb"), kind) as stream:
        stream.write(DATA)
    path.write_bytes(damage(path.read_bytes()))
    with (
        expanding(open(path, "rb"), kind) as stream,
        pytest.raises(errors.DataLossError, match="rows: The compressed data"),
    ):
        stream.read()

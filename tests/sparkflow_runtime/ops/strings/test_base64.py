"""What compressed strings may expand to."""

import zlib

import numpy as np
import pytest

from sparkflow_runtime.errors import ResourceExhaustedError
from sparkflow_runtime.ops.strings import base64
from sparkflow_runtime.ops.strings.base64 import DecodeCompressed


def expanded(texts: list[bytes], kind: str) -> list[bytes]:
    data = np.array(texts, object)
    return list(DecodeCompressed().compute(np, data, compression_type=kind))


@pytest.mark.parametrize("kind", ["ZLIB", ""])
def test_a_tensor_of_compressed_texts_has_a_bound(
    monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setattr(base64, "MAX_EXPANDED_BYTES", 3_000_000)
    text = bytes(1_000_000)
    bomb = zlib.compress(text) if kind else text
    assert expanded([bomb] * 3, kind) == [text] * 3
    # Together they are too large, although none of them is.
    with pytest.raises(ResourceExhaustedError, match="more than the 3000000 that one step"):
        expanded([bomb] * 4, kind)


def test_a_bomb_takes_no_more_memory_than_the_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base64, "MAX_EXPANDED_BYTES", 1 << 20)
    bomb = zlib.compress(bytes(1 << 28), 9)
    read = []
    real = base64.expanding

    def counted(stream, kind):
        made = real(stream, kind)
        read.append(made)
        return made

    monkeypatch.setattr(base64, "expanding", counted)
    with pytest.raises(ResourceExhaustedError, match=f"{len(bomb)} compressed bytes"):
        expanded([bomb], "ZLIB")
    (stream,) = read
    assert stream.closed

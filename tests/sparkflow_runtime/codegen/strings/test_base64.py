"""What is not base 64 is left to Python; the rest is in `test_objects`."""

from __future__ import annotations

import numpy as np
import pytest

from sparkflow_runtime.codegen.strings import base64


@pytest.mark.parametrize("text", [b"a", b"abc$", b"ab=c", b"a===", b"abcde", b"\xff\xff"])
def test_what_is_not_base_64_is_left_to_python(text: bytes) -> None:
    asked: list[bytes] = []

    def by_python(data: bytes) -> bytes:
        asked.append(data)
        return b""

    base64.decoded(np.array([b"YQ", text], object), by_python)
    assert asked == [text]

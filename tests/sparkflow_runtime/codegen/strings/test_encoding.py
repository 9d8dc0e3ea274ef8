"""Only str and bytes are converted; the rest is in `test_objects`."""

from __future__ import annotations

import numpy as np

from sparkflow_runtime.codegen.strings import encoding
from support.string_samples import Derived


def test_texts_become_utf_8_and_others_are_left_to_python() -> None:
    values = np.array(["é", b"b", "", "\ud800", 3, None, np.str_("n"), Derived(b"d")], object)
    asked: list[object] = []

    def by_python(value: object) -> bytes:
        asked.append(value)
        return b"?"

    found = encoding.encoded(values, by_python)
    assert found.tolist() == ["é".encode(), b"b", b"", *[b"?"] * 5]
    assert asked == values.tolist()[3:]

"""Rows of bytes; the other parts are in `test_objects`."""

from __future__ import annotations

import numpy as np
import pytest

from sparkflow_runtime.codegen.strings import objects, parts


@pytest.fixture(params=[True, False], ids=["machine code", "python"])
def _way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if not request.param:
        monkeypatch.setattr(objects, "_bytes_are_as_known", lambda: False)


@pytest.mark.usefixtures("_way")
def test_rows_end_at_another_length() -> None:
    strings = np.array([b"abcd", b"efgh", b"xyz", b"ijkl"], object)
    rows, count = parts.joined_rows(strings, 4)
    assert count == 2
    assert rows[:2].tobytes() == b"abcdefgh"

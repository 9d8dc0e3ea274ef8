"""Splitting against Python's, with machine code and without."""

from __future__ import annotations

import pytest

from sparkflow_runtime.codegen.strings import objects, splitting
from support.string_samples import SAMPLES


@pytest.fixture(params=[True, False], ids=["machine code", "python"])
def _way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if not request.param:
        monkeypatch.setattr(objects, "_bytes_are_as_known", lambda: False)


@pytest.mark.usefixtures("_way")
@pytest.mark.parametrize("skips_empty", [True, False])
@pytest.mark.parametrize("empty_has_part", [True, False])
def test_split(skips_empty: bool, empty_has_part: bool) -> None:
    def split(data: bytes) -> list[bytes]:
        if not data and not empty_has_part:
            return []
        found = bytes(data).replace(b";", b",").split(b",")
        return [each for each in found if each] if skips_empty else found

    counts, found, places = splitting.split(
        SAMPLES, b",;", skips_empty=skips_empty, by_python=split
    )
    rows = [split(each) for each in SAMPLES]
    assert counts.tolist() == [len(row) for row in rows]
    assert found.tolist() == [each for row in rows for each in row]
    assert places.tolist() == [n for row in rows for n in range(len(row))]

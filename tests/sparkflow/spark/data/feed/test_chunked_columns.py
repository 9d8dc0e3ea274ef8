"""Rows copied from several chunks."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from sparkflow.spark.data.feed import chunked_columns as columns
from sparkflow.spark.data.feed.chunked_columns import Choice, column_of
from sparkflow.spark.data.schema.row_format import DENSE, Input


@pytest.mark.parametrize("row_bytes", [1, 4, 12, 64, 3136])
@pytest.mark.parametrize("count", [0, 1, 7, 200])
def test_rows_are_copied_byte_by_byte(row_bytes: int, count: int) -> None:
    generator = np.random.default_rng(0)
    parts = [generator.integers(0, 256, (50, row_bytes), np.uint8) for _ in range(3)]
    chunks, rows = generator.integers(0, 3, count), generator.integers(0, 50, count)
    bases = np.array([part.ctypes.data for part in parts])
    out = np.zeros((count, row_bytes), np.uint8)
    assert columns.gather_rows(out, bases[chunks] + rows * row_bytes, row_bytes)
    expected = [parts[chunk][row] for chunk, row in zip(chunks, rows, strict=True)]
    np.testing.assert_array_equal(out, np.reshape(expected, (count, row_bytes)))


@pytest.mark.parametrize("compiled", [True, False])
def test_a_column_gathers_with_and_without_a_compiler(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, compiled: bool
) -> None:
    if not compiled:
        monkeypatch.setattr(columns, "gather_rows", lambda *args: False)
    column = column_of(Input("x", DENSE, "float32", (2,)))
    for first in (0, 5):
        values = np.arange(2 * first, 2 * first + 10, dtype=np.float32)
        column.append(pa.FixedSizeListArray.from_arrays(pa.array(values), 2))
    positions = np.array([7, 0, 9, 4, 5])
    batches = column.take(Choice(positions, np.array([0, 5, 10])), 3)
    assert [len(batch) for (batch,) in batches] == [3, 2]
    found = np.concatenate([batch for (batch,) in batches])
    np.testing.assert_array_equal(found, np.stack([2 * positions, 2 * positions + 1], axis=1))

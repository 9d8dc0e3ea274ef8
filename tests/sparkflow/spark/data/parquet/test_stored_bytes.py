"""Whether a digest of Parquet files distinguishes their content from others."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from sparkflow.spark.data.parquet.footers import read_footers
from sparkflow.spark.data.parquet.stored_bytes import _pieces, column_digest

ROWS = 3000
Columns = dict[str, Any]


def columns() -> Columns:
    draw = np.random.default_rng(0)
    return {
        "x": draw.normal(size=ROWS),
        "label": (np.arange(ROWS) * 7 % 13 > 5).astype(np.int64),
        "list": [[float(i), 1.0] for i in range(ROWS)],
        "aside": draw.normal(size=ROWS),
    }


def write(folder: Path, content: Columns, **how: Any) -> str:
    """Two files of several row groups."""
    folder.mkdir()
    table = pa.table(content)
    for index in range(2):
        part = table.slice(index * ROWS // 2, ROWS // 2)
        pq.write_table(part, folder / f"{index}.parquet", row_group_size=400, **how)
    return str(folder)


def digest(folder: str, **limit: int) -> str:
    return column_digest(read_footers(folder), ["x", "label", "list"], **limit)


def reverse_from(first: int) -> Callable[[Columns], None]:
    def change(content: Columns) -> None:
        content["label"][first:] = 1 - content["label"][first:]

    return change


def swap(name: str, one: int, other: int) -> Callable[[Columns], None]:
    def change(content: Columns) -> None:
        held = content[name]
        assert held[one] != held[other]
        held[one], held[other] = held[other], held[one]

    return change


CHANGES: dict[str, Callable[[Columns], None]] = {
    "all labels": reverse_from(0),
    "labels after the first hundred": reverse_from(100),
    "the last label": reverse_from(ROWS - 1),
    "two labels": swap("label", 2002, 2001),
    "two numbers": swap("x", 1000, 2999),
    "two lists": swap("list", 1000, 2999),
}


@pytest.mark.parametrize("how", [{}, {"compression": "none", "use_dictionary": False}])
@pytest.mark.parametrize("name", CHANGES)
def test_a_change_is_seen(tmp_path: Path, name: str, how: Any) -> None:
    before = write(tmp_path / "before", columns(), **how)
    content = columns()
    CHANGES[name](content)
    assert digest(write(tmp_path / "after", content, **how)) != digest(before)


def test_copies_and_other_columns_make_no_difference(tmp_path: Path) -> None:
    before = write(tmp_path / "before", columns())
    shutil.copytree(before, tmp_path / "copy")
    assert digest(str(tmp_path / "copy")) == digest(before)
    content = columns()
    content["aside"][:] = 0
    assert digest(write(tmp_path / "after", content)) == digest(before)


def test_much_is_told_by_pieces_of_it(tmp_path: Path) -> None:
    before = write(tmp_path / "before", columns())
    content = columns()
    content["x"][::2] *= -1
    after = write(tmp_path / "after", content)
    assert digest(after, whole_bytes=5000) != digest(before, whole_bytes=5000)
    assert digest(before, whole_bytes=5000) != digest(before)


@pytest.mark.parametrize("sizes", [[1], [5000], [3, 10_000, 1, 1, 8_000_000, 77], [2000] * 3000])
def test_pieces_are_spread_evenly_and_few(sizes: list[int]) -> None:
    chunks = [(f"file {index}", 100, size) for index, size in enumerate(sizes)]
    limit = 4096
    pieces = _pieces(chunks, limit)
    assert sum(size for _, _, size in pieces) <= limit
    assert all(
        start >= 100 and start + size <= 100 + sizes[int(path[5:])] for path, start, size in pieces
    )
    assert pieces[0][:2] == ("file 0", 100)
    last, start, size = pieces[-1]
    assert (last, start + size) == (f"file {len(sizes) - 1}", 100 + sizes[-1])
    assert all(size > 0 for _, _, size in pieces)

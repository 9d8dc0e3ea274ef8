"""The table of faults: every row has existing tests, or states that it has none."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

tomllib = pytest.importorskip("tomllib")  # Python 3.11 has it
ROOT = Path(__file__).parents[2]
ROWS = tomllib.loads((ROOT / "tests/faults/rows.toml").read_text("utf-8"))


def test_all_rows_are_there_and_have_tests_or_say_what_is_open() -> None:
    assert list(ROWS) == [f"F{number}" for number in range(1, 18)]
    for name, row in ROWS.items():
        assert row.keys() <= {"fault", "holds", "short", "nightly", "open"}, name
        assert row["fault"], name
        assert row["holds"], name
        assert row.get("short") or row.get("nightly") or row.get("open"), name


@pytest.mark.parametrize(
    ("test", "is_nightly"),
    [
        (each, kind == "nightly")
        for row in ROWS.values()
        for kind in ("short", "nightly")
        for each in row.get(kind, ())
    ],
)
def test_the_tests_of_a_row_are_there(test: str, is_nightly: bool) -> None:
    path, _, name = test.partition("::")
    tree = ast.parse((ROOT / path).read_text("utf-8"))
    if not name:
        return
    found = [n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef) and n.name == name]
    assert len(found) == 1
    of_module = [n for n in tree.body if "pytestmark" in ast.unparse(n).split("=")[0]]
    marks = " ".join(map(ast.unparse, [*found[0].decorator_list, *of_module]))
    assert ("nightly" in marks) == is_nightly


def test_the_page_has_a_promise_for_every_row() -> None:
    page = (ROOT / "docs/reliability.md").read_text("utf-8")
    assert re.findall(r"^\| (F\d+) \|", page, re.MULTILINE) == list(ROWS)

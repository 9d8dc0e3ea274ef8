from pathlib import Path

import pytest

from support import mirror


@pytest.fixture
def tests(tmp_path):
    for name in (
        "a/test_b.py",
        "a/test_b_more.py",
        "a/c/test_x.py",
        "a/test_c.py",
        "a/d/test_d.py",
    ):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    return tmp_path


@pytest.mark.parametrize(
    ("module", "file", "found"),
    [
        ("a.b", "a/b.py", ["a/test_b.py", "a/test_b_more.py"]),
        ("a._b", "a/_b.py", ["a/test_b.py", "a/test_b_more.py"]),
        ("a.c", "a/c.py", ["a/test_c.py", "a/c/test_x.py"]),
        ("a.d", "a/d/__init__.py", ["a/d/test_d.py"]),
        ("a.c", "a/c/__init__.py", []),
        ("a.e", "a/e.py", []),
    ],
)
def test_tests_are_at_the_place_of_their_module(tests, module, file, found):
    assert mirror.mirrored(module, Path(file), tests) == [tests / each for each in found]


@pytest.mark.parametrize(
    ("text", "needed"),
    [
        ('"""Only names."""\nfrom os import path\n__all__ = ["path"]\nX: int = 3\n', False),
        ("def f():\n    pass\n", True),
        ("class A:\n    pass\n", True),
        ("for name in []:\n    print(name)\n", True),
    ],
)
def test_what_only_re_exports_needs_none(tmp_path, text, needed):
    path = tmp_path / "module.py"
    path.write_text(text)
    assert mirror.needs_tests("sparkflow.module", path) is needed
    assert not mirror.needs_tests("sparkflow._generated.module", path)


def test_ops_are_tested_by_their_rows():
    assert mirror.in_tables("sparkflow_runtime.ops.elementwise.comparison")
    assert not mirror.in_tables("sparkflow_runtime.ops.registry")


def test_moved_modules_stay_listed_and_new_ones_do_not_come(tmp_path, monkeypatch):
    path = tmp_path / "list.txt"
    path.write_text("# head\na.b\na.moved\na.tested\n")
    monkeypatch.setattr(mirror, "LIST", path)
    monkeypatch.setattr(mirror, "untested", lambda: ["a.b", "a.new", "c.moved"])
    mirror._rewrite()
    assert mirror.listed() == ["a.b", "c.moved"]

"""Finds modules that are tested by a file in the mirrored folder with a different name.

    PYTHONPATH=tests .venv/bin/python -m support.beside tests/sparkflow/layers/test_layers.py ...

runs the test files one at a time under the package `coverage` (pip install coverage), and writes
into tests/contracts/tested_beside.txt which modules of their folder they run: at least `LEAST` of
the lines inside functions. Modules that are only incidentally run from elsewhere are left out.
"""

from __future__ import annotations

import ast
import importlib
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from support.import_graph import ROOT, modules
from support.mirror import BESIDE, is_beside, needs_tests, others_tests, own_tests

LEAST: Final = 0.8
_HEAD: Final = """\
# Each module, and the test file in its folder that runs it; tests/support/beside.py runs the files
# to find them, and writes this list.
"""


def lines_of_functions(text: str) -> set[int]:
    """Returns the first lines of statements in functions, without docstrings and definitions."""
    return {
        node.lineno
        for function in ast.walk(ast.parse(text))
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
        for node in ast.walk(function)
        if isinstance(node, ast.stmt)
        and not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
        and not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))
    }


def run_by(test: Path) -> dict[str, set[int]]:
    """Returns the lines that a test file runs, by the path of our files."""
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder, "data")
        watch = ["-m", "coverage", "run", f"--data-file={data}", "--source=sparkflow,runtime"]
        command = [sys.executable, *watch, "-m", "pytest", "-q", "-p", "no:xdist", str(test)]
        subprocess.run(command, cwd=ROOT, check=True)
        found = importlib.import_module("coverage").CoverageData(basename=str(data))
        found.read()
        return {each: set(found.lines(each) or ()) for each in found.measured_files()}


def found_beside(test: Path, lines: dict[str, set[int]]) -> list[str]:
    """Returns the modules of its own folder that this test runs and that lack tests."""
    found = []
    for name, path in modules().items():
        ran = lines.get(str(path), set())
        if not ran or not is_beside(name, test) or own_tests(name, path, ROOT / "tests"):
            continue
        inside = lines_of_functions(path.read_text())
        if inside and len(inside & ran) >= LEAST * len(inside) and needs_tests(name, path):
            found.append(name)
    return found


def write(beside: dict[str, Path]) -> None:
    """Writes the table."""
    table = (f"{name} {path.relative_to(ROOT)}\n" for name, path in sorted(beside.items()))
    (ROOT / "tests" / BESIDE).write_text(_HEAD + "".join(table))


def _main(tests: list[str]) -> None:
    beside = others_tests(ROOT / "tests")
    for test in tests:
        path = Path(test).resolve()
        for name in found_beside(path, run_by(path)):
            beside.setdefault(name, path)
    write(beside)


if __name__ == "__main__":
    _main(sys.argv[1:])

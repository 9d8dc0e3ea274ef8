"""Where the tests of a module are: `sparkflow_runtime.shapes` has sparkflow_runtime/test_shapes.py.

A module `c` of a package is tested by `test_c.py` in the folder of `tests/` that mirrors the
package, or by several files: `test_c_*.py` next to it, or `test_*.py` in a folder `c`. An
`__init__.py` with code is tested by a file in its folder that is named after the package. A module
of ops is tested by the tables of cases if these have rows for all its ops. Modules that a file in
their folder tests together with others are in tests/contracts/tested_beside.txt, see
`support.beside`.
"""

from __future__ import annotations

import ast
import functools
import re
from pathlib import Path
from typing import Final

from sparkflow_runtime.ops.index import MODULES
from support.import_graph import ROOT, modules, read

LIST: Final = ROOT / "tests" / "contracts" / "modules_without_tests.txt"
BESIDE: Final = "contracts/tested_beside.txt"
"""Relative to the folder of all tests."""
_HEAD: Final = """\
# Modules without tests at their mirrored place, read by tests/contracts/test_map.py. Write tests,
# and remove lines. `PYTHONPATH=tests .venv/bin/python -m support.mirror` rewrites the list after
# modules were moved or tested; it does not add new modules.
"""
NO_CODE: Final = (ast.Import, ast.ImportFrom, ast.Assign, ast.AnnAssign, ast.Expr)
_GENERATED: Final = re.compile(r"\.(protos|_generated)\b|\.ops\.index$|accessors$")


def mirrored(module: str, path: Path, tests: Path) -> list[Path]:
    """Returns the test files of a module; for the arguments see `own_tests`."""
    beside = others_tests(tests).get(module)
    return own_tests(module, path, tests) or ([] if beside is None else [beside])


@functools.cache
def others_tests(tests: Path) -> dict[str, Path]:
    """Returns the file in a module's folder that tests it together with others, by module."""
    table = tests / BESIDE
    lines = table.read_text().splitlines() if table.exists() else []
    pairs = (line.split() for line in lines if line and line[0] != "#")
    return {name: tests.parent / path for name, path in pairs}


def is_beside(module: str, test: Path) -> bool:
    """Whether a test file is at a module's mirrored place, one folder above it, or below it."""
    *package, name = module.split(".")
    folder = list(test.parts[:-1])
    while "tests" in folder:  # the clone may be in a folder named tests
        folder = folder[folder.index("tests") + 1 :]
    if len(package) < 2:  # the top level is not a folder of modules
        return test.stem == f"test_{name}"
    return folder[: len(package)] == package or folder == package[:-1]


def own_tests(module: str, path: Path, tests: Path) -> list[Path]:
    """Returns the test files of a module at its mirrored place.

    Args:
        module: Its dotted name.
        path: Its file.
        tests: The folder of all tests.
    """
    parts = module.split(".")
    if path.name == "__init__.py":
        folder = tests.joinpath(*parts)
        return (
            [folder / f"test_{parts[-1]}.py"] if (folder / f"test_{parts[-1]}.py").exists() else []
        )
    name = parts[-1].lstrip("_")
    folder = tests.joinpath(*parts[:-1])
    own = [folder / f"test_{name}.py", *folder.glob(f"test_{name}_*.py")]
    return [each for each in own if each.exists()] + sorted((folder / name).glob("test_*.py"))


def is_generated(module: str) -> bool:
    """Whether a script generates it."""
    return _GENERATED.search(module) is not None


def needs_tests(module: str, path: Path) -> bool:
    """Whether a module has code of its own: it is not generated, and does not only re-export."""
    if is_generated(module) or module.startswith("support"):
        return False
    return any(not isinstance(node, NO_CODE) for node in ast.parse(path.read_text()).body)


def untested() -> list[str]:
    """Returns the modules that need tests and have none at their mirrored place."""
    tests = ROOT / "tests"
    return sorted(
        name
        for name, path in modules().items()
        if needs_tests(name, path) and not mirrored(name, path, tests) and not in_tables(name)
    )


def in_tables(module: str) -> bool:
    """Whether a module registers ops, and all of them have rows in the tables of cases."""
    names = MODULES.get(module.removeprefix("sparkflow_runtime.ops."), "").split()
    return bool(names) and set(names) <= _ops_with_rows()


@functools.cache
def _ops_with_rows() -> frozenset[str]:
    tables = sorted((ROOT / "tests" / "sparkflow_runtime" / "ops").glob("cases_*.py"))
    return frozenset().union(*(read(path).words for path in tables))


def listed() -> list[str]:
    """Returns the modules that may lack tests."""
    return [line for line in LIST.read_text().splitlines() if line and line[0] != "#"]


def _rewrite() -> None:
    """Removes modules that have tests by now; moved modules are found by their last name."""
    known, now = listed(), untested()
    gone = {name.rpartition(".")[2] for name in known if name not in now}
    kept = [name for name in now if name in known or name.rpartition(".")[2] in gone]
    LIST.write_text(_HEAD + "".join(f"{name}\n" for name in kept))


if __name__ == "__main__":
    _rewrite()

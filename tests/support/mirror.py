"""Where the tests of a module are: `sparkflow_runtime.shapes` has sparkflow_runtime/test_shapes.py.

A module `c` of a package is tested by `test_c.py` in the folder of `tests/` that is named as the
package, or by more than one file: `test_c_*.py` beside it, or `test_*.py` in a folder `c`. An
`__init__.py` that has code is tested by a file in its folder that is named as that.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import Final

NO_CODE: Final = (ast.Import, ast.ImportFrom, ast.Assign, ast.AnnAssign, ast.Expr)
_GENERATED: Final = re.compile(r"\.(protos|_generated)\b|\.ops\.index$")


def mirrored(module: str, path: Path, tests: Path) -> list[Path]:
    """The test files of a module.

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


def needs_tests(module: str, path: Path) -> bool:
    """Whether a module has code of its own: it was not generated, and does not only re-export."""
    if _GENERATED.search(module) or module.startswith("support"):
        return False
    return any(not isinstance(node, NO_CODE) for node in ast.parse(path.read_text()).body)

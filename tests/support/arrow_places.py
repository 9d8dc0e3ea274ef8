"""Finds modules that convert Arrow to arrays: only one should, and the others should call it."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Final

_DECODES: Final = frozenset(
    {"to_numpy", "to_pylist", "to_pydict", "to_pandas", "buffers", "flatten"}
)
"""Methods of Arrow's columns and tables that depend on the layout of values."""
_ARRAYS: Final = frozenset({"array", "asarray", "ascontiguousarray", "frombuffer", "fromiter"})
_COLUMNS: Final = frozenset(
    {"cast", "chunk", "column", "combine_chunks", "drop_null", "field", "fill_null", "is_null"}
    | {"is_valid"}
)
"""Methods of Arrow that return a column, which numpy would convert by itself."""


def decodes_arrow(text: str) -> bool:
    """Whether a module uses pyarrow and converts columns to arrays or lists itself."""
    if "pyarrow" not in text and "pa." not in text:
        return False
    calls = (each for each in ast.walk(ast.parse(text)) if isinstance(each, ast.Call))
    return any(_decodes(call) for call in calls)


def places(paths: dict[str, Path]) -> list[str]:
    """Returns those modules, given the paths of modules by name."""
    return [name for name, path in paths.items() if decodes_arrow(path.read_text())]


def _decodes(call: ast.Call) -> bool:
    func = call.func
    if not isinstance(func, ast.Attribute):
        return False
    owner = getattr(func.value, "id", "")
    if owner == "np" and func.attr in _ARRAYS:
        given = call.args[0] if call.args else None
        asked = getattr(given, "func", None)
        return isinstance(asked, ast.Attribute) and asked.attr in _COLUMNS
    return func.attr in _DECODES and owner != "nest"  # nest.flatten is about structures

"""Reads public names and their definitions without importing the front end."""

from __future__ import annotations

import ast
import importlib
import pkgutil
from collections.abc import Iterator
from pathlib import Path

import sparkflow._api.ops
from sparkflow._api.faces import ELSEWHERE, FACES, MODULES, PACKAGES
from sparkflow._api.row import Row

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "sparkflow"
WRITTEN = ("_api", "_generated")
"""Folders without declarations."""
FUNCTIONS = "sparkflow._generated.ops"


def tables() -> dict[str, tuple[str, tuple[Row, ...]]]:
    """Returns the docstring and the rows of the table of each family (`image.color`)."""
    package = sparkflow._api.ops
    found = {}
    for each in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        module = importlib.import_module(each.name)
        if not each.ispkg:
            family = each.name.removeprefix(package.__name__ + ".")
            found[family] = (module.__doc__ or "", module.ROWS)
    return found


def public() -> dict[str, tuple[str, str]]:
    """Returns the defining module of each public path and its name there.

    Raises:
        ValueError: Two definitions claim a path, or no module of the surface contains it.
    """
    found: dict[str, tuple[str, str]] = {}
    for path, module, name in _all():
        if found.setdefault(path, (module, name)) != (module, name):
            raise ValueError(f"tf.{path} is {found[path]} and {(module, name)}")
        parent = path.rpartition(".")[0]
        if parent and parent not in FACES and parent not in PACKAGES:
            raise ValueError(f"{module}.{name}: tf.{parent} is no module in _api/faces.py")
        if path in FACES or path in MODULES.split():
            raise ValueError(f"{module}.{name}: tf.{path} is a module")
        if not parent and (PACKAGE / f"{path}.py").exists() | (PACKAGE / path).is_dir():
            raise ValueError(f"{module}.{name}: sparkflow/{path} would hide tf.{path}")
    return found


def _all() -> Iterator[tuple[str, str, str]]:
    for family, (_, rows) in tables().items():
        for row in rows:
            for path in row.public:
                yield path, f"{FUNCTIONS}.{family}", row.called
    for module, names in ELSEWHERE.items():
        for name, paths in names.items():
            for path in paths.split():
                yield path, module, name
    for file in sorted(PACKAGE.rglob("*.py")):
        inside = file.relative_to(PACKAGE)
        if inside.parts[0] in WRITTEN or "@export(" not in (text := file.read_text()):
            continue
        parts = inside.with_suffix("").parts
        module = ".".join(("sparkflow", *(parts[:-1] if parts[-1] == "__init__" else parts)))
        for name, paths in exported(text):
            for path in paths:
                yield path, module, name


def exported(text: str) -> Iterator[tuple[str, list[str]]]:
    """Yields the definitions of a module with `@export(...)`, each with its paths."""
    for node in ast.parse(text).body:
        if not isinstance(node, ast.FunctionDef | ast.ClassDef):
            continue
        for each in node.decorator_list:
            if isinstance(each, ast.Call) and getattr(each.func, "id", "") == "export":
                yield node.name, [ast.literal_eval(argument) for argument in each.args]

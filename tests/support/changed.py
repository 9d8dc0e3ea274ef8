"""The test files that a change can break, closest first: `python -m support.changed [COMMIT]`.

A change can break the tests that use it, directly or through other files. Ops are used not by
import but by name: a file with "MatMul" or `g.MatMul` uses the module that defines the op. Passes
and the compiler do not use the ops that they name, since they only look for them in graphs built
by others. Other files (recorded answers, programs, pages) are used by the tests that name them.
"""

from __future__ import annotations

import functools
import re
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from sparkflow_runtime.ops import index
from support.import_graph import PACKAGES, ROOT, modules, name_of, read
from support.mirror import mirrored

ALL: Final = ("pyproject.toml", "scripts/run_tests", "scripts/set_up.sh", "tests/conftest.py")
"""Files on which everything depends."""

WHOLE_TREE: Final = ("tests/contracts", "tests/docs")
"""Tests that read all files; they are fast."""

_OPS: Final = PACKAGES["sparkflow_runtime"] / "ops"
_NO_WAY: Final = frozenset(
    {PACKAGES["sparkflow"] / "_generated" / "names.py", ROOT / "tests" / "conftest.py"}
)
"""Files that use more than their users do."""


def changed_files(commit: str) -> list[Path]:
    """Returns what differs from the merge base with `commit`, and files unknown to git.

    Deleted files are included.

    Args:
        commit: A branch or commit.
    """
    base = _git("merge-base", commit, "HEAD").strip()
    tracked = _git("diff", "--name-only", "--no-renames", base)
    others = _git("ls-files", "--others", "--exclude-standard")
    return [ROOT / line for line in (tracked + others).splitlines()]


def broken_by(changed: Iterable[Path]) -> list[Path]:
    """Returns the test files, and modules with doctests, that use these files; closest first.

    A module's own tests (`support.mirror`) precede others at the same distance.

    Args:
        changed: Absolute paths.
    """
    distance = dict.fromkeys(changed, 0)
    border = list(distance)
    while border:
        path = border.pop(0)
        for user in sorted(_users().get(path, set()) | _naming(path)):
            if user not in distance:
                distance[user] = distance[path] + 1
                border.append(user)
    found = [path for path in distance if path.exists() and _has_tests(path)]
    changed_modules = [(name_of(path), path) for path, far in distance.items() if far == 0]
    own = [
        test
        for name, path in changed_modules
        if name is not None
        for test in mirrored(name, path, ROOT / "tests")
    ]
    whole = [path for folder in WHOLE_TREE for path in sorted((ROOT / folder).glob("test_*.py"))]
    return list(dict.fromkeys([*own, *found, *whole]))


@functools.cache
def ops() -> Mapping[str, Path]:
    """Returns the module that registers an op, by op type."""
    return {
        op_type: _OPS.joinpath(*module.split(".")).with_suffix(".py")
        for module, op_types in index.MODULES.items()
        for op_type in op_types.split()
    }


@functools.cache
def _users() -> Mapping[Path, set[Path]]:
    users: dict[Path, set[Path]] = {}
    for path in _sources():
        for used in _uses(path):
            users.setdefault(used, set()).add(path)
    return users


def _uses(path: Path) -> set[Path]:
    if path in _NO_WAY:
        return set()
    found = {modules()[use.target] for use in read(path).uses if use.kind != "typing"}
    for module in list(found):  # importing a.b.c runs a/__init__.py and a/b/__init__.py
        packages = {package / "__init__.py" for package in module.parents}
        found |= packages & _sources()
    name = name_of(path) or ""
    if not name.startswith("sparkflow_runtime") or _OPS in path.parents:
        found |= {ops()[word] for word in read(path).words & ops().keys()}
    if name_of(path) is None:
        found |= {folder / "conftest.py" for folder in path.parents}
    return found - {path}


@functools.cache
def _sources() -> frozenset[Path]:
    return frozenset(modules().values()) | frozenset((ROOT / "tests").rglob("*.py"))


@functools.cache
def _texts() -> Mapping[Path, str]:
    return {path: path.read_text() for path in _sources() if ROOT / "tests" in path.parents}


def _naming(path: Path) -> set[Path]:
    """The tests with the name of a file that is not a module in a string."""
    if name_of(path) is not None or path.name == "conftest.py" or path.name.startswith("test_"):
        return set()
    names = {path.name, path.stem} if path.suffix == ".py" else {path.name, f"*{path.suffix}"}
    if ROOT / "tests" / "golden" in path.parents:
        names = {path.name, path.stem, path.parent.name}  # all files of a folder are read
    alternatives = "|".join(re.escape(name) for name in sorted(names))
    pattern = re.compile(rf"""["'/]({alternatives})["'/]""")
    return {each for each, text in _texts().items() if pattern.search(text)} - {path}


def _has_tests(path: Path) -> bool:
    if ROOT / "tests" in path.parents:
        return path.name.startswith("test_") and path.suffix == ".py"
    return path.suffix == ".py" and ">>> " in path.read_text() and name_of(path) is not None


def _git(*args: str) -> str:
    return subprocess.run(
        ["git", *args],  # noqa: S607  (git is found on PATH)
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    ).stdout


def main(arguments: list[str]) -> None:
    """Prints the paths, one per line; only `tests` if everything can break."""
    changed = changed_files(arguments[0] if arguments else "main")
    if any(str(path.relative_to(ROOT)) in ALL for path in changed):
        print("tests")
        return
    for path in broken_by(changed):
        print(path.relative_to(ROOT))


if __name__ == "__main__":
    main(sys.argv[1:])

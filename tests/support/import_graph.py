"""Which module uses which: read from the source, without importing anything.

A use is an import at import time, inside a function, or only for the type checker; or the name of a
module in a string. A name used through a package (`tf.nn.relu`), or imported from a module that
only re-exports it, is also a use of the module that defines it.
"""

from __future__ import annotations

import ast
import functools
import gc
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

ROOT: Final = Path(__file__).resolve().parents[2]
PACKAGES: Final = {
    "sparkflow": ROOT / "sparkflow",
    "sparkflow_runtime": ROOT / "runtime" / "sparkflow_runtime",
    "support": ROOT / "tests" / "support",
}
"""The folders to read; `set_root` changes them."""

Kind = Literal["import", "lazy", "typing", "string"]


@dataclass(frozen=True, slots=True, order=True)
class Use:
    """A module that a file uses.

    Attributes:
        target: Its dotted name.
        kind: How: imported at import time, in a function, for types only, or named in a string.
        line: The line of the use.
    """

    target: str
    kind: Kind
    line: int


def set_root(root: Path) -> None:
    """Reads a different tree from now on; must be called before anything else."""
    for package, folder in PACKAGES.items():
        PACKAGES[package] = root / folder.relative_to(ROOT)


@dataclass(frozen=True, slots=True)
class Contents:
    """The contents of a file.

    Attributes:
        uses: Its uses, in order.
        words: Names of attributes, and strings that could be names.
    """

    uses: tuple[Use, ...]
    words: frozenset[str]


@functools.cache
def modules() -> Mapping[str, Path]:
    """Returns every module of both packages and of the test support, by dotted name."""
    paths = [path for folder in PACKAGES.values() for path in sorted(folder.rglob("*.py"))]
    return {name: path for path in paths if (name := name_of(path))}


def name_of(path: Path) -> str | None:
    """Returns the dotted name of a module; None for any other file."""
    for package, folder in PACKAGES.items():
        if folder in path.parents and path.suffix == ".py":
            parts = path.relative_to(folder).with_suffix("").parts
            return ".".join((package, *parts)).removesuffix(".__init__")
    return None


@functools.cache
def read(path: Path) -> Contents:
    """Returns a file's uses, except of itself, and its words."""
    reader = _Reader()
    collecting = gc.isenabled()
    gc.disable()  # which would otherwise traverse all trees repeatedly
    try:
        reader.visit(ast.parse(path.read_text(), str(path)))
    finally:
        if collecting:
            gc.enable()
    own = name_of(path)
    uses = tuple(sorted(use for use in reader.found if use.target != own))
    return Contents(uses, frozenset(reader.words))


def graph(kinds: Iterable[Kind] = ("import", "lazy")) -> dict[str, set[str]]:
    """Returns the modules that each module uses, by dotted name."""
    wanted = set(kinds)
    return {
        name: {use.target for use in read(path).uses if use.kind in wanted}
        for name, path in modules().items()
    }


def circles(edges: Mapping[str, Iterable[str]]) -> list[list[str]]:
    """Returns the strongly connected components of more than one node (Tarjan), largest first."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(start: str) -> None:
        work: list[tuple[str, Iterator[str]]] = [(start, iter(sorted(edges.get(start, ()))))]
        index[start] = low[start] = len(index)
        stack.append(start)
        while work:
            node, rest = work[-1]
            for other in rest:
                if other not in index:
                    index[other] = low[other] = len(index)
                    stack.append(other)
                    work.append((other, iter(sorted(edges.get(other, ())))))
                    break
                if other in stack:
                    low[node] = min(low[node], index[other])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == index[node]:
                    circle = stack[stack.index(node) :]
                    del stack[stack.index(node) :]
                    if len(circle) > 1:
                        found.append(sorted(circle))

    for each in sorted(edges):
        if each not in index:
            visit(each)
    return sorted(found, key=lambda circle: (-len(circle), circle))


def rooms(package: str, kinds: Iterable[Kind] = ("import", "lazy")) -> dict[str, set[str]]:
    """Returns which folders and top modules of a package use which."""
    found: dict[str, set[str]] = {}
    for name, targets in graph(kinds).items():
        room = _room(package, name)
        if room is not None:
            others = {_room(package, target) for target in targets}
            found.setdefault(room, set()).update(
                each for each in others if each not in (None, room)
            )
    return found


def _room(package: str, module: str) -> str | None:
    inside = module.removeprefix(f"{package}.")
    return None if inside == module else inside.partition(".")[0]


@functools.cache
def _exports(module: str) -> Mapping[str, tuple[str, str]]:
    """Returns the origins of the names that a module re-exports: the module and the name there."""
    path = modules()[module]
    stub = path.with_suffix(".pyi")
    if not stub.exists() or path.name != "__init__.py":
        stub = path
    found: dict[str, tuple[str, str]] = {}
    for node in ast.parse(stub.read_text()).body:
        if isinstance(node, ast.ImportFrom):
            source = ".".join(filter(None, [module if node.level else "", node.module or ""]))
            for alias in node.names:
                found[alias.asname or alias.name] = (source, alias.name)
    return found


@functools.cache
def origin(module: str, name: str) -> str:
    """Returns the module that defines a name of a module; the module itself if it is its own."""
    if f"{module}.{name}" in modules():
        return f"{module}.{name}"
    source, inner = _exports(module).get(name, ("", ""))
    return origin(source, inner) if source in modules() else module


def _is_module(module: str, name: str) -> bool:
    """Whether a name of a module is a module itself: one below it, or a re-exported one."""
    if f"{module}.{name}" in modules():
        return True
    source, inner = _exports(module).get(name, ("", ""))
    return source in modules() and _is_module(source, inner)


class _Reader(ast.NodeVisitor):
    """Collects the uses in a file."""

    def __init__(self) -> None:
        self.found: set[Use] = set()
        self.words: set[str] = set()
        self._kind: Kind = "import"
        self._aliases: dict[str, str] = {}  # local names of our modules

    def _add(self, target: str, line: int) -> None:
        self.found.add(Use(target, self._kind, line))

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        before = self._kind
        if before == "import":
            self._kind = "lazy"
        self.generic_visit(node)
        self._kind = before

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> None:
        self.visit_FunctionDef(node)

    def visit_If(self, node: ast.If) -> None:
        before = self._kind
        if "TYPE_CHECKING" in ast.dump(node.test):
            self._kind = "typing"
        for statement in node.body:
            self.visit(statement)
        self._kind = before
        self.visit(node.test)
        for statement in node.orelse:
            self.visit(statement)

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            if alias.name in modules():
                self._add(alias.name, node.lineno)
                top = alias.name.partition(".")[0]
                self._aliases[alias.asname or top] = alias.name if alias.asname else top

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        if node.module is not None and node.module in modules():
            # `from package import module` uses the package's own file no more than `import
            # package.module` does: the file's contents do not matter.
            if not all(f"{node.module}.{alias.name}" in modules() for alias in node.names):
                self._add(node.module, node.lineno)
            for alias in node.names:
                target = origin(node.module, alias.name)
                self._add(target, node.lineno)
                if _is_module(node.module, alias.name):
                    self._aliases[alias.asname or alias.name] = target

    def visit_Attribute(self, node: ast.Attribute) -> None:
        chain: list[str] = []
        inner: ast.expr = node
        while isinstance(inner, ast.Attribute):
            chain.append(inner.attr)
            inner = inner.value
        self.words.update(chain)
        if isinstance(inner, ast.Name) and inner.id in self._aliases:
            module = self._aliases[inner.id]
            for name in reversed(chain):
                found = origin(module, name)
                if found == module:
                    break
                self._add(found, node.lineno)
                module = found
        else:
            self.visit(inner)

    def visit_Constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, str) and node.value.isidentifier():
            self.words.add(node.value)
        # Modules named to be run: `python -m name`, or loaded by name.
        if isinstance(node.value, str) and "." in node.value and node.value in modules():
            self.found.add(Use(node.value, "string", node.lineno))

"""Where to look when a recorded answer differs: the functions and ops of a case."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from support.changed import ops
from support.import_graph import ROOT, modules, origin

MOST: Final = 12
"""The maximum number of places named."""

_CALLED: Final = re.compile(r"\btf((?:\.[A-Za-z_]\w*)+)")
_WORD: Final = re.compile(r"\b_?[A-Z]\w+")


def suspects(texts: Iterable[str]) -> list[str]:
    """Returns the functions called in texts with their lines, and the ops with their modules.

    Args:
        texts: Lines of Python that call `tf.` functions, or texts with op types in them.
    """
    found: dict[str, None] = {}
    for text in texts:
        for match in _CALLED.finditer(text):
            place, named = _function(match[1][1:])
            if place:
                found[f"tf{match[1]}: {place}"] = None
            found.update(dict.fromkeys(_op(op_type) for op_type in named))
        found.update(dict.fromkeys(_op(each) for each in _WORD.findall(text) if each in ops()))
    return list(found)[:MOST]


def texts_in(value: Any) -> Iterator[str]:
    """Yields the strings in a test's parameters, also in dictionaries, lists and tuples."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            if key != "preamble":  # the common beginning of all cases of a family
                yield from texts_in(inner)
    elif isinstance(value, list | tuple):
        for inner in value:
            yield from texts_in(inner)


def _op(op_type: str) -> str:
    return f"op {op_type}: {ops()[op_type].relative_to(ROOT)}"


def _function(chain: str) -> tuple[str, list[str]]:
    """Returns where a public name is defined, and the op types named there."""
    module = "sparkflow"
    for name in chain.split("."):
        module = origin(module, name)
        line, named = _definitions(modules()[module]).get(name, (0, ()))
        if line:
            return f"{modules()[module].relative_to(ROOT)}:{line}", list(named)
    return "", []


@functools.cache
def _definitions(path: Path) -> Mapping[str, tuple[int, tuple[str, ...]]]:
    """Returns a module's functions and classes: their lines, and the op types that they name."""
    found = {}
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            strings = (e.value for e in ast.walk(node) if isinstance(e, ast.Constant))
            named = [each for each in strings if isinstance(each, str) and each in ops()]
            found[node.name] = (node.lineno, tuple(dict.fromkeys(named)))
    return found

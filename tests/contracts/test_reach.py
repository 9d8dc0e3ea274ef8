"""Every op that reaches beyond its step declares it: graphs from files need permission for it.

Everything that an op's methods use is followed through functions and classes of the runtime, so
that an op that opens files, talks to others or calls Python cannot be added unnoticed.
"""

from __future__ import annotations

import dis
import functools
from collections.abc import Iterator
from types import CodeType, FunctionType, ModuleType
from typing import Any

import pytest

from sparkflow_runtime.files import system
from sparkflow_runtime.ops import registry
from sparkflow_runtime.ops.op import NETWORK, REACHES, Op

OUTSIDE = (
    *("socket", "subprocess", "shutil", "urllib", "http", "requests"),
    *("pathlib", "tempfile", "pickle", "marshal", "grpc", "pyarrow", "signal", "glob"),
    "sparkflow_runtime.files.system",
    "sparkflow_runtime.files.whole",
    "sparkflow_runtime.files.arrow",
    "sparkflow_runtime.checkpoint.bundle_writer",
    "sparkflow_runtime.checkpoint.opening",
    "sparkflow_runtime.transport",
    "sparkflow_runtime.resources.py_functions",
    "sparkflow_runtime.resources.collectives",
    "sparkflow_runtime.resources.datasets.hosted_datasets",
    "sparkflow_runtime.rendezvous",
)
"""Modules that lead outside of a step."""
BUILTINS = frozenset({"open", "eval", "exec", "compile", "__import__"})
OPENERS = frozenset({"system", "popen", "fork", "execv", "spawnv", "remove", "unlink", "rename"})
"""Functions of `os`, by name."""

HARMLESS: dict[str, str] = dict.fromkeys(
    ("RegexFullMatch", "RegexReplace", "StaticRegexFullMatch", "StaticRegexReplace"),
    "Arrow's functions on columns in memory",
)
"""Ops whose methods lead to one of those modules, but that reach nothing; with the reason."""


def functions_of(op: Op) -> Iterator[FunctionType]:
    for each in type(op).__mro__:
        if each in (Op, object):
            break
        for member in vars(each).values():
            found = getattr(member, "__func__", member)
            if isinstance(found, FunctionType):
                yield found


@functools.cache
def names(code: CodeType, kind: str = "LOAD_") -> frozenset[str]:
    """Returns the names used by a kind of instruction in code, and in code defined within it."""
    found = frozenset(
        each.argval
        for each in dis.get_instructions(code)
        if each.opname.startswith(kind) and isinstance(each.argval, str)
    )
    inner = [each for each in code.co_consts if isinstance(each, CodeType)]
    return found.union(*(names(each, kind) for each in inner))


def leads_out(functions: Iterator[FunctionType]) -> set[str]:
    """Returns the names of outside things to which functions lead."""
    found: set[str] = set()
    seen: set[Any] = set()
    todo: list[Any] = list(functions)
    while todo:
        function = todo.pop()
        if function in seen:
            continue
        seen.add(function)
        if isinstance(function, type):
            todo += [each for each in vars(function).values() if isinstance(each, FunctionType)]
            continue
        read = names(function.__code__)
        for name in names(function.__code__, "LOAD_GLOBAL"):
            met = function.__globals__.get(name)
            if met is None:
                found.update({name} & BUILTINS)
                continue
            if isinstance(met, ModuleType) and met.__name__ == "os":
                found.update(OPENERS & read)
                continue
            module = met.__name__ if isinstance(met, ModuleType) else getattr(met, "__module__", "")
            if any(f"{module}.".startswith(f"{each}.") for each in OUTSIDE):
                found.add(f"{module}: {name}")
            elif (
                isinstance(met, FunctionType | type)
                and str(module).startswith("sparkflow_runtime.")
                and not issubclass(met if isinstance(met, type) else int, BaseException)
            ):
                todo.append(met)
            elif isinstance(met, ModuleType) and met.__name__.startswith("sparkflow_runtime."):
                todo += [
                    getattr(met, each)
                    for each in read
                    if isinstance(getattr(met, each, None), FunctionType)
                ]
    return found


def test_no_op_reaches_out_in_silence() -> None:
    silent = {
        op.op_type: found
        for op in registry.all_ops()
        if not op.reaches and (found := leads_out(functions_of(op)))
    }
    new = {name: found for name, found in silent.items() if name not in HARMLESS}
    assert not new, (
        f"Ops lead out of their step and do not declare it: {new}. Declare it in `reaches` "
        "(sparkflow_runtime.ops.op), or state here why it is harmless."
    )
    assert not HARMLESS.keys() - silent.keys(), "Remove from HARMLESS what leads nowhere any more"


def opens() -> Any:
    return open("x")


def test_what_an_op_does_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    class ByModule(Op):
        def compute(self, xp: Any) -> Any:
            return system.read_file("x")

    class ByHelper(Op):
        def bind(self, node: Any, context: Any) -> Any:
            return lambda: opens()

    monkeypatch.setattr(opens, "__module__", "sparkflow_runtime.ops.x")
    assert leads_out(functions_of(ByModule())) == {"sparkflow_runtime.files.system: system"}
    assert leads_out(functions_of(ByHelper())) == {"open"}


@pytest.mark.parametrize("op_type", sorted(op.op_type for op in registry.all_ops() if op.reaches))
def test_what_says_so_has_words_for_it(op_type: str) -> None:
    op = registry.lookup(op_type)
    assert op.reaches is not None
    assert op.reaches <= REACHES.keys()
    assert leads_out(functions_of(op)) or NETWORK in op.reaches, "why does it say so?"
    assert set(op.paths) <= {arg.name for arg in op.signature.inputs}

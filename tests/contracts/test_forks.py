"""Values that are drawn while a module is imported are drawn again in a forked process."""

import ast
import re

import pytest

from support.import_graph import modules

_DRAWS = {
    "SystemRandom",
    "getpid",
    "getrandbits",
    "monotonic",
    "perf_counter",
    "randbits",
    "time",
    "time_ns",
    "token_bytes",
    "token_hex",
    "urandom",
    "uuid1",
    "uuid4",
}
"""Functions whose results belong to one process: `StepIds` shows how to draw them again."""
_CALLS = re.compile(rf"\b({'|'.join(sorted(_DRAWS))})\(")


def drawn(tree: ast.Module) -> list[int]:
    """Returns the lines at which a module draws such values when it is imported."""
    lines = []
    waiting: list[ast.AST] = list(tree.body)
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            continue  # runs later
        if isinstance(node, ast.If) and "__main__" in ast.dump(node.test):
            continue
        if isinstance(node, ast.Call):
            name = getattr(node.func, "attr", getattr(node.func, "id", ""))
            if name in _DRAWS:
                lines.append(node.lineno)
        waiting += ast.iter_child_nodes(node)
    return sorted(lines)


def test_what_is_found() -> None:
    text = """
import os, random, time
START = time.monotonic()
class A:
    pid = os.getpid()
    def f(self):
        return os.getpid()
ids = iter([random.SystemRandom().getrandbits(40)])
"""
    assert drawn(ast.parse(text)) == [3, 5, 8, 8]


@pytest.mark.parametrize("name", ["sparkflow", "sparkflow_runtime"])
def test_no_module_keeps_what_belongs_to_one_process(name: str) -> None:
    found = {}
    for module, path in modules().items():
        if module.split(".")[0] == name and _CALLS.search(text := path.read_text("utf-8")):
            found[module] = drawn(ast.parse(text))
    assert found, "many draw later"
    early = {module: lines for module, lines in found.items() if lines}
    assert not early, f"drawn while they are imported, and shared by forked processes: {early}"

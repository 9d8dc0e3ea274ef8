"""What a process should create once is created once, whatever its threads and forks do."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from sparkflow_runtime import once as once_module
from sparkflow_runtime.once import Once, latest, once

ROOT = Path(__file__).parents[2]
PACKAGES = (ROOT / "runtime" / "sparkflow_runtime", ROOT / "sparkflow")
THREADS = 8


@pytest.fixture
def threads_change_often() -> Iterator[None]:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def at_once(ask: Callable[[], object]) -> set[int]:
    """Returns the identities of what concurrent threads get."""
    ready = threading.Barrier(THREADS, timeout=60)

    def run() -> object:
        ready.wait()
        return ask()

    with ThreadPoolExecutor(THREADS) as pool:
        kept = [each.result() for each in [pool.submit(run) for _ in range(THREADS)]]
        return set(map(id, kept))


@pytest.mark.parametrize("decorate", [once, latest(4)], ids=["once", "latest"])
@pytest.mark.usefixtures("threads_change_often")
def test_threads_that_ask_at_once_get_the_same(decorate) -> None:
    made = []

    @decorate
    def make(number: int) -> object:
        made.append(number)
        for _ in range(100):  # time for others to arrive
            threading.Event().wait(0)
        return object()

    for number in range(3):
        assert len(at_once(lambda number=number: make(number))) == 1
    assert made == [0, 1, 2]


@pytest.mark.parametrize("decorate", [once, latest(4)], ids=["once", "latest"])
def test_however_a_call_is_spelt_it_is_the_same_value(decorate) -> None:
    @decorate
    def make(first: int, second: int = 2) -> object:
        return object()

    assert make(1) is make(1, 2) is make(1, second=2) is make(second=2, first=1)
    assert make(1, 3) is not make(1)
    assert make.__name__ == "make"


def test_a_maker_may_ask_for_other_values() -> None:
    @once
    def total(number: int) -> int:
        return number + total(number - 1) if number else 0

    held: Once[str, int] = Once()
    assert held.get("total", lambda: held.get("inner", lambda: total(10))) == 55
    assert held.found("inner") == 55
    assert held.found("none") is None


def test_what_cannot_be_made_is_tried_again() -> None:
    tries = []

    @once
    def make() -> int:
        tries.append(1)
        if len(tries) == 1:
            raise OSError("not yet")
        return len(tries)

    with pytest.raises(OSError, match="not yet"):
        make()
    assert [make(), make()] == [2, 2]


def test_only_the_latest_are_kept() -> None:
    made = []

    @latest(2)
    def make(number: int) -> int:
        made.append(number)
        return number

    for number in (0, 1, 2, 1, 0):
        make(number)
    assert made == [0, 1, 2, 0]


FORKS = """
import os, sys, threading
from sparkflow_runtime.once import once
inside, go_on = threading.Event(), threading.Event()
@once
def make(number):
    inside.set()
    if number:
        go_on.wait(0.2)  # the fork that comes meanwhile waits
    return [number]
make(0)
threading.Thread(target=make, args=(1,)).start()
inside.wait()
child = os.fork()
if not child:
    os._exit(7 if make(1) == [1] and make(2) == [2] else 1)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


def test_a_child_that_is_forked_while_something_is_made_goes_on() -> None:
    environment = {**os.environ, "PYTHONWARNINGS": "ignore"}  # for forks of processes with threads
    done = subprocess.run([sys.executable, "-c", FORKS], timeout=60, check=False, env=environment)
    assert done.returncode == 7


# ---------------------------------------------------------------------------------- the whole tree

VALUES = frozenset(
    {
        *("bool", "int", "str", "bytes", "float", "None", "tuple", "list", "dict"),
        *("np.dtype", "DType", "Axes", "DeviceSpec", "Layout", "Number", "Pass", "Reduction"),
        *(
            "UpdateKernel",
            "ast.expr",
            "Positions",
            "RowSchema",
            "Run",
            "Rows",
            "Rule",
            "KeptState",
            "_Dealt",
            "HostArray",  # of an object that lives for one call
        ),
    }
)
"""What a function cached by `functools` may return: numbers, strings and descriptions, of which
duplicates are harmless, and which no address refers to."""


def trees_with(text: str) -> Iterator[tuple[Path, ast.Module]]:
    """Yields the parsed modules of both packages with this text; parsing all takes seconds."""
    for path in (path for package in PACKAGES for path in package.rglob("*.py")):
        source = path.read_text(encoding="utf-8")
        if text in source:
            yield path, ast.parse(source)


def remembered_by_functools() -> Iterator[tuple[str, str]]:
    """Yields all such functions: the place, and the return type."""
    for path, tree in trees_with("cache"):  # `cache`, `lru_cache`, `cached_property`
        if path == Path(once_module.__file__):
            continue
        functions = {
            each.name: each for each in ast.walk(tree) if isinstance(each, ast.FunctionDef)
        }
        where = str(path.relative_to(ROOT))
        for each in functions.values():
            if any(_is_functools(decorator) for decorator in each.decorator_list):
                yield f"{where}:{each.name}", ast.unparse(each.returns) if each.returns else "Any"
        for call in ast.walk(tree):  # lru_cache(...)(function)
            if isinstance(call, ast.Call) and _is_functools(call.func) and call.args:
                name = ast.unparse(call.args[0])
                if name in functions:
                    yield f"{where}:{name}", ast.unparse(functions[name].returns)


def _is_functools(node: ast.expr) -> bool:
    name = ast.unparse(node.func if isinstance(node, ast.Call) else node)
    return name.rpartition(".")[2] in ("cache", "lru_cache", "cached_property") and isinstance(
        node, ast.Name | ast.Attribute | ast.Call
    )


def test_functools_remembers_plain_values_only() -> None:
    """If the cached value holds code, memory or threads, `once` must be used."""
    found = dict(remembered_by_functools())
    assert len(found) > 10
    wrong = {
        where: returned
        for where, returned in found.items()
        if not {ast.unparse(each) for each in _names(ast.parse(returned, mode="eval").body)}
        <= VALUES
    }
    assert not wrong, (
        "use sparkflow_runtime.once for these, or list the type if it is a plain value"
    )


def _names(node: ast.expr) -> Iterator[ast.expr]:
    """Yields the types named by an annotation."""
    if isinstance(node, ast.Name | ast.Attribute):
        yield node
    elif isinstance(node, ast.Subscript) and ast.unparse(node.value) == "np.dtype":
        yield node.value  # numpy's descriptions are values, whatever they describe
    else:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.expr):
                yield from _names(child)


REPLACED = {
    "runtime/sparkflow_runtime/codegen/machine/threads.py": {"_limit", "_lock"},
    "runtime/sparkflow_runtime/resources/datasets/hosted_datasets.py": {"_find"},
    "runtime/sparkflow_runtime/security/defaults.py": {"_given"},
    "sparkflow/spark/launch/connect/free_slots.py": {"_last_query"},
}
"""Names that functions may rebind: settings, locks in a forked child, most recent values."""


def test_nothing_else_is_made_when_it_is_first_needed() -> None:
    """`global x; if x is None: x = ...` creates two if two threads run it concurrently."""
    for path, tree in trees_with("global"):
        names = {
            name for each in ast.walk(tree) if isinstance(each, ast.Global) for name in each.names
        }
        allowed = REPLACED.get(str(path.relative_to(ROOT)), set())
        assert names <= allowed, f"{path}: use sparkflow_runtime.once"

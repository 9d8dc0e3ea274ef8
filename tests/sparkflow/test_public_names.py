import ast
import operator
from pathlib import Path

import pytest

import sparkflow
from sparkflow_runtime.ops import registry

PACKAGE = Path(sparkflow.__file__).parent
NAMESPACES = [
    "",
    "app",
    "audio",
    "bitwise",
    "compat",
    "config",
    "contrib",
    *[f"contrib.{name}" for name in ("crf", "eager", "framework", "layers", "learn", "losses")],
    *[f"contrib.{name}" for name in ("legacy_seq2seq", "lookup", "metrics", "nn", "opt", "rnn")],
    *[f"contrib.{name}" for name in ("seq2seq", "slim", "staging", "summary", "training")],
    *[f"contrib.{name}" for name in ("tensorboard.plugins.projector", "util")],
    "data",
    "data.experimental",
    "debugging",
    "distributions",
    "dtypes",
    "errors",
    "estimator",
    "feature_column",
    "flags",
    "gfile",
    "image",
    "graph_util",
    "io",
    "io.gfile",
    "linalg",
    "logging",
    "lookup",
    "manip",
    "math",
    "nest",
    "metrics",
    "nn",
    "profiler",
    "python_io",
    "quantization",
    "queue",
    "random",
    "resource_loader",
    "saved_model",
    "sets",
    "signal",
    "sparse",
    "spectral",
    "strings",
    "summary",
    "sysconfig",
    "test",
    "train",
    "user_ops",
    "version",
]


@pytest.mark.parametrize("name", NAMESPACES)
def test_everything_listed_exists_and_nothing_else_is_offered(name):
    module = operator.attrgetter(name)(sparkflow) if name else sparkflow
    assert len(set(module.__all__)) == len(module.__all__)
    assert [each for each in module.__all__ if not hasattr(module, each)] == []


def test_no_public_function_is_undocumented():
    offered = {name: getattr(sparkflow, name) for name in sparkflow.__all__}
    ours = {
        name: item
        for name, item in offered.items()
        if getattr(item, "__module__", "").startswith("sparkflow.") and callable(item)
    }
    assert len(ours) > 150
    assert [name for name, item in ours.items() if not item.__doc__] == []


def test_every_op_type_the_front_end_names_is_registered():
    """A misspelt op type would fail only when the function is called."""
    found = set()
    for path in PACKAGE.rglob("*.py"):
        for call in ast.walk(ast.parse(path.read_text())):
            if isinstance(call, ast.Call) and call.args and name_of(call.func) in ADDING:
                found.update(texts(call.args[0]))
    assert len(found) > 100
    assert [op_type for op_type in sorted(found) if not registry.contains(op_type)] == []


ADDING = {"apply_op", "apply", "add_node", "_binary", "_unary", "_draw", "_draw_shaped"}
"""Functions whose first argument is an op type."""


def name_of(function: ast.expr) -> str:
    return str(getattr(function, "id", getattr(function, "attr", "")))


def texts(argument: ast.expr) -> set[str]:
    """Returns the possible strings of an argument: itself, or those a condition chooses from."""
    if isinstance(argument, ast.IfExp):
        return texts(argument.body) | texts(argument.orelse)
    if isinstance(argument, ast.Constant) and isinstance(argument.value, str):
        return {argument.value}
    return set()

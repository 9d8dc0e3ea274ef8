"""Knowledge of an op belongs to the op: no other code recognises ops by name.

`tests/support/op_names.py` defines what counts, and the exceptions.
"""

from collections import Counter
from pathlib import Path

import pytest

import sparkflow_runtime.ops.all  # noqa: F401 - fills the registry
from sparkflow_runtime.ops import registry, trait_checks
from support import op_names

ROOT = Path(__file__).parents[2]
NAMES = frozenset(op.op_type for op in registry.all_ops())
ADVICE = """
Declare it with the op instead: a class attribute of sparkflow_runtime.ops.op.Op (see its docstring
and docs/own_ops.md) with a default that is safe for every op, which is read from
registry.lookup(node.op). A user's op can then declare it, too. A rule that rewrites certain ops
belongs in passes/simplify."""


def test_no_op_is_told_by_its_name() -> None:
    told = op_names.of_tree(ROOT, NAMES)
    worse = op_names.not_meant(told)
    assert not worse, f"Ops are recognised by name in {worse}.{ADVICE}"
    gone = {
        name: ops - {op for _, op in told.get(name, ())} for name, ops in op_names.MEANT.items()
    }
    assert not any(gone.values()), f"Remove from MEANT what is not used any more: {gone}"


@pytest.mark.parametrize(
    ("source", "names"),
    [
        ('X = frozenset({"MatMul", "Const"})', ["MatMul"]),
        ('X = {"MatMul": 1}', ["MatMul"]),
        ('def f(n):\n    return n.op in ("Relu", "Abs")', ["Abs", "Relu"]),
        ('def f(n):\n    return n.op == "Relu"', ["Relu"]),
        ('def f(n):\n    match n.op:\n        case "Relu":\n            return 1', ["Relu"]),
        ('__all__ = ["Variable"]', []),
        ('y = apply_op("Relu", x)', []),
        ('def f(n):\n    return n.op in ("Const", "_Arg")', []),
        ('def f(n):\n    return n.op.startswith("Sparse")', ["Sparse"]),
        ('def f(op_type):\n    return op_type.removesuffix("V2")', ["V2"]),
        ('def f(n):\n    return n.name.startswith("Sparse")', []),
    ],
)
def test_what_counts_as_a_name(source: str, names: list[str]) -> None:
    assert Counter(name for _, name in op_names.told_by_name(source, NAMES)) == Counter(names)


def test_what_ops_say_can_be_true() -> None:
    for op in registry.all_ops():
        trait_checks.check(op)
        assert op.by_segment is None or registry.contains(op.by_segment), op.op_type

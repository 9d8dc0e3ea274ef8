"""What is true of an op stands beside the op: nothing else tells ops by their names.

A comparison with the name of an op, or a collection of such names, is knowledge of ops that a
user's op cannot be in. Rules that rewrite a pattern of certain ops, and what makes nodes, may name
ops; so may whoever looks for the structure of a graph (`STRUCTURAL`).
"""

import ast
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

import sparkflow_runtime.ops.all  # noqa: F401 - fills the registry
from sparkflow_runtime.ops import registry, traits

ROOT = Path(__file__).parents[2]
NAMES = frozenset(op.op_type for op in registry.all_ops())
STRUCTURAL = frozenset(
    {
        *("Const", "NoOp", "If", "StatelessIf", "While", "StatelessWhile"),
        *("Enter", "Exit", "Switch", "Merge", "NextIteration", "LoopCond"),
    }
)
"""What a graph is made of: control flow, with every op whose name begins with `_`."""

RULES = (
    "runtime/sparkflow_runtime/passes/simplify/",
    "runtime/sparkflow_runtime/passes/raising/",
    "runtime/sparkflow_runtime/passes/distinct_rows.py",
    "runtime/sparkflow_runtime/passes/sparse_updates.py",
    "sparkflow/export/onnx/",
    "sparkflow/differentiation/gradient_registry.py",
    "sparkflow/graph/messages/importing.py",
)
"""Files, or folders, of rules keyed by op, and of the frames of TensorFlow's first control flow."""

OTHER_WORDS = (
    "runtime/sparkflow_runtime/device/gpu_collectives.py",
    "runtime/sparkflow_runtime/resources/collectives/collective_sums.py",
    "sparkflow/_generated/",
    "sparkflow/_tf/",
    "sparkflow/contrib/data/__init__.py",
    "sparkflow/raw_ops.py",
    "sparkflow/train/clusters/device_setter.py",
    "sparkflow/train/replication/all_reduce.py",
)
"""Where the same words are values of attributes, public names, or a constant of TensorFlow's."""

MEANT: dict[str, set[str]] = {
    # Compositions: what a reduction of ragged tensors is made of, by the reduction.
    "sparkflow/ragged/reducing.py": {"Mean", "Any", "All"},
    # What a node that reads by a handle becomes, by the node's op; two of TensorFlow's exceptions;
    # Identity is what TensorFlow says is taken out.
    "sparkflow/graph_util.py": {
        *("ReadVariableOp", "ResourceGather", "ResourceGatherNd", "Identity"),
        *("DynamicStitch", "ParameterizedTruncatedNormal"),
    },
    # The ops that the functions of these modules make, found again in a graph.
    "sparkflow/session/handles.py": {"GetSessionHandle"},
    "sparkflow/summary/summaries.py": {"TensorSummary"},
    "sparkflow/variables/variable.py": {"StridedSlice"},
    # What TensorFlow says of ops by their names.
    "sparkflow/contrib/layers/summaries.py": {"Relu", "Relu6", "Softplus"},
    "sparkflow/test/messages.py": {"HashTable", "HashTableV2"},
}
"""Names that are the meaning itself of what is told by them."""

ADVICE = """
Say it beside the op instead: a class attribute of sparkflow_runtime.ops.op.Op (see its docstring
and docs/own_ops.md) with the answer that is safe for every op as its default, and ask
registry.lookup(node.op) for it. A user's op can then say it as well. A rule that rewrites certain
ops belongs to passes/simplify."""


def files() -> Iterator[Path]:
    for package in ("sparkflow", "runtime/sparkflow_runtime"):
        for path in sorted((ROOT / package).rglob("*.py")):
            name = path.relative_to(ROOT).as_posix()
            if "/protos/" in name or name.startswith("runtime/sparkflow_runtime/ops/"):
                continue
            if not name.startswith((*RULES, *OTHER_WORDS)):
                yield path


def told_by_name(source: str) -> list[tuple[int, str]]:
    """Lines and names where an op is told by its name."""
    tree = ast.parse(source)
    found: set[tuple[int, str]] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare):
            parts: list[ast.expr] = [node.left, *node.comparators]
        elif isinstance(node, ast.Assign | ast.AnnAssign) and isinstance(
            node.value, ast.Set | ast.Dict | ast.Tuple | ast.List | ast.Call
        ):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            if any(isinstance(each, ast.Name) and each.id == "__all__" for each in targets):
                continue
            if isinstance(node.value, ast.Call) and not (
                isinstance(node.value.func, ast.Name)
                and node.value.func.id in ("frozenset", "set", "tuple", "dict")
            ):
                continue
            parts = [node.value]
        elif isinstance(node, ast.MatchValue):
            parts = [node.value]
        else:
            parts = []
            found.update(told_by_part(node))
        found.update(
            (each.lineno, each.value)
            for part in parts
            for each in constants(part)
            if each.value in NAMES
            and each.value not in STRUCTURAL
            and not each.value.startswith("_")
        )
    return sorted(found)


def told_by_part(node: ast.AST) -> Iterator[tuple[int, str]]:
    """The part of a name by which an op is told, as in `node.op.startswith("Sparse")`."""
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
        return
    if node.func.attr not in ("startswith", "endswith", "removeprefix", "removesuffix"):
        return
    asked = node.func.value
    name = asked.attr if isinstance(asked, ast.Attribute) else getattr(asked, "id", "")
    if name in ("op", "type", "op_type"):
        parts = (each for argument in node.args for each in constants(argument))
        yield from ((each.lineno, each.value) for each in parts if each.value[:1].isupper())


def constants(expression: ast.AST) -> Iterator[ast.Constant]:
    """Texts of an expression, but for those that are given to a function, such as `apply_op`."""
    if isinstance(expression, ast.Constant):
        if isinstance(expression.value, str):
            yield expression
        return
    if isinstance(expression, ast.Call) and not (
        isinstance(expression.func, ast.Name)
        and expression.func.id in ("frozenset", "set", "tuple", "dict")
    ):
        return
    for child in ast.iter_child_nodes(expression):
        yield from constants(child)


def test_no_op_is_told_by_its_name() -> None:
    told = {
        path.relative_to(ROOT).as_posix(): told_by_name(path.read_text("utf-8")) for path in files()
    }
    found = {name: {op for _, op in places} for name, places in told.items() if places}
    worse = {name: told[name] for name, ops in found.items() if ops - MEANT.get(name, set())}
    assert not worse, f"Ops are told by their names in {worse}.{ADVICE}"
    gone = {name: ops - found.get(name, set()) for name, ops in MEANT.items()}
    assert not any(gone.values()), f"Take out of MEANT what is not told any more: {gone}"


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
    assert Counter(name for _, name in told_by_name(source)) == Counter(names)


def test_what_ops_say_can_be_true() -> None:
    for op in registry.all_ops():
        traits.check(op)
        assert op.by_segment is None or registry.contains(op.by_segment), op.op_type

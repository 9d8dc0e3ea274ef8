"""Where code refers to ops by name: the single list of exceptions, and a search for the rest.

A comparison with the name of an op, or a collection of such names, is knowledge of ops that
excludes a user's op. Rules that rewrite a pattern of certain ops, and code that creates nodes, may
name ops; so may code that analyses the structure of a graph. `tests/contracts/test_op_knowledge.py`
enforces this, `scripts/measure_house.py` prints the number of each.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Final

STRUCTURAL: Final = frozenset(
    {
        *("Const", "NoOp", "If", "StatelessIf", "While", "StatelessWhile"),
        *("Enter", "Exit", "Switch", "Merge", "NextIteration", "LoopCond"),
    }
)
"""The structure of graphs: control flow, and every op with a name that begins with `_`."""

OPS: Final = ("runtime/sparkflow_runtime/ops/",)
"""Where knowledge of ops belongs."""

RULES: Final = (
    "runtime/sparkflow_runtime/passes/simplify/",
    "runtime/sparkflow_runtime/passes/raising/",
    "runtime/sparkflow_runtime/passes/direct_lookups.py",
    "runtime/sparkflow_runtime/passes/distinct_rows.py",
    "runtime/sparkflow_runtime/passes/moving_averages.py",
    "runtime/sparkflow_runtime/passes/sparse_updates.py",
    "sparkflow/export/onnx/",
    "sparkflow/differentiation/gradient_registry.py",
    "sparkflow/graph/messages/importing.py",
    "sparkflow/graph/nodes/reach.py",
)
"""Files, or folders, of rules keyed by op, and of the frames of TensorFlow's first control flow."""

OTHER_WORDS: Final = (
    "runtime/sparkflow_runtime/device/gpu_collectives.py",
    "runtime/sparkflow_runtime/resources/collectives/collective_sums.py",
    "sparkflow/_generated/",
    "sparkflow/_tf/",
    "sparkflow/contrib/data/__init__.py",
    "sparkflow/raw_ops.py",
    "sparkflow/train/clusters/device_setter.py",
    "sparkflow/train/replication/all_reduce.py",
)
"""Where the same words are values of attributes, public names, or a constant of TensorFlow."""

MEANT: Final[dict[str, set[str]]] = {
    # Compositions: the ops of a reduction of ragged tensors, by the reduction.
    "sparkflow/ragged/reducing.py": {"Mean", "Any", "All"},
    # The replacement of nodes that read by handle, by the node's op.
    "sparkflow/graph/messages/variable_values.py": {"ResourceGather", "ResourceGatherNd"},
    # Two exceptions of TensorFlow's; Identity is what TensorFlow says is removed.
    "sparkflow/graph_util.py": {"Identity", "DynamicStitch", "ParameterizedTruncatedNormal"},
    # The ops that the functions of these modules create, found again in a graph.
    "sparkflow/session/handles.py": {"GetSessionHandle"},
    "sparkflow/summary/summaries.py": {"TensorSummary"},
    "sparkflow/variables/variable.py": {"StridedSlice"},
    # A rule that rewrites certain ops, in plans and not in graphs.
    "runtime/sparkflow_runtime/compiler/products.py": {"Add", "AddN", "AddV2"},
    # What TensorFlow defines for ops by name.
    "sparkflow/contrib/layers/summaries.py": {"Relu", "Relu6", "Softplus"},
    "sparkflow/test/messages.py": {"HashTable", "HashTableV2"},
}
"""Names that are themselves the meaning of the code."""


def is_structural(op_type: str) -> bool:
    """Whether an op is part of a graph's structure; ops registered by users never are."""
    return op_type in STRUCTURAL or op_type.startswith("_")


def of_tree(tree: Path, ops: Collection[str]) -> dict[str, list[tuple[int, str]]]:
    """Returns what `told_by_name` finds, by file, without rules and words that look like names.

    Args:
        tree: The root of a clone.
        ops: All op types.
    """
    told = {}
    for package in ("sparkflow", "runtime/sparkflow_runtime"):
        for path in sorted((tree / package).rglob("*.py")):
            name = path.relative_to(tree).as_posix()
            if "/protos/" in name or name.startswith((*OPS, *RULES, *OTHER_WORDS)):
                continue
            if places := told_by_name(path.read_text("utf-8"), ops):
                told[name] = places
    return told


def not_meant(told: dict[str, list[tuple[int, str]]]) -> dict[str, list[tuple[int, str]]]:
    """Returns those that are not in `MEANT`."""
    rest = {
        name: [(line, op) for line, op in places if op not in MEANT.get(name, ())]
        for name, places in told.items()
    }
    return {name: places for name, places in rest.items() if places}


def told_by_name(source: str, ops: Collection[str]) -> list[tuple[int, str]]:
    """Returns the lines and names where code refers to an op by name.

    Args:
        source: A module.
        ops: All op types.
    """
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
            found.update(_told_by_part(node))
        found.update(
            (line, text)
            for part in parts
            for line, text in _constants(part)
            if text in ops and not is_structural(text)
        )
    return sorted(found)


def _told_by_part(node: ast.AST) -> Iterator[tuple[int, str]]:
    """Yields parts of names by which ops are recognised, as in `node.op.startswith("Sparse")`."""
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute)):
        return
    if node.func.attr not in ("startswith", "endswith", "removeprefix", "removesuffix"):
        return
    asked = node.func.value
    name = asked.attr if isinstance(asked, ast.Attribute) else getattr(asked, "id", "")
    if name in ("op", "type", "op_type"):
        parts = (part for argument in node.args for part in _constants(argument))
        yield from ((line, text) for line, text in parts if text[:1].isupper())


def _constants(expression: ast.AST) -> Iterator[tuple[int, str]]:
    """Yields lines and texts of an expression, except arguments of functions such as `apply_op`."""
    if isinstance(expression, ast.Constant):
        if isinstance(expression.value, str):
            yield expression.lineno, expression.value
        return
    if isinstance(expression, ast.Call) and not (
        isinstance(expression.func, ast.Name)
        and expression.func.id in ("frozenset", "set", "tuple", "dict")
    ):
        return
    for child in ast.iter_child_nodes(expression):
        yield from _constants(child)

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sparkflow_runtime.compiler.reads import VIEWS, reads_to_copy
from sparkflow_runtime.ir.node import Node
from sparkflow_runtime.ops import registry
from sparkflow_runtime.ops.op import Op
from sparkflow_runtime.testing import op_cases
from sparkflow_runtime.testing.graphs import const, node, placeholder, variable

TABLE = Path(__file__).parents[1] / "ops"


@contextmanager
def seen_views(op: Op, found: set[str]) -> Iterator[None]:
    bind = op.bind

    def spying(node: Any, context: Any) -> Callable[..., Any]:
        kernel = bind(node, context)

        def spy(*inputs: Any) -> Any:
            result = kernel(*inputs)
            arrays = [x for x in inputs if isinstance(x, np.ndarray)]
            for output in result if isinstance(result, tuple | list) else [result]:
                shared = [array for array in arrays if np.may_share_memory(output, array)]
                if shared and np.size(output):
                    found.add(op.op_type)
            return result

        return spy

    op.bind = spying  # type: ignore[method-assign]
    try:
        yield
    finally:
        del op.bind


def test_ops_that_give_views_are_listed() -> None:
    found: set[str] = set()
    for module in op_cases.load_cases(TABLE):
        for case in getattr(module, "CASES", []):
            with seen_views(registry.lookup(case.op), found):
                op_cases.check_forward(case, case.run_dtypes()[0])
    assert found <= VIEWS
    assert {"Reshape", "GuaranteeConst"} <= found


V = [variable("v", (2, 2)), placeholder("x", (2, 2)), const("shape", 4)]


@pytest.mark.parametrize(
    ("nodes", "copied"),
    [
        # Used up before the update.
        ([node("r", "Identity", "v"), node("y", "Neg", "r"), node("u", "AssignAdd", "v", "x")], []),
        # Not updated at all.
        ([node("r", "Identity", "v"), node("y", "Neg", "r")], []),
        # The update itself uses it.
        ([node("r", "Identity", "v"), node("u", "AssignAdd", "v", "r")], []),
        # Used after it, directly and through views.
        (
            [node("r", "Identity", "v"), node("u", "AssignAdd", "v", "x"), node("y", "Neg", "r")],
            [("r", 0)],
        ),
        (
            [
                node("r", "StopGradient", "v"),
                node("t", "ExpandDims", "r", "shape"),
                node("u", "AssignAdd", "v", "x"),
                node("y", "Neg", "t"),
            ],
            [("r", 0)],
        ),
        # What is computed from it is no view.
        ([node("r", "Neg", "v"), node("u", "AssignAdd", "v", "x"), node("y", "Neg", "r")], []),
        # The update is of another variable.
        (
            [
                variable("w", (2, 2)),
                node("r", "Identity", "v"),
                node("u", "AssignAdd", "w", "x"),
                node("y", "Neg", "r"),
            ],
            [],
        ),
        # A reference handed on is the same variable.
        (
            [
                node("u", "AssignAdd", "v", "x"),
                node("r", "Identity", "u"),
                node("u2", "AssignAdd", "u", "x"),
                node("y", "AddV2", "x", "r"),
            ],
            [("r", 0)],
        ),
    ],
)
def test_only_views_that_outlive_an_update_are_copied(
    nodes: list[Node], copied: list[tuple[str, int]]
) -> None:
    assert reads_to_copy([*V, *nodes]) == set(copied)

import pytest

from sparkflow_runtime import dtypes
from sparkflow_runtime.compiler.reads import reads_to_copy
from sparkflow_runtime.ir.node import Node
from support.graphs import const, node, placeholder, variable
from support.plans import fetch

V = [variable("v", (2, 2)), placeholder("x", (2, 2)), const("shape", 4)]


@pytest.mark.parametrize(
    ("nodes", "copied"),
    [
        # Used only before the update.
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
        # What is computed from it is not a view.
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
        # A reference passed on is the same variable.
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


def test_results_that_stay_are_copies_and_what_is_only_sent_is_none() -> None:
    nodes = [
        *V,
        node("r", "Identity", "v"),
        node("t", "ExpandDims", "r", "shape"),
        fetch("t"),
        node("s", "Identity", "v"),
        node("give", "_SendBundle", "s", T=[dtypes.float32], key="give", destination="other"),
    ]
    assert reads_to_copy(nodes, results_stay=True) == {("r", 0)}
    assert reads_to_copy(nodes) == set()

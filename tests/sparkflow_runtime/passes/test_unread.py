"""Pure nodes that are only waited for become NoOps; what has effects keeps its order."""

import numpy as np
import pytest

import sparkflow_runtime.ops.all  # noqa: F401 - fills the registry
from sparkflow_runtime import dtypes
from sparkflow_runtime.ir.graph import Graph
from sparkflow_runtime.ir.node import Endpoint, Node
from sparkflow_runtime.passes.unread import drop_unread

FLOAT = {"T": dtypes.float32}


def node(name, op, *inputs, control=(), **attrs):
    return Node(name, op, tuple(Endpoint(each, 0) for each in inputs), tuple(control), "", attrs)


def graph(*nodes):
    one = np.ones((), np.float32)
    variable = {"dtype": dtypes.float32, "shape": (), "container": "", "shared_name": ""}
    return Graph(
        [
            node("x", "Const", value=one, dtype=dtypes.float32),
            node("v", "VariableV2", **variable),
            *nodes,
        ]
    )


def test_a_chain_of_computations_that_is_only_waited_for_is_not_computed():
    dropped = drop_unread(
        graph(
            node("square", "Square", "x", **FLOAT),
            node("negative", "Neg", "square", **FLOAT),
            node("target", "NoOp", control=["negative"]),
        ),
        ["target"],
    )
    assert [dropped[name].op for name in ("square", "negative", "target")] == ["NoOp"] * 3
    assert dropped["target"].control_inputs == ("negative",)
    assert dropped["negative"].control_inputs == ("square",)
    assert dropped["square"].control_inputs == ("x",)


def test_what_was_waited_for_through_a_dropped_node_is_still_waited_for():
    update = {"T": dtypes.float32, "validate_shape": True, "use_locking": True}
    dropped = drop_unread(
        graph(
            node("assign", "Assign", "v", "x", **update),
            node("negative", "Neg", "x", control=["assign"], **FLOAT),
            node("target", "NoOp", control=["negative"]),
        ),
        ["target"],
    )
    assert dropped["negative"].op == "NoOp"
    assert "assign" in dropped["negative"].control_inputs
    assert dropped["assign"].op == "Assign"


@pytest.mark.parametrize("targets", [["target"], ["target", "negative"]])
def test_values_that_are_read_and_targets_are_computed(targets):
    nodes = [node("negative", "Neg", "x", **FLOAT)]
    if "negative" not in targets:
        nodes.append(node("fetch", "_Retval", "negative", **FLOAT, index=0))
    nodes.append(node("target", "NoOp", control=["negative"]))
    assert drop_unread(graph(*nodes), targets)["negative"].op == "Neg"


def test_checks_and_reads_of_variables_stay():
    dropped = drop_unread(
        graph(
            node("check", "CheckNumerics", "x", message="", **FLOAT),
            node("read", "Identity", "v", **FLOAT),
            node("target", "NoOp", control=["check", "read"]),
        ),
        ["target"],
    )
    assert dropped["check"].op == "CheckNumerics"
    assert dropped["read"].op == "Identity"


def test_a_dropped_node_keeps_its_device_line_and_colocation():
    attrs = {**FLOAT, "_class": ["loc:@v"], "_source": "train.py:3"}
    before = Node("negative", "Neg", (Endpoint("x", 0),), (), "/job:ps", attrs)
    dropped = drop_unread(graph(before, node("target", "NoOp", control=["negative"])), ["target"])
    after = dropped["negative"]
    assert (after.device, after.source, after.colocated_with) == ("/job:ps", "train.py:3", ("v",))

"""If, Case, While and calls, in every form, run from GraphDefs as sent by a client."""

import numpy as np
import pytest

from sparkflow_runtime import dtypes
from sparkflow_runtime.errors import InvalidArgumentError, NotFoundError
from sparkflow_runtime.ir.function import Function
from sparkflow_runtime.ir.function_def import export_function
from sparkflow_runtime.ir.graph import Graph
from sparkflow_runtime.ir.graph_def import export_graph
from sparkflow_runtime.ir.node import Endpoint, Node
from sparkflow_runtime.master.client import open_session

FLOAT = dtypes.float32


def arg(index, dtype=FLOAT):
    attrs = {"T": dtype, "index": index, "shape": None}
    return Node(f"arg{index}", "_Arg", attrs=attrs)


def result(index, source, dtype=FLOAT):
    endpoint = Endpoint(source, 0)
    return Node(f"result{index}", "_Retval", (endpoint,), attrs={"T": dtype, "index": index})


def binary(name, op, a, b, dtype=FLOAT):
    return Node(name, op, (Endpoint(a, 0), Endpoint(b, 0)), attrs={"T": dtype})


def constant(name, value):
    array = np.asarray(value)
    return Node(name, "Const", attrs={"value": array, "dtype": dtypes.as_dtype(array.dtype)})


TWICE = Function("twice", Graph([arg(0), binary("y", "AddV2", "arg0", "arg0"), result(0, "y")]))
SQUARE = Function("square", Graph([arg(0), binary("y", "Mul", "arg0", "arg0"), result(0, "y")]))
BELOW = Function(
    "below",
    Graph(
        [
            arg(0),
            constant("limit", np.float32(100)),
            binary("more", "Less", "arg0", "limit"),
            result(0, "more", dtypes.bool_),
        ]
    ),
)


def run(node, feeds, functions=(TWICE, SQUARE, BELOW), fetch="call:0"):
    placeholders = [
        Node(name, "Placeholder", attrs={"dtype": dtypes.as_dtype(value.dtype), "shape": None})
        for name, value in feeds.items()
    ]
    graph_def = export_graph([*placeholders, node])
    graph_def.library.function.extend(map(export_function, functions))
    session = open_session()
    try:
        session.extend(graph_def)
        return session.run([fetch], {f"{k}:0": v for k, v in feeds.items()}, [])[0][0]
    finally:
        session.close()


def call(op, inputs, **attrs):
    return Node("call", op, tuple(Endpoint(name, 0) for name in inputs), attrs=attrs)


@pytest.mark.parametrize("op", ["If", "StatelessIf"])
@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        (np.array(True), 6.0),
        (np.array(False), 9.0),
        (np.array(2, np.int32), 6.0),
        (np.array(0.0), 9.0),
        (np.array([1, 2], np.int32), 6.0),
        (np.array([], np.int32), 9.0),
    ],
)
def test_if_runs_the_branch_that_the_condition_means(op, condition, expected):
    node = call(
        op,
        ["cond", "x"],
        Tcond=dtypes.as_dtype(condition.dtype),
        Tin=[FLOAT],
        Tout=[FLOAT],
        then_branch="twice",
        else_branch="square",
    )
    assert run(node, {"cond": condition, "x": np.float32(3)}) == expected


@pytest.mark.parametrize("op", ["Case", "StatelessCase"])
@pytest.mark.parametrize(("index", "expected"), [(0, 6.0), (1, 9.0), (7, 9.0), (-1, 9.0)])
def test_case_takes_the_last_branch_for_other_indices(op, index, expected):
    node = call(op, ["i", "x"], Tin=[FLOAT], Tout=[FLOAT], branches=["twice", "square"])
    assert run(node, {"i": np.int32(index), "x": np.float32(3)}) == expected


@pytest.mark.parametrize("op", ["While", "StatelessWhile"])
@pytest.mark.parametrize(("start", "expected"), [(3.0, 192.0), (100.0, 100.0)])
def test_while_runs_until_the_condition_is_false(op, start, expected):
    node = call(op, ["x"], T=[FLOAT], cond="below", body="twice")
    assert run(node, {"x": np.float32(start)}) == expected


@pytest.mark.parametrize("op", ["PartitionedCall", "StatefulPartitionedCall"])
def test_a_call_runs_its_function(op):
    node = call(op, ["x"], Tin=[FLOAT], Tout=[FLOAT], f="square")
    assert run(node, {"x": np.float32(3)}) == 9.0


def test_a_function_that_is_not_there_is_named():
    node = call("PartitionedCall", ["x"], Tin=[FLOAT], Tout=[FLOAT], f="cube")
    with pytest.raises(NotFoundError, match="no function 'cube'"):
        run(node, {"x": np.float32(3)})


def test_a_function_that_calls_itself_is_refused():
    inner = Node(
        "again",
        "PartitionedCall",
        (Endpoint("arg0", 0),),
        attrs={
            "Tin": [FLOAT],
            "Tout": [FLOAT],
            "f": "endless",
            "config": "",
            "config_proto": "",
            "executor_type": "",
        },
    )
    endless = Function("endless", Graph([arg(0), inner, result(0, "again")]))
    node = call("PartitionedCall", ["x"], Tin=[FLOAT], Tout=[FLOAT], f="endless")
    with pytest.raises(InvalidArgumentError, match="'endless' calls itself"):
        run(node, {"x": np.float32(3)}, [endless])


def test_a_failure_names_the_node_of_the_body():
    reshape = Node(
        "bad",
        "Reshape",
        (Endpoint("arg0", 0), Endpoint("shape", 0)),
        attrs={"T": FLOAT, "Tshape": dtypes.int32},
    )
    body = Graph([arg(0), constant("shape", np.array([7], np.int32)), reshape, result(0, "bad")])
    node = call("PartitionedCall", ["x"], Tin=[FLOAT], Tout=[FLOAT], f="failing")
    with pytest.raises(InvalidArgumentError, match=r"node 'bad' \(Reshape\)"):
        run(node, {"x": np.float32([1, 2])}, [Function("failing", body)])


def test_shapes_that_do_not_count_are_refused():
    node = call("While", ["x"], T=[FLOAT], cond="below", body="twice", output_shapes=[(), ()])
    with pytest.raises(InvalidArgumentError, match="2 shapes for 1 outputs"):
        run(node, {"x": np.float32(3)})

"""Switch, Merge and frames become If and While; whole graphs are in tests/golden/graphs."""

import numpy as np
import pytest

import sparkflow_runtime.ops.all  # noqa: F401 - fills the registry
from sparkflow_runtime import dtypes
from sparkflow_runtime.errors import InvalidArgumentError, UnimplementedError
from sparkflow_runtime.ir.graph import Graph
from sparkflow_runtime.ir.node import Endpoint, Node, parse_endpoint
from sparkflow_runtime.passes.raising.raise_control_flow import raise_control_flow
from sparkflow_runtime.passes.raising.raise_loops import FRAME_OPS, frames_of

F32, BOOL = dtypes.float32, dtypes.bool_


def node(name, op, *inputs, T=F32, **attrs):
    data = tuple(parse_endpoint(text) for text in inputs if not text.startswith("^"))
    control = tuple(text[1:] for text in inputs if text.startswith("^"))
    if T is not None:
        attrs["T"] = T
    return Node(name, op, data, control, "", attrs)


def arg(name, index, dtype=F32):
    return node(name, "_Arg", T=dtype, index=index, shape=None)


def result(name, index=0, dtype=F32):
    return node(f"result_{index}", "_Retval", name, T=dtype, index=index)


def ops(nodes):
    return sorted(each.op for each in nodes)


def test_graphs_without_switches_stay_as_they_are():
    graph = Graph([arg("x", 0), result("x")])
    raised, functions = raise_control_flow(graph)
    assert raised is graph
    assert functions == {}


def branches(*more):
    return Graph(
        [
            arg("p", 0, BOOL),
            arg("x", 1),
            node("s", "Switch", "x", "p"),
            node("a", "Neg", "s:1"),
            node("b", "Exp", "s:0"),
            node("m", "Merge", "b", "a", N=2),
            *more,
        ]
    )


def test_two_branches_become_one_if():
    raised, functions = raise_control_flow(branches(result("m"), result("m:1", 1, dtypes.int32)))
    (made,) = [each for each in raised if each.op == "StatelessIf"]
    assert not FRAME_OPS & {each.op for each in raised}
    then_branch = functions[made.attrs["then_branch"]]
    else_branch = functions[made.attrs["else_branch"]]
    assert ops(then_branch.body) == ["Const", "Neg", "_Arg", "_Retval", "_Retval"]
    assert ops(else_branch.body) == ["Const", "Exp", "_Arg", "_Retval", "_Retval"]
    assert [made.inputs[0], *made.inputs[1:]] == [Endpoint("p", 0), Endpoint("x", 0)]
    index = [each.attrs["value"] for each in then_branch.body if each.op == "Const"]
    np.testing.assert_equal(index, [1])


def test_effects_stay_in_their_branch():
    graph = branches(
        node("t", "Identity", "s:1"),
        node("noise", "RandomStandardNormal", "shape", "^t", T=dtypes.int32, dtype=F32),
        node("shape", "Const", T=None, value=np.int32([1]), dtype=dtypes.int32),
        node("done", "NoOp", "^m", T=None),
        node("trigger", "ControlTrigger", "^noise", T=None),
        result("m"),
    )
    raised, functions = raise_control_flow(graph)
    (made,) = [each for each in raised if each.op == "If"]  # stateful: there is a random op
    names = {name for name in functions if "noise" in functions[name].body}
    assert names == {made.attrs["then_branch"]}
    assert "noise" in functions[made.attrs["then_branch"]].targets
    waits = {each.name: each.control_inputs for each in raised}
    assert waits["done"] == waits["trigger"] == (made.name,)


def test_a_fetch_of_what_may_be_dead_fails_in_the_other_branch():
    raised, functions = raise_control_flow(branches(result("a")))
    (made,) = [each for each in raised if each.op == "If"]
    assert "_NoValue" in ops(functions[made.attrs["else_branch"]].body)
    assert "_NoValue" not in ops(functions[made.attrs["then_branch"]].body)


def test_nodes_that_can_never_run_are_left_out():
    graph = branches(
        node("again", "Switch", "b", "p"),
        node("never", "Neg", "again:1"),
        node("m2", "Merge", "never", "again:0", N=2),
        node("m3", "Merge", "m2", "a", N=2),
        result("m3"),
    )
    raised, functions = raise_control_flow(graph)
    bodies = [each.name for function in functions.values() for each in function.body]
    assert "never" not in [*bodies, *(each.name for each in raised)]


def test_a_merge_of_strangers_is_refused():
    graph = Graph(
        [
            arg("p", 0, BOOL),
            arg("q", 1, BOOL),
            arg("x", 2),
            node("s", "Switch", "x", "p"),
            node("t", "Switch", "x", "q"),
            node("m", "Merge", "s:1", "t:0", N=2),
            result("m"),
        ]
    )
    with pytest.raises(UnimplementedError, match="Merge 'm' joins s:1, t:0, which are not the two"):
        raise_control_flow(graph)


def loop(back="twice", *more):
    frame = {"frame_name": "loop", "is_constant": False, "parallel_iterations": 10}
    return Graph(
        [
            arg("x", 0),
            arg("limit", 1),
            node("enter", "Enter", "x", **frame),
            node("enter_limit", "Enter", "limit", **{**frame, "is_constant": True}),
            node("merge", "Merge", "enter", "next", N=2),
            node("less", "Less", "merge", "enter_limit"),
            node("cond", "LoopCond", "less", T=None),
            node("switch", "Switch", "merge", "cond"),
            node("twice", "Add", "switch:1", "switch:1"),
            node("next", "NextIteration", back),
            node("exit", "Exit", "switch:0"),
            *more,
            result("exit"),
        ]
    )


def test_a_frame_becomes_a_while():
    raised, functions = raise_control_flow(loop())
    (made,) = [each for each in raised if each.op == "StatelessWhile"]
    assert made.inputs == (Endpoint("x", 0), Endpoint("limit", 0))
    assert raised["result_0"].inputs == (Endpoint(made.name, 0),)
    condition, body = (functions[made.attrs[name]] for name in ("cond", "body"))
    assert ops(condition.body) == ["Less", "_Arg", "_Arg", "_Retval"]
    assert ops(body.body) == ["Add", "_Arg", "_Arg", "_Retval", "_Retval"]


def test_frames_are_known_by_their_enters():
    found = frames_of(loop().nodes)
    assert found["twice"] == found["exit"] == ("loop",)
    assert found["x"] == found["result_0"] == ()


def test_two_loops_of_one_name_are_two_loops():
    twin = [
        Node(
            f"twin/{each.name}",
            each.op,
            tuple(Endpoint(f"twin/{e.node}", e.slot) for e in each.inputs),
            (),
            "",
            each.attrs,
        )
        for each in loop()
        if each.op != "_Retval"
    ]
    raised, _ = raise_control_flow(Graph([*loop(), *twin, result("twin/exit", 1)]))
    assert ops(raised).count("StatelessWhile") == 2


def test_a_loop_of_another_make_is_refused_by_name():
    with pytest.raises(UnimplementedError, match="The loop 'loop' has 2 LoopCond nodes"):
        raise_control_flow(
            loop("twice", node("second", "LoopCond", "less", T=None), result("second", 1, BOOL))
        )
    with pytest.raises(UnimplementedError, match="leaves with twice:0, not a loop variable"):
        raise_control_flow(loop("twice", node("early", "Exit", "twice"), result("early", 1)))


def test_what_does_not_leave_a_loop_cannot_be_fetched():
    with pytest.raises(InvalidArgumentError, match=r"twice:0 is a tensor of .* the loop 'loop'"):
        raise_control_flow(loop("twice", result("twice", 1)))


def test_a_loop_that_enters_itself_is_refused():
    again = node("again", "Enter", "twice", frame_name="loop")
    with pytest.raises(UnimplementedError, match="'again' enters the loop 'loop' from inside it"):
        raise_control_flow(loop("twice", again))


def test_a_node_of_two_loops_is_refused():
    other = node("other", "Enter", "x", frame_name="other")
    both = node("both", "Add", "other", "twice")
    with pytest.raises(UnimplementedError, match=r"'both' is in two loops, '(loop|other)' and"):
        raise_control_flow(loop("twice", other, both))


@pytest.mark.parametrize(
    ("damaged", "message"),
    [
        (node("s", "Switch", "x"), "Switch takes 2 inputs, the node has 1"),
        (node("s", "Switch", "x", "x"), "x:0 has type float32, expected bool"),
        (node("s", "Switch", "x", "p:3"), "p:3 does not exist"),
        (node("s", "Exit"), "Exit takes 1 inputs, the node has 0"),
    ],
    ids=["few", "dtype", "slot", "none"],
)
def test_nodes_that_do_not_fit_their_op_are_refused(damaged, message):
    with pytest.raises(InvalidArgumentError, match=message):
        raise_control_flow(Graph([arg("p", 0, BOOL), arg("x", 1), damaged]))

import numpy as np

from sparkflow_runtime import dtypes
from sparkflow_runtime.compiler.plan import Unit
from sparkflow_runtime.compiler.waits import find_waits
from support.graphs import const, node
from support.plans import arg, fetch


def waits_of(*nodes, alive=None):
    """Per node that does something what it waits for, by name; and all there is to know."""
    units = [Unit(each) for each in nodes if each.op not in ("Const", "NoOp")]
    names = [unit.node.name for unit in units]
    waits = find_waits(units, nodes)
    before = {
        name: {names[number] for number in numbers}
        for name, numbers in zip(names, waits.before, strict=True)
    }
    return before, {names[each] for each in waits.pinned}, {names[each] for each in waits.barriers}


def variable(name, **attrs):
    return node(name, "VariableV2", dtype=dtypes.float32, shape=(2,), **attrs)


def test_who_reads_waits_for_who_makes():
    before, pinned, barriers = waits_of(
        arg("x", 0), node("a", "Exp", "x"), node("b", "Sin", "x"), node("c", "Add", "a", "b")
    )
    assert before == {"x": set(), "a": {"x"}, "b": {"x"}, "c": {"a", "b"}}
    assert (pinned, barriers) == (set(), set())


def test_control_edges_count_also_through_nodes_without_work():
    before, *_ = waits_of(
        arg("x", 0),
        node("a", "Exp", "x"),
        node("group", "NoOp", after=["a"]),
        node("later", "NoOp", after=["group"]),
        node("b", "Sin", "x", after=["later"]),
        node("c", "Sin", "x", after=["a"]),
    )
    assert before["b"] == before["c"] == {"x", "a"}


def test_uses_of_a_variable_keep_their_order_but_for_reads():
    before, pinned, barriers = waits_of(
        arg("x", 0),
        *(variable("v"), variable("w")),
        *(node("read", "Exp", "v"), node("again", "Sin", "v")),
        node("update", "AssignAdd", "v", "x"),
        node("other", "AssignAdd", "w", "x"),
        node("after", "Exp", "v"),
        node("last", "AssignSub", "update", "x"),
    )
    assert before["again"] == {"v"}
    assert before["update"] == {"v", "x", "read", "again"}
    assert before["other"] == {"w", "x"}
    assert before["after"] == {"v", "update"}
    assert before["last"] == {"update", "x", "after"}
    assert (pinned, barriers) == (set(), set())


def test_a_view_of_a_variable_is_a_use_of_it():
    before, *_ = waits_of(
        arg("x", 0),
        const("shape", np.int32([1, 2])),
        variable("v"),
        node("view", "Reshape", "v", "shape"),
        node("user", "Exp", "view"),
        node("update", "AssignAdd", "v", "x"),
        node("late", "Sin", "view"),
    )
    assert before["update"] >= {"view", "user"}
    assert before["late"] == {"view", "update"}


def test_two_nodes_may_be_one_variable():
    before, *_ = waits_of(
        arg("x", 0),
        *(variable("v", shared_name="w"), variable("w"), variable("z")),
        node("one", "AssignAdd", "v", "x"),
        node("other", "AssignAdd", "w", "x"),
        node("third", "AssignAdd", "z", "x"),
    )
    assert "one" in before["other"]
    assert before["third"] == {"x", "z"}


def test_other_effects_keep_their_order():
    _, pinned, barriers = waits_of(
        arg("x", 0),
        const("shape", np.int32([2])),
        const("yes", np.bool_(True)),
        node("handle", "VarHandleOp", dtype=dtypes.float32, shape=(2,)),
        node("read", "ReadVariableOp", "handle", dtype=dtypes.float32),
        node("assert", "Assert", "yes", "x", T=[dtypes.float32]),
        node("random", "RandomUniform", "shape", dtype=dtypes.float32),
        node("mine", "Exp", "x"),
        fetch("mine"),
    )
    assert pinned == {"read", "assert"}
    assert barriers == set()


def test_what_takes_the_step_is_a_barrier():
    attrs = {"T": [dtypes.float32], "key": "k", "destination": "/device:CPU:1"}
    sent = node("sent", "_SendBundle", "x", **attrs)
    _, pinned, barriers = waits_of(arg("x", 0), sent)
    assert barriers == {"sent"}
    assert pinned == set()

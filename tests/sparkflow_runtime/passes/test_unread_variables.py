import numpy as np
import pytest

import sparkflow as tf
from sparkflow_runtime.ir.function import Function, no_function
from sparkflow_runtime.ir.graph import Graph
from sparkflow_runtime.ir.verify import verify_functions, verify_graph
from sparkflow_runtime.passes.unread_variables import drop_unread_variables
from support.graphs import node, placeholder

COUNT = 4


def function(name: str, results: list[str], *nodes: object) -> Function:
    """A function of `COUNT` numbers."""
    args = [node(f"a{n}", "_Arg", T="float", index=n) for n in range(COUNT)]
    ends = [node(f"r{n}", "_Retval", each, T="float", index=n) for n, each in enumerate(results)]
    return Function(name, Graph([*args, *nodes, *ends]))


CONDITION = function("cond", ["less"], node("less", "Neg", "a0"))
BODY = function(
    "body",
    ["more", "both", "twice", "a3"],
    node("more", "Neg", "a0"),
    node("both", "Add", "a1", "a3"),
    node("twice", "Add", "a2", "a1"),
)
LIBRARY = {each.name: each for each in (CONDITION, BODY)}


def graph(*read: str) -> Graph:
    inputs = [placeholder(f"x{n}", ()) for n in range(COUNT)]
    names = [each.name for each in inputs]
    types = ["float"] * COUNT
    loop = node(
        "loop", "While", *names, T=types, cond="cond", body="body", output_shapes=[()] * COUNT
    )
    return Graph([*inputs, loop, *(node(f"y{n}", "Neg", each) for n, each in enumerate(read))])


@pytest.mark.parametrize(
    ("read", "kept"),
    [
        (["loop:3"], [0, 3]),  # what the condition reads is kept
        (["loop:1"], [0, 1, 3]),  # and what a variable that is read depends on
        ([], [0]),
    ],
)
def test_variables_that_nobody_reads_are_dropped(read, kept):
    made, functions = drop_unread_variables(graph(*read), {}, LIBRARY.__getitem__)
    loop = made["loop"]
    assert [each.node for each in loop.inputs] == [f"x{n}" for n in kept]
    assert len(loop.attrs["T"]) == len(loop.attrs["output_shapes"]) == len(kept)
    for name in ("cond", "body"):
        args = functions[loop.attrs[name]].args
        assert [each.name for each in args] == [f"a{n}" for n in kept]
        assert [each.attrs["index"] for each in args] == [*range(len(kept))]
    results = functions[loop.attrs["body"]].results
    assert [each.name for each in results] == [f"r{n}" for n in kept]
    for n, each in enumerate(read):
        assert made[f"y{n}"].inputs[0].slot == kept.index(int(each.partition(":")[2]))
    verify_graph(made, "drop_unread_variables")
    verify_functions(made, functions, "drop_unread_variables")


@pytest.mark.parametrize("read", [["loop:2"], ["loop:1", f"loop:{COUNT}"]], ids=["all", "tape"])
def test_nothing_is_dropped_where_all_is_read_or_a_tape_is(read):
    given = graph(*read)
    made, functions = drop_unread_variables(given, {}, LIBRARY.__getitem__)
    assert made is given
    assert not functions


def test_a_graph_without_loops_is_the_same_object():
    given = Graph([placeholder("x", ())])
    assert drop_unread_variables(given, {}, no_function)[0] is given


def test_gradients_are_those_of_all_variables():
    with tf.Graph().as_default(), tf.Session() as session:
        w, x = tf.constant([[2.0]]), tf.constant([[[1.0]], [[3.0]]])
        made, _ = tf.while_loop(
            lambda h, i: i < 2, lambda h, i: (tf.matmul(h, w) + x[i], i + 1), [x[0], 0]
        )
        by_w, by_x = tf.gradients(made, [w, x])
        np.testing.assert_array_equal(session.run(by_w), [[5.0]])
        both = session.run([by_w, by_x])
        np.testing.assert_array_equal(both[0], [[5.0]])
        np.testing.assert_array_equal(both[1][:, 0, 0], [6.0, 1.0])


@pytest.mark.timeout(20)
@pytest.mark.parametrize("way", ["both", "one", "the other", "neither"])
def test_what_a_turn_changes_is_changed_whatever_is_read(way):
    """The condition reads it: without the change the loop would never end."""
    with tf.Graph().as_default(), tf.Session() as session:
        counter = tf.Variable(0.0)

        def turn(i, x):
            with tf.control_dependencies([tf.assign_add(counter, 1.0)]):
                return tf.identity(i + 1), x * 2.0

        i, x = tf.while_loop(lambda *_: counter.read_value() < 3.0, turn, [0, 1.0])
        with tf.control_dependencies([i, x]):
            neither = tf.no_op()
        session.run(tf.global_variables_initializer())
        fetch, value = {
            "both": ([i, x], [3, 8.0]),
            "one": (i, 3),
            "the other": (x, 8.0),
            "neither": (neither, None),
        }[way]
        assert session.run(fetch) == value
        assert session.run(counter) == 3.0

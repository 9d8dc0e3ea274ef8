"""Graphs written by TensorFlow: control flow of both kinds, TensorArrays, resource variables."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sparkflow as tf

FOLDER = Path(__file__).parents[2] / "golden" / "graphs"
PROGRAMS = json.loads((FOLDER / "graphs.json").read_text())


def graph_def_of(program: str) -> Any:
    """The GraphDef of a program."""
    message = tf.GraphDef()
    message.ParseFromString((FOLDER / f"{program}.pb").read_bytes())
    return message


def array(written: Any) -> np.ndarray[Any, Any]:
    """Returns a value of the JSON file."""
    dtype, shape, elements = written
    return np.array(elements, dtype).reshape(shape)


def add_gradients(graph: tf.Graph) -> None:
    """Adds what the reader of `differentiable` adds."""
    x, z = (graph.get_tensor_by_name(name) for name in ("x:0", "z:0"))
    (dx,) = tf.gradients(z, x)
    tf.identity(dx, "dx")
    tf.identity(tf.gradients(tf.reduce_sum(dx * dx), x)[0], "ddx")


def imported(program: str) -> tf.Graph:
    """A new graph with the nodes of a program."""
    with tf.Graph().as_default() as graph:
        tf.import_graph_def(graph_def_of(program), name="")
    return graph


@pytest.mark.parametrize("program", PROGRAMS)
def test_runs_as_in_tensorflow(program: str) -> None:
    graph = imported(program)
    if program == "differentiable":
        with graph.as_default():
            add_gradients(graph)
    with tf.Session(graph=graph) as session:
        for step in PROGRAMS[program]:
            feeds = {name: array(each) for name, each in step["feeds"].items()}
            if "error" in step:
                with pytest.raises(getattr(tf.errors, step["error"])):
                    session.run(step["fetches"], feeds)
                continue
            found = session.run(step["fetches"], feeds)
            for name, value, expected in zip(step["fetches"], found, step["values"], strict=True):
                if expected is None:
                    assert value is None
                    continue
                wanted = array(expected)
                assert np.shape(value) == wanted.shape, name
                assert np.asarray(value).dtype == wanted.dtype, name
                np.testing.assert_allclose(value, wanted, rtol=1e-5, atol=1e-6, err_msg=name)


def test_gradients_of_resource_variables_are_those_in_the_graph() -> None:
    graph = imported("resource_training")
    names = ["table", "w1", "b1", "w2"]
    with graph.as_default():
        handles = [graph.get_tensor_by_name(f"{name}:0") for name in names]
        loss = graph.get_tensor_by_name("loss:0")
        table, *dense = tf.gradients(loss, handles)
    assert isinstance(table, tf.IndexedSlices)
    assert [grad.shape.as_list() for grad in dense] == [[3, 6], [6], [6, 1]]
    theirs = [f"train/update_{name}/ResourceApplyAdam" for name in names[1:]]
    wanted = [graph.get_operation_by_name(name).inputs[-1] for name in theirs]
    rows = [node for node in graph.get_operations() if node.type == "ResourceGather"]
    assert rows[0].outputs[0].shape.as_list() == [4, 3]
    step = PROGRAMS["resource_training"][1]
    feeds = {name: array(each) for name, each in step["feeds"].items()}
    with tf.Session(graph=graph) as session:
        session.run("init")
        for ours, expected in session.run(list(zip(dense, wanted, strict=True)), feeds):
            np.testing.assert_allclose(ours, expected, rtol=1e-6)
        indices, values = session.run([table.indices, table.values], feeds)
        assert indices.tolist() == [0, 3, 1, 3]
        before = session.run(loss, feeds)
        assert np.abs(values).max() > 0
        assert np.isfinite(before)


def test_a_graph_with_a_loop_can_be_written_and_read_again() -> None:
    graph = imported("while_loop")
    written = graph.as_graph_def()
    merges = {node.name: list(node.input) for node in written.node if node.op == "Merge"}
    assert merges["while/Merge"] == ["while/Enter", "while/NextIteration"]
    with tf.Graph().as_default() as again:
        found = tf.import_graph_def(written, return_elements=["y:0"], name="copy")
    with tf.Session(graph=again) as session:
        feeds = {"copy/x:0": [2.0, 3.0], "copy/n:0": 5}
        np.testing.assert_allclose(session.run(found[0], feeds), [20.0, 63.0])


def test_one_graph_imported_twice_has_two_loops() -> None:
    with tf.Graph().as_default() as graph:
        message = graph_def_of("while_loop")
        first, second = (
            tf.import_graph_def(message, return_elements=["y:0"], name=name)[0]
            for name in ("one", "two")
        )
        both = first + second
    feeds = {"one/x:0": [2.0, 3.0], "one/n:0": 1, "two/x:0": [2.0, 3.0], "two/n:0": 0}
    with tf.Session(graph=graph) as session:
        np.testing.assert_allclose(session.run(both, feeds), [3.0, 4.0])


def test_a_dead_tensor_cannot_be_fetched() -> None:
    graph = imported("cond")
    dead = next(op for op in graph.get_operations() if op.name == "cond/mul").outputs[0]
    feeds = {"x:0": [1.0]}
    with tf.Session(graph=graph) as session:
        assert session.run(dead, {**feeds, "p:0": True}) == [2.0]
        with pytest.raises(
            tf.errors.InvalidArgumentError, match=r"Retval\[0\] does not have value"
        ):
            session.run(dead, {**feeds, "p:0": False})


def test_gradients_do_not_go_through_switches() -> None:
    graph = imported("cond")
    with graph.as_default(), pytest.raises(LookupError, match="No gradient defined"):
        tf.gradients(graph.get_tensor_by_name("y0:0"), graph.get_tensor_by_name("x:0"))


def test_a_loop_that_comes_back_with_another_dtype_is_refused() -> None:
    message = graph_def_of("while_loop")
    for node in message.node:
        if node.op == "Merge" and node.name == "while/Merge":
            node.input[1] = "while/NextIteration_1"
    with tf.Graph().as_default(), pytest.raises(ValueError, match="was passed float from"):
        tf.import_graph_def(message, name="")


def test_slices_gathered_from_a_handle_have_a_gradient() -> None:
    with tf.Graph().as_default() as graph:
        handle = graph.apply("VarHandleOp", (), {"dtype": tf.float32, "shape": (2, 2)})
        fill = graph.apply("AssignVariableOp", (handle, tf.ones([2, 2])), {})
        picked = graph.apply("ResourceGatherNd", (handle, [[1, 0], [1, 0]]), {"dtype": tf.float32})
        assert picked.shape.as_list() == [2]
        grad = tf.gradients(picked * [3.0, 4.0], handle)[0]
        with tf.Session() as session:
            session.run(fill)
            assert session.run(grad).tolist() == [[0, 0], [7, 0]]

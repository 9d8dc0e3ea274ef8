"""Which products of matrices are fused into their targets, and that nothing else changes."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import sparkflow as tf
from sparkflow_runtime import dtypes
from sparkflow_runtime.codegen.machine import threads
from sparkflow_runtime.compiler import products
from sparkflow_runtime.compiler.known import find_known
from sparkflow_runtime.compiler.products import join_products
from sparkflow_runtime.ir.node import Endpoint, Node
from support.graphs import node
from support.plans import arg, fetch, planned

F32 = dtypes.float32
X, Y = (64, 96), (96, 80)


def product(name: str, a: str = "x", b: str = "y", after: Sequence[str] = ()) -> Node:
    return node(name, "MatMul", a, b, after=after)


def given() -> list[Node]:
    return [
        arg("x", 0),
        arg("y", 1),
        arg("s", 2),
        arg("z", 3),
    ]


ARGS = [
    np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    for shape in (X, Y, (), (64, 80))
]


def joined(nodes: Sequence[Node], copied: Any = ()) -> list[Node]:
    shapes = dict(zip(("x", "y", "s", "z"), ARGS, strict=True))
    known = find_known(
        nodes,
        {Endpoint(n.name, 0): shapes[n.name].shape for n in nodes if n.op == "_Arg"},
    )
    made, knows = join_products(nodes, known, set(copied))
    assert all(endpoint in knows for each in made for endpoint in each.inputs)
    return list(made)


def ops(nodes: Sequence[Node]) -> list[str]:
    return [each.op for each in nodes if each.op not in ("_Arg", "_Retval")]


def check(nodes: Sequence[Node], expected: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Checks the resulting ops, and that the plan gives the same, on any number of threads."""
    assert ops(joined(nodes)) == expected
    found = []
    for least, count in ((1 << 60, 1), (1, 1), (1, 2), (1, 5)):
        monkeypatch.setattr(products, "LEAST_ELEMENTS", least)
        monkeypatch.setattr(threads, "count", lambda count=count: count)
        plan, program = planned(nodes, *ARGS)
        del program
        found.append(plan(None, *(ARGS[index] for index in plan.args)))
        found.append(plan(None, *(ARGS[index] for index in plan.args)))  # the sum starts again
    for each in found[1:]:
        for a, b in zip(each, found[0], strict=True):
            np.testing.assert_array_equal(a, b)


def test_a_product_is_added_to_another(monkeypatch: pytest.MonkeyPatch) -> None:
    for op in ("Add", "AddV2"):
        for order in (("a", "b"), ("b", "a")):
            nodes = [*given(), product("a"), product("b"), node("sum", op, *order)]
            nodes += [fetch("sum")]
            check(nodes, ["MatMul", "_AddedProduct"], monkeypatch)


def test_sums_of_many_and_of_sums(monkeypatch: pytest.MonkeyPatch) -> None:
    names = ["a", "b", "c", "d"]
    nodes = [*given(), *(product(name) for name in names)]
    nodes += [node("sum", "AddN", *names[:3], N=3), node("all", "Add", "sum", "d")]
    nodes += [fetch("all")]
    check(nodes, ["MatMul", *["_AddedProduct"] * 3], monkeypatch)


def test_what_micro_batches_make(monkeypatch: pytest.MonkeyPatch) -> None:
    nodes, total = given(), ""
    for part in range(3):
        nodes += [product(f"p{part}"), node(f"m{part}", "Mul", f"p{part}", "s")]
        if total:
            nodes += [node(f"sum{part}", "Add", total, f"m{part}")]
        total = f"sum{part}" if total else f"m{part}"
    nodes += [fetch(total)]
    expected = ["_ScaledProduct", "_AddedScaledProduct", "_AddedScaledProduct"]
    check(nodes, expected, monkeypatch)


STAYING = {
    "another reader": [
        product("a"),
        product("b"),
        node("sum", "Add", "a", "b"),
        fetch("b", 1),
    ],
    "the same twice": [product("a"), node("sum", "Add", "a", "a")],
    "a sum with something else": [product("a"), node("sum", "Add", "a", "z")],
    "a sum that broadcasts": [
        product("a"),
        node("n", "Const", value=np.float32([1]), dtype=F32),
        node("sum", "Add", "a", "n"),
    ],
    "only one of three": [
        product("a"),
        product("b"),
        node("sum", "AddN", "a", "b", "z", N=3),
    ],
}


@pytest.mark.parametrize("name", list(STAYING))
def test_what_stays_as_it_is(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    nodes = [*given(), *STAYING[name], fetch("sum")]
    check(nodes, ops(nodes), monkeypatch)


def test_small_and_whole_numbers_stay() -> None:
    nodes = [*given(), product("a"), product("b"), node("sum", "Add", "a", "b")]
    assert ops(joined(nodes, copied={("b", 1)})) == ops(nodes)
    known = find_known(nodes, {Endpoint(n, 0): (4, 4) for n in ("x", "y", "s", "z")})
    assert join_products(nodes, known, set())[0] is nodes


def test_control_edges_stay() -> None:
    nodes = [*given(), node("n", "NoOp"), product("a", after=["n"]), product("b")]
    nodes += [node("sum", "Add", "a", "b"), node("last", "NoOp", after=["b", "sum"])]
    made = {each.name: each for each in joined(nodes)}
    assert "b" not in made
    assert made["last"].control_inputs == ("sum",)
    assert made["a"].control_inputs == ("n",)


def steps(join: bool, monkeypatch: pytest.MonkeyPatch, late: bool = False) -> list[Any]:
    """Runs several training steps with a large variable; returns its variables and fetches."""
    with monkeypatch.context() as patch, tf.Graph().as_default(), tf.Session() as session:
        if not join:
            patch.setattr(products, "join_products", lambda nodes, known, copied: (nodes, known))
        x = tf.placeholder(tf.float32, [None, 300])
        start = np.random.default_rng(0).standard_normal((300, 256)).astype(np.float32)
        w = tf.get_variable("w", initializer=start * 0.05)
        h = tf.tanh(tf.matmul(x, w))
        loss = tf.reduce_sum(tf.square(h + tf.matmul(x, w)))
        optimizer = tf.train.GradientDescentOptimizer(1e-4)
        if late:  # the gradient reads what a previous update changes
            ((gradient, _),) = optimizer.compute_gradients(loss)
            first = tf.assign_add(w, gradient * 1e-3)
            with tf.control_dependencies([first]):
                update = optimizer.apply_gradients([(tf.matmul(x, h, transpose_a=True), w)])
        else:
            update = optimizer.minimize(loss)
        session.run(tf.global_variables_initializer())
        batch = np.random.default_rng(1).standard_normal((70, 300)).astype(np.float32)
        found = [session.run([loss, update], {x: batch})[0] for _ in range(5)]
        found.append(session.run(w))
    return found


@pytest.mark.parametrize("late", [False, True])
def test_training_is_the_same_bit_for_bit(late: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    for a, b in zip(steps(True, monkeypatch, late), steps(False, monkeypatch, late), strict=True):
        np.testing.assert_array_equal(a, b)


def test_a_product_does_not_pass_an_update_of_what_it_reads() -> None:
    nodes = [
        arg("x", 0),
        node("w", "VariableV2", dtype=F32, shape=(96, 80), container="", shared_name=""),
        node("d", "Const", value=np.ones(Y, np.float32), dtype=F32),
        node("a", "MatMul", "x", "w"),
        node("more", "AssignAdd", "w", "d", use_locking=False),
        product("b", "x", "d"),
        node("sum", "Add", "b", "a"),
    ]
    assert ops(joined(nodes))[-1] == "_AddedProduct"  # b is added to a, which stays where it is
    scaled = [*nodes[:4], *given()[2:3], nodes[4], nodes[5]]
    scaled += [node("late", "Neg", "s", after=["more"]), node("m", "Mul", "a", "late")]
    scaled += [node("sum", "Add", "m", "b")]
    made = joined(scaled)
    assert "_ScaledProduct" not in ops(made)  # the scale comes after the update of w


def number_of_a_changed_variable(a: Any, b: Any) -> Any:
    """A product times a variable's old value, added to one computed after the update."""
    number = tf.get_variable("number", initializer=np.float32(2))
    scaled = tf.matmul(a, b) * tf.identity(number)
    with tf.control_dependencies([scaled]):
        update = tf.assign_add(number, 3.0)
    with tf.control_dependencies([update]):
        late = [tf.matmul(tf.identity(b), a), tf.matmul(tf.identity(b), b)]
    return tf.add_n([late[0], scaled, late[1]])


def updated(a: Any, b: Any) -> Any:
    """A variable that a product is applied to, and a later product."""
    w = tf.get_variable("w", initializer=np.ones((160, 160), np.float32))
    update = tf.raw_ops.ApplyGradientDescent(var=w, alpha=0.1, delta=tf.matmul(a, b))
    with tf.control_dependencies([update]):
        return w, update, tf.matmul(tf.identity(b), a)


def sum_with_an_updated_variable(a: Any, b: Any) -> Any:
    """The sum reads the variable after another update."""
    w, update, late = updated(a, b)
    with tf.control_dependencies([late]):
        other = tf.assign(w, tf.zeros([160, 160]))
    with tf.control_dependencies([other]):
        return update + late


@pytest.mark.parametrize("build", [number_of_a_changed_variable, sum_with_an_updated_variable])
def test_variables_are_read_when_they_were(build: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    found = []
    for join in (join_products, lambda nodes, known, copied: (nodes, known)):
        monkeypatch.setattr(products, "join_products", join)
        with tf.Graph().as_default(), tf.Session() as session:
            a, b = (tf.placeholder(tf.float32, [160, 160]) for _ in range(2))
            value = build(a, b)
            session.run(tf.global_variables_initializer())
            feeds = dict(
                zip((a, b), np.random.default_rng(0).normal(size=(2, 160, 160)), strict=True)
            )
            found.append([session.run(value, feeds) for _ in range(4)])
    np.testing.assert_allclose(*found, rtol=1e-4, atol=1e-4)


def test_a_sum_of_one_stays() -> None:
    nodes = [*given(), product("a"), node("sum", "AddN", "a", N=1), fetch("sum")]
    assert ops(joined(nodes)) == ["MatMul", "AddN"]


def test_a_rate_that_is_no_number_is_refused() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        w = tf.get_variable("w", initializer=np.ones((160, 160), np.float32))
        x, rate = tf.placeholder(tf.float32, [160, 160]), tf.placeholder(tf.float32)
        gradient = tf.matmul(x, x)
        update = tf.raw_ops.ApplyGradientDescent(var=w, alpha=rate, delta=gradient)
        session.run(tf.global_variables_initializer())
        eye = np.eye(160, dtype=np.float32)
        for _ in range(4):
            session.run(update.op, {x: eye, rate: 0.0})
            with pytest.raises(tf.errors.InvalidArgumentError):
                session.run(update.op, {x: eye, rate: [0.5, 0.25]})
        assert session.run(w).min() == 1

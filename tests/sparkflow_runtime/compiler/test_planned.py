"""What plans do: where values are stored, what is copied, and which node an error names."""

import contextlib
import itertools
import tracemalloc
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from sparkflow_runtime import dtypes
from sparkflow_runtime.codegen.machine import native
from sparkflow_runtime.compiler.program import Program, compile_partition
from sparkflow_runtime.errors import InvalidArgumentError
from sparkflow_runtime.ir.node import Node
from sparkflow_runtime.ops.kernel import KernelContext
from sparkflow_runtime.resources import py_functions
from sparkflow_runtime.resources.variable import Variable
from support.graphs import const, node, variable
from support.interpreter import interpret
from support.plans import arg, fetch, new_context, planned, without_machine_code
from support.step import FakeStep

WITH_AND_WITHOUT = pytest.mark.parametrize("with_machine_code", [True, False])
NATIVE = pytest.mark.skipif(not native.available(), reason="needs llvmlite")


def how(with_machine_code: bool) -> contextlib.AbstractContextManager[None]:
    return contextlib.nullcontext() if with_machine_code else without_machine_code()


def context_with(**values: Any) -> KernelContext:
    context = new_context()
    for name, value in values.items():
        array = np.array(value, np.float32)
        held = Variable(name, dtypes.float32, array.shape)
        held.array = array
        context.resources.put("", name, held)
    return context


def state(context: KernelContext, name: str) -> Any:
    return context.resources.get("", name, Variable).read().tolist()


def run(nodes: Sequence[Node], *args: Any, context: KernelContext | None = None) -> list[Any]:
    """Returns the results of the plan, after comparing them with the interpreter's."""
    plan, program = planned(nodes, *args, context=context)
    results = dict(zip(program.results, plan(None, *args), strict=True))
    return [results[index] for index in range(len(results))]


# ------------------------------------------------------------------------------ memory


def chain(length: int) -> list[Node]:
    """Products of matrices, which are never fused."""
    names = ["x", *(f"m{number}" for number in range(length))]
    products = [node(name, "MatMul", before, "w") for before, name in itertools.pairwise(names)]
    return [arg("x", 0), arg("w", 1), *products, fetch(names[-1])]


def test_a_chain_takes_two_places_however_long_it_is() -> None:
    x, w = np.ones((16, 16), np.float32), np.eye(16, dtype=np.float32)
    for length in (4, 11):
        plan, _ = planned(chain(length), x, w)
        assert plan.block_bytes == 2 * 16 * 16 * 4
        (result,) = plan(None, x, w)
        np.testing.assert_array_equal(result, x)


def test_one_product_takes_no_place_as_it_is_given_away() -> None:
    x = np.ones((16, 16), np.float32)
    plan, _ = planned(chain(1), x, x)
    assert plan.block_bytes == 0


def mlp_step() -> list[Node]:
    """One step of gradient descent of two layers, 8 examples of 4 features, 16 units, 3 classes."""
    return [
        arg("x", 0),
        arg("labels", 1, T=dtypes.int32),
        *(variable(name, shape) for name, shape in SHAPES.items()),
        const("rate", 0.1),
        *(node(f"read_{name}", "Identity", name) for name in SHAPES),
        node("a", "MatMul", "x", "read_w1"),
        node("b", "BiasAdd", "a", "read_b1"),
        node("c", "Relu", "b"),
        node("d", "MatMul", "c", "read_w2"),
        node("e", "BiasAdd", "d", "read_b2"),
        node("f", "SparseSoftmaxCrossEntropyWithLogits", "e", "labels", Tlabels=dtypes.int32),
        const("rows", [0], dtypes.int32),
        node("loss", "Mean", "f:0", "rows"),
        node("db2", "BiasAddGrad", "f:1"),
        node("dw2", "MatMul", "c", "f:1", transpose_a=True),
        node("dc", "MatMul", "f:1", "read_w2", transpose_b=True),
        node("db", "ReluGrad", "dc", "c"),
        node("db1", "BiasAddGrad", "db"),
        node("dw1", "MatMul", "x", "db", transpose_a=True),
        *(
            node(f"update_{name}", "ApplyGradientDescent", name, "rate", f"d{name}", after=["dc"])
            for name in SHAPES
        ),
        fetch("loss"),
    ]


SHAPES = {"w1": (4, 16), "b1": (16,), "w2": (16, 3), "b2": (3,)}
X = np.random.default_rng(1).standard_normal((8, 4)).astype(np.float32)
LABELS = np.array([0, 1, 2, 0, 1, 2, 0, 1], np.int32)


def mlp_context() -> KernelContext:
    random = np.random.default_rng(2)
    return context_with(**{name: random.standard_normal(shape) for name, shape in SHAPES.items()})


@WITH_AND_WITHOUT
def test_a_training_step_is_that_of_the_interpreter(with_machine_code: bool) -> None:
    nodes = mlp_step()
    first, second = mlp_context(), mlp_context()
    with how(with_machine_code):
        plan, _ = planned(nodes, X, LABELS, context=first)
        for _ in range(5):
            (loss,) = plan(None, X, LABELS)
            np.testing.assert_allclose(loss, interpret(nodes, second, [X, LABELS])[0], rtol=1e-5)
    for name in SHAPES:
        np.testing.assert_allclose(state(first, name), state(second, name), rtol=1e-4, atol=1e-5)


def test_the_memory_of_a_training_step() -> None:
    with without_machine_code():
        plan, _ = planned(mlp_step(), X, LABELS, context=mlp_context())
    hidden, small = 8 * 16 * 4, 64
    # In the middle of the backward pass: Relu's output, the gradients of it and of its input; those
    # of the second layer's weights (192) and biases; the loss.
    assert plan.block_bytes == 3 * hidden + 192 + 2 * small


@NATIVE
def test_fused_kernels_take_less_memory_for_a_training_step() -> None:
    plan, _ = planned(mlp_step(), X, LABELS, context=mlp_context())
    hidden, small = 8 * 16 * 4, 64
    # Relu's gradient overwrites what it reads; the bias's is computed with it.
    assert plan.block_bytes == 2 * hidden + 192 + 4 * small


def residual_block() -> list[Node]:
    return [
        arg("x", 0),
        arg("w", 1),
        node("a", "MatMul", "x", "w"),
        node("b", "Relu", "a"),
        node("c", "MatMul", "b", "w"),
        node("d", "AddV2", "c", "a"),
        node("e", "MatMul", "d", "w"),
        fetch("e"),
    ]


def test_the_memory_of_a_residual_block() -> None:
    x, w = np.ones((32, 32), np.float32), np.eye(32, dtype=np.float32)
    size = 32 * 32 * 4
    with without_machine_code():
        plan, _ = planned(residual_block(), x, w)
    assert plan.block_bytes == 3 * size  # a, and b with c, or c with d
    np.testing.assert_array_equal(plan(None, x, w)[0], 2 * x)


@NATIVE
def test_a_kernel_overwrites_what_only_it_reads() -> None:
    x, w = np.ones((32, 32), np.float32), np.eye(32, dtype=np.float32)
    plan, _ = planned(residual_block(), x, w)
    assert plan.block_bytes == 3 * 32 * 32 * 4
    nodes = [
        arg("x", 0),
        node("a", "MatMul", "x", "x"),
        node("b", "Tanh", "a"),
        node("c", "Neg", "b"),
        node("d", "MatMul", "c", "c"),
        fetch("d"),
    ]
    in_place, _ = planned(nodes, w)
    assert in_place.block_bytes == 32 * 32 * 4  # c is stored where a was
    np.testing.assert_allclose(in_place(None, w)[0], np.tanh(w) @ np.tanh(w), rtol=1e-6)


@NATIVE
def test_a_kernel_does_not_overwrite_what_is_read_again() -> None:
    for later in ("a", "view"):
        nodes = [
            arg("x", 0),
            const("shape", [4], dtypes.int32),
            node("a", "MatMul", "x", "x"),
            node("view", "Reshape", "a", "shape"),
            node("b", "Tanh", "a"),
            node("c", "MatMul", "b", "b"),
            fetch("c"),
            fetch(later, 1),
        ]
        x = np.float32([[1, 2], [3, 4]])
        _, value = run(nodes, x)
        np.testing.assert_allclose(value.reshape(-1), (x @ x).reshape(-1), rtol=1e-6)


def cnn_step() -> list[Node]:
    return [
        arg("x", 0),
        arg("labels", 1, T=dtypes.int32),
        variable("w", (3, 3, 4, 8)),
        const("rate", 0.01),
        const("flat", [2, -1], dtypes.int32),
        const("sizes", [3, 3, 4, 8], dtypes.int32),
        const("back", [2, 12, 12, 8], dtypes.int32),
        node("read", "Identity", "w"),
        node("a", "Conv2D", "x", "read", strides=[1, 1, 1, 1], padding="SAME"),
        node("b", "Relu", "a"),
        node("c", "Reshape", "b", "flat"),
        node("d", "SparseSoftmaxCrossEntropyWithLogits", "c", "labels", Tlabels=dtypes.int32),
        node("e", "Reshape", "d:1", "back"),
        node("f", "ReluGrad", "e", "b"),
        node(
            "g",
            *("Conv2DBackpropFilter", "x", "sizes", "f"),
            strides=[1, 1, 1, 1],
            padding="SAME",
        ),
        node("update", "ApplyGradientDescent", "w", "rate", "g"),
        fetch("d:0"),
    ]


STEPS: dict[str, tuple[Callable[[], list[Node]], Callable[[], KernelContext], list[Any]]] = {
    "chain": (
        lambda: [
            arg("x", 0),
            *(node(f"m{n + 1}", op, f"m{n}" if n else "x") for n, op in enumerate(OPS)),
            const("all", [0, 1], dtypes.int32),
            node("sum", "Sum", f"m{len(OPS)}", "all"),
            fetch("sum"),
        ],
        new_context,
        [np.linspace(-1, 1, 64 * 64, dtype=np.float32).reshape(64, 64)],
    ),
    "mlp": (mlp_step, mlp_context, [np.tile(X, (1, 1)), LABELS]),
    "cnn": (
        cnn_step,
        lambda: context_with(w=np.random.default_rng(3).standard_normal((3, 3, 4, 8))),
        [np.ones((2, 12, 12, 4), np.float32), np.array([1, 2], np.int32)],
    ),
}
OPS = ["Tanh", "Exp", "Neg", "Sigmoid", "Square", "Relu"]


@NATIVE
@pytest.mark.parametrize("name", STEPS)
def test_a_steady_step_takes_no_memory_but_for_what_is_fetched(name: str) -> None:
    make, make_context, args = STEPS[name]
    plan, _ = planned(make(), *args, context=make_context())
    for _ in range(3):
        plan(None, *args)
    tracemalloc.start()
    try:
        tracemalloc.reset_peak()
        before = tracemalloc.get_traced_memory()[0]
        results = plan(None, *args)
        peak = tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()
    fetched = sum(np.asarray(each).nbytes for each in results)
    assert peak - fetched < 4096  # needed by Python itself; the largest array is 16 KiB


# ------------------------------------------------------------------------------ aliases


@WITH_AND_WITHOUT
def test_fetched_arrays_never_change(with_machine_code: bool) -> None:
    nodes = [
        arg("x", 0),
        const("shape", [1, 2], dtypes.int32),
        const("order", [1, 0], dtypes.int32),
        node("y", "Exp", "x"),
        node("again", "Identity", "y"),
        node("view", "Reshape", "y", "shape"),
        node("turned", "Transpose", "view", "order"),
        node("z", "Neg", "turned"),
        *(fetch(name, number) for number, name in enumerate(["y", "again", "view", "z", "x"])),
    ]
    with how(with_machine_code):
        plan, _ = planned(nodes, np.zeros(2, np.float32))
    kept: list[tuple[Any, Any]] = []
    for number in range(4):
        x = np.full(2, number, np.float32)
        results = plan(None, x)
        kept += [(each, each.copy()) for each in results]
        for each in results:
            assert not np.may_share_memory(each, x)
        for index, each in enumerate(results):
            for other in results[:index]:
                assert not np.may_share_memory(each, other)
    for now, then in kept:
        np.testing.assert_array_equal(now, then)


def test_what_a_queue_holds_is_not_given_to_who_fetches_it() -> None:
    queue = node("q", "FIFOQueueV2", component_types=[dtypes.float32], shared_name="q")
    nodes = [
        arg("x", 0),
        queue,
        node("y", "Exp", "x"),
        node("put", "QueueEnqueueV2", "q", "y", Tcomponents=[dtypes.float32]),
        fetch("y"),
    ]
    context = new_context()
    x = np.zeros(2, np.float32)
    plan, _ = planned(nodes, x, context=context)
    take = compile_partition(
        [queue, node("get", "QueueDequeueV2", "q", component_types=[dtypes.float32]), fetch("get")],
        context,
    )
    (y,) = plan(FakeStep(), x)
    y[:] = 99
    assert take.run(FakeStep(), [])[0].tolist() == [1, 1]


@WITH_AND_WITHOUT
@pytest.mark.parametrize("op", ["Sum", "Max", "Mean"])
def test_a_reduction_over_one_element_is_not_the_variable_itself(
    op: str, with_machine_code: bool
) -> None:
    nodes = [
        variable("v", (2, 1)),
        const("axis", [1], dtypes.int32),
        const("ones", [[1.0], [1.0]]),
        node("read", "Identity", "v"),
        node("s", op, "read", "axis"),
        node("view", "Squeeze", "s"),
        node("update", "AssignAdd", "v", "ones", after=["s"]),
        node("late", "Identity", "view", after=["update"]),
        fetch("late"),
    ]
    with how(with_machine_code):
        (late,) = run(nodes, context=context_with(v=[[1], [2]]))
    assert late.tolist() == [1, 2]


@WITH_AND_WITHOUT
def test_a_view_of_a_turned_view_is_made_in_every_step(with_machine_code: bool) -> None:
    nodes = [
        arg("x", 0),
        const("order", [1, 0], dtypes.int32),
        const("shape", [6], dtypes.int32),
        node("y", "Exp", "x"),
        node("turned", "Transpose", "y", "order"),
        node("flat", "Reshape", "turned", "shape"),
        fetch("flat"),
    ]
    with how(with_machine_code):
        plan, _ = planned(nodes, np.zeros((2, 3), np.float32))
    for number in (1, 2):
        x = np.arange(6, dtype=np.float32).reshape(2, 3) * number
        np.testing.assert_allclose(plan(None, x)[0], np.exp(x).T.reshape(-1), rtol=1e-6)


@WITH_AND_WITHOUT
def test_a_part_that_begins_where_the_step_says_is_taken_in_every_step(
    with_machine_code: bool,
) -> None:
    nodes = [
        arg("x", 0),
        arg("at", 1, T=dtypes.int32),
        const("one", [1], dtypes.int32),
        const("size", [2], dtypes.int32),
        node("y", "Neg", "x"),
        node("begin", "Add", "at", "one", T=dtypes.int32),
        node("part", "Slice", "y", "begin", "size", Index=dtypes.int32),
        fetch("part"),
    ]
    x = np.arange(6, dtype=np.float32)
    with how(with_machine_code):
        plan, _ = planned(nodes, x, np.zeros(1, np.int32))
    for at in (0, 3, 1):
        (part,) = plan(None, x, np.array([at], np.int32))
        assert part.tolist() == [-at - 1, -at - 2]


@WITH_AND_WITHOUT
def test_kernels_read_variables_before_and_after_updates(with_machine_code: bool) -> None:
    nodes = [
        arg("x", 0),
        variable("v", (2,)),
        node("before", "Mul", "v", "x"),
        node("more", "Tanh", "before"),
        node("up", "AssignAdd", "v", "x", after=["before"]),
        node("after", "Mul", "v", "x", after=["up"]),
        node("both", "Sub", "after", "more"),
        fetch("both"),
    ]
    x = np.float32([1, 2])
    for _ in range(2):
        with how(with_machine_code):
            (both,) = run(nodes, x, context=context_with(v=[3, 4]))
        np.testing.assert_allclose(both, [4 - np.tanh(3), 12 - np.tanh(8)], rtol=1e-6)


def test_a_python_function_may_keep_what_it_is_given() -> None:
    kept: list[Any] = []

    def keep(x: Any) -> Any:
        kept.append(x)
        return x

    function = py_functions.PyFunction(keep)
    for op in ("PyFunc", "PyFuncStateless"):
        nodes = [
            arg("x", 0),
            node("y", "Exp", "x"),
            node("f", op, "y", token=function.token, Tin=[dtypes.float32], Tout=[dtypes.float32]),
            node("z", "Exp", "x"),
            node("n", "Neg", "z"),
            fetch("f"),
            fetch("n", 1),
        ]
        with without_machine_code():
            plan, _ = planned(nodes, np.zeros(2, np.float32))
        for number in range(3):
            result, _ = plan(None, np.full(2, number, np.float32))
            np.testing.assert_allclose(result, np.exp([number] * 2), rtol=1e-6)
        np.testing.assert_allclose(kept[-3:], np.exp([[0, 0], [1, 1], [2, 2]]), rtol=1e-6)


# ------------------------------------------------------------------------------ errors


def error_of(call: Callable[[], object]) -> InvalidArgumentError:
    with pytest.raises(InvalidArgumentError) as caught:
        call()
    return caught.value


@WITH_AND_WITHOUT
def test_a_label_out_of_range_is_the_error_of_its_node_in_every_step(
    with_machine_code: bool, plans_at_once: None
) -> None:
    nodes, context = mlp_step(), mlp_context()
    with how(with_machine_code):
        program = compile_partition(nodes, context)
        program.run(None, [X, LABELS])
    general = str(error_of(lambda: interpret(nodes, context, [X, LABELS + 1]))).split("\n")[0]
    for _ in range(3):
        error = error_of(lambda: program.run(None, [X, LABELS + 1]))
        assert error.node_def == "f"
        assert str(error).split("\n")[0] == general
        assert "[[node 'f' (SparseSoftmaxCrossEntropyWithLogits)" in str(error)
        assert np.isfinite(program.run(None, [X, LABELS])[0])


def test_an_error_names_the_node_in_a_plan(plans_at_once: None) -> None:
    nodes = [
        arg("x", 0),
        arg("rows", 1, T=dtypes.int32),
        const("axis", 0, dtypes.int32),
        node("y", "Exp", "x"),
        node("g", "GatherV2", "y", "rows", "axis", Taxis=dtypes.int32, Tindices=dtypes.int32),
        node("z", "Neg", "g"),
        fetch("z"),
    ]
    program = compile_partition(nodes, new_context())
    x = np.zeros(3, np.float32)
    for _ in range(2):
        error = error_of(lambda: program.run(None, [x, np.array([1, 7], np.int32)]))
        assert error.node_def == "g"
        assert program.run(None, [x, np.array([1, 2], np.int32)])[0].tolist() == [-1, -1]


def test_shapes_that_do_not_fit_are_the_error_of_their_node(plans_at_once: None) -> None:
    nodes = [arg("x", 0), arg("y", 1), node("s", "AddV2", "x", "y"), node("t", "Exp", "s")]
    program: Program = compile_partition([*nodes, fetch("t")], new_context())
    ok = np.zeros(3, np.float32)
    for _ in range(2):
        error = error_of(lambda: program.run(None, [ok, np.zeros(2, np.float32)]))
        assert error.node_def == "s"
        assert "Incompatible shapes: [3] vs. [2]" in str(error)
        assert program.run(None, [ok, ok])[0].tolist() == [1, 1, 1]


@NATIVE
def test_arrays_that_kernels_do_not_take_are_copied_first() -> None:
    nodes = [arg("x", 0), node("a", "Exp", "x"), node("b", "Neg", "a"), fetch("b")]
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    plan, _ = planned(nodes, x[:, ::2])
    for given in (x[:, ::2], np.asfortranarray(x[:, :2]), x[::-1, 1:3]):
        np.testing.assert_allclose(plan(None, given)[0], -np.exp(given), rtol=1e-6)


def test_numbers_and_empty_arrays() -> None:
    nodes = [arg("x", 0), node("a", "Exp", "x"), node("b", "Neg", "a"), fetch("b")]
    plan, _ = planned(nodes, np.float32(0))
    assert plan(None, np.float32(0)) == (-1,)
    assert plan(None, np.zeros((), np.float32)) == (-1,)
    empty = np.zeros((0, 3), np.float32)
    assert planned(nodes, empty)[0](None, empty)[0].shape == (0, 3)


def test_a_variable_of_another_shape_than_its_own_is_read_as_it_is(plans_at_once: None) -> None:
    context = context_with()
    reading = [variable("v", (3,)), const("one", 1.0), node("y", "AddV2", "v", "one"), fetch("y")]
    changing = [
        arg("x", 0),
        variable("v", (3,)),
        const("two", 2.0),
        node("set", "Assign", "v", "x", validate_shape=False),
        node("y", "Mul", "v", "two", after=["set"]),
        node("z", "Exp", "y"),
        node("n", "Neg", "z"),
        fetch("n"),
    ]
    read, change = compile_partition(reading, context), compile_partition(changing, context)
    for values in ([1.0, 2.0, 3.0], [1.0, 2.0], [5.0], [1.0, 2.0, 3.0]):
        x = np.float32(values)
        np.testing.assert_allclose(change.run(None, [x])[0], -np.exp(2 * x), rtol=1e-6)
        np.testing.assert_allclose(read.run(None, [])[0], x + 1)


def test_what_is_handed_on_as_it_is_calls_no_kernel() -> None:
    context = context_with(v=[1, 2])
    nodes = [
        arg("x", 0),
        variable("v", (2,)),
        node("same", "Identity", "x"),
        node("again", "PreventGradient", "same"),
        node("read", "StopGradient", "v"),
        node(
            "give",
            "_SendBundle",
            "again",
            "read",
            T=[dtypes.float32] * 2,
            key="give",
            destination="other",
        ),
    ]
    x = np.float32([3, 4])
    plan, _ = planned(nodes, x, context=context)
    assert [each.node.op for each in plan.calls.values()] == ["_SendBundle"]
    for added in (0, 1):
        held = context.resources.get("", "v", Variable)
        held.array = held.array + np.float32(added)  # a new array, as after an assignment
        step = FakeStep()
        plan(step, x)
        assert step.sent["give"][0] is x
        assert step.sent["give"][1] is held.array

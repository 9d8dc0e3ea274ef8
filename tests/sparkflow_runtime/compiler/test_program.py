import re
import traceback
import weakref
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from sparkflow_runtime import dtypes
from sparkflow_runtime.compiler.program import Program, compile_partition
from sparkflow_runtime.errors import (
    FailedPreconditionError,
    InternalError,
    InvalidArgumentError,
    OpError,
    OutOfRangeError,
    ResourceExhaustedError,
    UnimplementedError,
    UnknownError,
)
from sparkflow_runtime.ir.node import Endpoint, Node
from sparkflow_runtime.ops import registry
from sparkflow_runtime.ops.kernel import KernelContext
from sparkflow_runtime.ops.op import Op
from sparkflow_runtime.resources.container import Resources
from sparkflow_runtime.resources.variable import Variable
from support.graphs import const, node, placeholder, variable
from support.interpreter import interpret


class Array(np.ndarray):
    """An array that supports weak references."""


class Probe(Op):
    """Runs a function of the test."""

    type = "TestProbe"
    inputs = "x: T"
    outputs = "y: T"
    attrs = registry.lookup("Identity").attrs
    function: Callable[..., Any]

    def compute(self, xp: Any, x: Any) -> Any:
        return type(self).function(x)


@pytest.fixture
def probe(monkeypatch: pytest.MonkeyPatch) -> type[Probe]:
    monkeypatch.setitem(registry._OPS, "TestProbe", Probe())
    return Probe


def context(device_type: str = "CPU") -> KernelContext:
    return KernelContext(np, device_type, "/device:CPU:0", Resources(), Resources())


def program(*nodes: Node, resources: KernelContext | None = None) -> Program:
    return compile_partition(nodes, resources or context())


def arg(name: str, index: int) -> Node:
    return node(name, "_Arg", index=index)


def fetch(source: str, index: int = 0) -> Node:
    return node(f"fetch{index}", "_Retval", source, index=index)


def test_arguments_and_results_have_their_numbers() -> None:
    compiled = program(
        arg("b", 1), arg("a", 0), node("d", "Sub", "a", "b"), fetch("d", 1), fetch("a", 0)
    )
    assert (compiled.args, compiled.results, compiled.needs_step) == ((1, 0), (1, 0), False)
    two, five = np.float32(2), np.float32(5)
    assert compiled.run(None, [two, five]) == (3, 5)


def test_several_outputs_lists_and_unused_ones() -> None:
    compiled = program(
        const("x", [[1, 2], [3, 4]]),
        node("p", "Unpack", "x", num=2),
        node("q", "Unpack", "p:1", num=2),
        node("l", "IdentityN", "q:0", T=[dtypes.float32]),
        fetch("l"),
    )
    assert compiled.run(None, []) == (3,)


def test_programs_agree_with_the_interpreter() -> None:
    nodes = [
        arg("x", 0),
        const("c", [1, 2]),
        variable("v", (2,)),
        node("init", "Assign", "v", "c"),
        node("r1", "Identity", "v", after=["init"]),
        node("u", "AssignAdd", "v", "x", after=["r1"]),
        node("r2", "Identity", "u"),
        node("s", "AddV2", "r1", "r2"),
        *(fetch(name, index) for index, name in enumerate(["r1", "u", "s"])),
    ]
    x = np.float32([10, 20])
    compiled = dict(enumerate(program(*nodes).run(None, [x])))
    defined = interpret(nodes, context(), [x])
    assert {k: v.tolist() for k, v in compiled.items()} == {
        k: v.tolist() for k, v in defined.items()
    }
    assert compiled[2].tolist() == [12, 24]


def test_dead_values_are_freed_at_once(probe: type[Probe]) -> None:
    made: list[weakref.ref[Any]] = []
    alive: list[int] = []

    def step(x: Any) -> Any:
        alive.append(sum(ref() is not None for ref in made))
        value = np.array(x).view(Array)
        made.append(weakref.ref(value))
        return value

    probe.function = staticmethod(step)
    chain = [node(f"n{i + 1}", "TestProbe", f"n{i}") for i in range(6)]
    program(arg("n0", 0), *chain, fetch("n6")).run(None, [np.zeros(3)])
    # Of all results only the input of the running node is alive.
    assert alive == [0, 1, 1, 1, 1, 1]
    assert not any(ref() is not None for ref in made)


def test_constants_outlive_the_step_and_are_not_given_away() -> None:
    array = np.float32([1, 2])
    constant = node("c", "Const", dtype=dtypes.float32, value=array)
    compiled = program(constant, node("y", "Identity", "c"), fetch("y"), fetch("c", 1))
    for _ in range(2):
        for value in compiled.run(None, []):
            assert value.tolist() == [1, 2]
            assert not np.shares_memory(value, array)
            value += 1
    assert array.tolist() == [1, 2]


def test_fetched_and_fed_values_do_not_alias_variables() -> None:
    where = context()
    compiled = program(
        arg("x", 0),
        variable("v", (2,)),
        node("init", "Assign", "v", "x"),
        node("read", "Identity", "v", after=["init"]),
        fetch("read", 0),
        fetch("v", 1),
        resources=where,
    )
    fed = np.float32([1, 2])
    results = compiled.run(None, [fed])
    state = where.resources.get("", "v", Variable).array
    for value in (*results, fed):
        assert not np.shares_memory(value, state)
    fed[:] = 9
    results[0][:] = 9
    assert state.tolist() == [1, 2]


@pytest.mark.parametrize(
    ("raised", "expected", "text"),
    [
        (ValueError("could not broadcast"), InvalidArgumentError, "could not broadcast"),
        (IndexError("out of bounds"), InvalidArgumentError, "out of bounds"),
        (MemoryError("8 GiB"), ResourceExhaustedError, "Out of memory: 8 GiB"),
        (RuntimeError("odd"), UnknownError, "RuntimeError: odd"),
        (OutOfRangeError(message="end"), OutOfRangeError, "end"),
        (FailedPreconditionError(message="not yet"), FailedPreconditionError, "not yet"),
    ],
)
def test_failures_name_node_op_device_and_line(
    probe: type[Probe], raised: Exception, expected: type[OpError], text: str
) -> None:
    def fail(x: Any) -> Any:
        raise raised

    probe.function = staticmethod(fail)
    compiled = program(
        arg("x", 0),
        node("fine", "Neg", "x"),
        node("bad", "TestProbe", "fine", device="/job:w/task:1/cpu:0", _source="train.py:12"),
        fetch("bad"),
    )
    with pytest.raises(expected) as info:
        compiled.run(None, [np.float32(1)])
    place = "[[node 'bad' (TestProbe) on /job:w/task:1/cpu:0, defined at train.py:12]]"
    assert str(info.value) == f"{text}\n\t {place}"
    assert info.value.node_def == "bad"
    assert "fail" in [frame.name for frame in traceback.extract_tb(info.tb)] or (
        info.value.__cause__ is raised
    )
    assert info.value.__cause__ is not info.value


def test_the_innermost_place_of_a_failure_stays(probe: type[Probe]) -> None:
    def fail(x: Any) -> Any:
        raise InvalidArgumentError(message="elsewhere").at("[[node 'remote']]")

    probe.function = staticmethod(fail)
    with pytest.raises(InvalidArgumentError, match="remote") as info:
        program(arg("x", 0), node("bad", "TestProbe", "x")).run(None, [1])
    assert "'bad'" not in str(info.value)


def test_reading_an_uninitialised_variable_names_the_reader() -> None:
    compiled = program(variable("w"), node("y", "Identity", "w", _source="m.py:3"), fetch("y"))
    with pytest.raises(FailedPreconditionError, match=r"value w;(.|\n)*'y' .*m\.py:3"):
        compiled.run(None, [])
    with pytest.raises(InvalidArgumentError, match="must feed a value for placeholder tensor 'x'"):
        program(placeholder("x"), node("y", "Neg", "x")).run(None, [])


def test_floating_point_warnings_are_not_raised() -> None:
    compiled = program(const("z", 0.0), const("o", 1.0), node("d", "RealDiv", "o", "z"), fetch("d"))
    with np.errstate(all="raise"):
        assert np.isinf(compiled.run(None, [])[0])


def test_what_cannot_be_compiled_is_named() -> None:
    with pytest.raises(InternalError, match=r"x:0 is read before it is computed(.|\n)*'y'"):
        program(node("y", "Neg", "x"))
    text = variable("t", dtype=dtypes.string, _source="m.py:9")
    with pytest.raises(UnimplementedError, match=r"No kernel of VariableV2(.|\n)*m\.py:9"):
        program(text, resources=context("GPU"))


def test_names_from_the_graph_never_enter_the_source() -> None:
    evil = "x): import os #\n'\"\\"
    compiled = program(
        Node(evil, "_Arg", attrs={"T": dtypes.float32, "index": 0, "shape": None}),
        Node("y", "Neg", (Endpoint(evil, 0),), attrs={"T": dtypes.float32, "_source": evil}),
        fetch("y"),
    )
    assert compiled.run(None, [np.float32(2)]) == (-2,)
    (code,) = compiled.lines_of()
    for name in (*code.co_names, *code.co_varnames):
        assert re.fullmatch(r"step|_|[akrv]\d+(_\d+)?", name)


def test_long_programs() -> None:
    chain = [node(f"n{i + 1}", "Neg", f"n{i}") for i in range(5000)]
    compiled = program(arg("n0", 0), *chain, fetch("n5000"))
    assert compiled.run(None, [np.float32(3)]) == (3,)


def test_every_kernel_is_called_where_no_shape_is_known_but_for_constants() -> None:
    called: list[str] = []

    def observe(of: Node, kernel: Callable[..., Any]) -> Callable[..., Any]:
        def run(*inputs: Any) -> Any:
            called.append(of.name)
            return kernel(*inputs)

        return run

    nodes = [
        arg("x", 0),
        variable("v"),
        const("one", 1.0),
        node("set", "Assign", "v", "one", T=dtypes.float32),
        node("read", "Identity", "set"),
        node("sum", "AddV2", "read", "x", T=dtypes.float32),
        fetch("sum"),
    ]
    compiled = compile_partition(nodes, replace(context(), observe=observe))
    assert called == ["one"]  # its value exists before any step
    called.clear()
    assert compiled.run(None, [np.float32(2)]) == (3,)
    assert called == ["x", "v", "set", "read", "sum", "fetch0"]

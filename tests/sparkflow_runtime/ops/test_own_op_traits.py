"""A user's own op gets what its traits allow, one test per trait."""

from typing import Any

import numpy as np
import pytest

import sparkflow_runtime.ops.all  # noqa: F401 - fills the registry
from sparkflow_runtime import dtypes
from sparkflow_runtime.compiler.card import _is_capturable, _is_on_host
from sparkflow_runtime.compiler.known import find_known
from sparkflow_runtime.compiler.planned import Planned
from sparkflow_runtime.ir.graph import Graph
from sparkflow_runtime.ir.node import Endpoint, Node
from sparkflow_runtime.ir.types import infer_types
from sparkflow_runtime.ops import registry
from sparkflow_runtime.ops.images import IMAGE
from sparkflow_runtime.ops.op import Op
from sparkflow_runtime.ops.signature import string_attr, type_attr
from sparkflow_runtime.ops.value import moving
from sparkflow_runtime.passes.distinct_rows import distinct_rows
from sparkflow_runtime.passes.fold import MAX_REPEATED, fold
from sparkflow_runtime.passes.layout import channels_last
from sparkflow_runtime.passes.merge import merge
from sparkflow_runtime.passes.partitioning.wire_dtypes import WIRE_ATTR, wire_dtypes
from sparkflow_runtime.passes.simplify.sweep import simplify
from support.graphs import const, node
from support.plans import arg, fetch

CPU = "/job:localhost/replica:0/task:0/device:CPU:0"
PS = "/job:ps/replica:0/task:0/device:CPU:0"
WORKER = "/job:worker/replica:0/task:0/device:CPU:0"
T = {"T": type_attr(frozenset({dtypes.float32}))}


@pytest.fixture
def register() -> Any:
    def enter(base: type[Op], **facts: Any) -> None:
        registry.add_own(type("Own", (base,), facts)())

    return enter


class Unary(Op):
    inputs = "x: T"
    outputs = "y: T"
    attrs = T

    def infer(self, node: Any) -> Any:
        return [node.shapes[0]]

    def compute(self, xp: Any, x: Any) -> Any:
        return x


class Binary(Unary):
    inputs = "x: T, y: T"
    outputs = "z: T"

    def infer(self, node: Any) -> Any:
        return [np.broadcast_shapes(*node.shapes)]

    def compute(self, xp: Any, x: Any, y: Any) -> Any:
        return x + y


class Sized(Unary):
    inputs = "x: T, n: int32"

    def infer(self, node: Any) -> Any:
        n = node.value(1)
        return [None if n is None else tuple(n.reshape(-1).tolist())]

    def compute(self, xp: Any, x: Any, n: Any) -> Any:
        return np.broadcast_to(x, tuple(n)).copy()


def ops(graph: Graph) -> list[str]:
    return sorted(each.op for each in graph)


def shaped(name: str, index: int, *shape: int) -> Node:
    return arg(name, index, T=dtypes.float32, shape=shape)


def ints(name: str, values: list[int]) -> Node:
    array = np.array(values, np.int32)
    return Node(name, "Const", attrs={"value": array, "dtype": dtypes.int32})


def simplified(*nodes: Node) -> Graph:
    graph = Graph(nodes)
    return simplify(graph, (), infer_types(graph))


@pytest.mark.parametrize("says", [True, False])
def test_commutative(register: Any, says: bool) -> None:
    register(Binary, commutative=says)
    a, b = shaped("a", 0, 2), shaped("b", 1, 2)
    both = [node("c", "Own", "a", "b"), node("d", "Own", "b", "a")]
    merged = merge(Graph([a, b, *both, fetch("c", 0), fetch("d", 1)]))
    assert ops(merged).count("Own") == (1 if says else 2)


@pytest.mark.parametrize("says", [True, False])
def test_passes_on(register: Any, says: bool) -> None:
    register(Unary, passes_on=says)
    graph = simplified(shaped("a", 0, 2), node("c", "Own", "a"), fetch("c"))
    assert ops(graph).count("Own") == (0 if says else 1)


def test_what_has_state_is_not_taken_out(register: Any) -> None:
    register(Unary, passes_on=True, stateful=True)
    graph = simplified(shaped("a", 0, 2), node("c", "Own", "a"), fetch("c"))
    assert ops(graph).count("Own") == 1


@pytest.mark.parametrize("says", [True, False])
def test_reshapes(register: Any, says: bool) -> None:
    register(Sized, reshapes=says)
    there = node("c", "Own", "a", "n")
    nodes = [shaped("a", 0, 4), ints("n", [2, 2]), there]
    back = [ints("m", [4]), node("d", "Reshape", "c", "m"), fetch("d")]
    graph = simplified(*nodes, *back)
    assert graph["fetch0"].inputs == (Endpoint("a" if says else "d", 0),)


@pytest.mark.parametrize("says", [True, False])
def test_reduction(register: Any, says: bool) -> None:
    register(Sized, reduction=says)
    nodes = [shaped("a", 0, 4), ints("n", []), node("c", "Own", "a", "n")]
    graph = simplify(Graph([*nodes, fetch("c")]))
    assert ops(graph).count("Own") == (0 if says else 1)


@pytest.mark.parametrize("says", [True, False])
def test_broadcasts(register: Any, says: bool) -> None:
    register(Binary, elementwise=says, broadcasts=says)
    repeated = [shaped("s", 1), ints("n", [3]), node("r", "Fill", "n", "s")]
    graph = simplified(shaped("a", 0, 3), *repeated, node("c", "Own", "a", "r"), fetch("c"))
    assert graph["c"].inputs == (Endpoint("a", 0), Endpoint("s" if says else "r", 0))


@pytest.mark.parametrize("says", [True, False])
def test_repeats(register: Any, says: bool) -> None:
    register(Sized, repeats="x" if says else None, kernels={"CPU": None})
    nodes = [
        const("x", np.float32(1)),
        ints("n", [MAX_REPEATED + 1]),
        node("c", "Own", "x", "n"),
        fetch("c"),
    ]
    assert ops(fold(Graph(nodes))).count("Own") == (1 if says else 0)


@pytest.mark.parametrize("says", [True, False])
def test_fills(register: Any, says: bool) -> None:
    register(Unary, fills=7 if says else None)
    found = find_known([shaped("a", 0, 2), node("c", "Own", "a")], {Endpoint("a", 0): (2,)})
    value = found[Endpoint("c", 0)].value
    assert (None if value is None else value.tolist()) == ([7.0, 7.0] if says else None)


@pytest.mark.parametrize("says", [True, False])
def test_elementwise(register: Any, says: bool) -> None:
    register(Unary, elementwise=says)
    nodes = [
        node("x", "_Arg", device=CPU, T=dtypes.float32, index=0, shape=(1, 2, 4, 4)),
        const("f", np.ones([1, 1, 2, 2], np.float32), device=CPU),
        node(
            "y", "Conv2D", "x", "f", device=CPU, data_format="NCHW", padding="SAME",
            strides=[1, 1, 1, 1],
        ),
        node("c", "Own", "y", device=CPU),
        node("fetch", "_Retval", "c", device=CPU, index=0),
    ]  # fmt: skip
    graph = Graph(nodes)
    last = channels_last(graph, infer_types(graph))
    assert ("c/channels_last" in last) is says


@pytest.mark.parametrize("says", [True, False])
def test_elementwise_of_one_number_is_one_number(register: Any, says: bool) -> None:
    register(Unary, elementwise=says, compute=lambda self, xp, x: x + x)
    ones = [shaped("a", 0, 300, 300), node("b", "OnesLike", "a"), node("c", "Own", "b")]
    value = find_known(ones, {Endpoint("a", 0): (300, 300)})[Endpoint("c", 0)].value
    assert (None if value is None else (value.shape, value.strides, value.max())) == (
        ((300, 300), (0, 0), 2.0) if says else None
    )


@pytest.mark.parametrize("says", [True, False])
def test_capturable_and_quiet(register: Any, says: bool) -> None:
    register(Unary, capturable=says, quiet=says)
    plan = Planned((lambda: None).__code__, {}, [], [], 0, (), (), (), alone=frozenset({"Own"}))
    assert _is_capturable(plan) is says
    assert plan.is_quiet is says


@pytest.mark.parametrize("says", [True, False])
def test_host_inputs(register: Any, says: bool) -> None:
    register(Sized, host_inputs=frozenset({"n"} if says else ()))
    own = node("c", "Own", "a", "n")
    assert [_is_on_host(own, 0), _is_on_host(own, 1)] == [False, says]


@pytest.mark.parametrize("says", [True, False])
def test_images(register: Any, says: bool) -> None:
    attrs = {**T, "data_format": string_attr("NHWC")}
    register(Unary, attrs=attrs, images=IMAGE if says else None)
    nodes = [
        node("x", "_Arg", device=CPU, T=dtypes.float32, index=0, shape=(1, 2, 4, 4)),
        const("f", np.ones([1, 1, 2, 2], np.float32), device=CPU),
        node(
            "y", "Conv2D", "x", "f", device=CPU, data_format="NCHW", padding="SAME",
            strides=[1, 1, 1, 1],
        ),
        node("c", "Own", "y", device=CPU, data_format="NCHW"),
        node("fetch", "_Retval", "c", device=CPU, index=0),
    ]  # fmt: skip
    graph = Graph(nodes)
    last = channels_last(graph, infer_types(graph))
    assert {n.attrs["data_format"] for n in last if n.op == "Own"} == {"NHWC" if says else "NCHW"}


def on_ps(name: str, op: str, *inputs: str, **attrs: Any) -> Node:
    return node(name, op, *inputs, device=PS, **attrs)


def narrowed(*nodes: Node) -> list[str]:
    """Returns what is sent in 16 bits between a variable that requests it and a worker."""
    wire = {WIRE_ATTR: dtypes.bfloat16}
    variable = on_ps("v", "VariableV2", dtype=dtypes.float32, shape=(8, 4), **wire)
    arg = node("grad", "_Arg", T=dtypes.float32, index=0, shape=(8, 4), device=WORKER)
    graph = Graph([variable, arg, *nodes])
    casts = wire_dtypes(graph, infer_types(graph), graph)
    narrow = [n for n in casts if n.op == "Cast" and n.attrs["DstT"] is dtypes.bfloat16]
    return [n.inputs[0].node for n in narrow]


@pytest.mark.parametrize("trait", ["reads_variable", "reads_parts", "passes_on", "value_rule"])
@pytest.mark.parametrize("says", [True, False])
def test_what_is_read_of_a_variable_travels_in_16_bits(
    register: Any, trait: str, says: bool
) -> None:
    register(Unary, **({trait: moving(0) if trait == "value_rule" else True} if says else {}))
    used = node("used", "Square", "c", device=WORKER)
    assert narrowed(on_ps("c", "Own", "v"), used) == (["c"] if says else [])


class Update(Op):
    inputs = "var: Ref(T), grad: T"
    outputs = "out: Ref(T)"
    attrs = T
    stateful = True

    def infer(self, node: Any) -> Any:
        return [node.shapes[0]]


@pytest.mark.parametrize("says", [True, False])
def test_applies_gradients(register: Any, says: bool) -> None:
    register(Update, applies_gradients=says)
    assert narrowed(on_ps("c", "Own", "v", "grad")) == (["grad"] if says else [])


@pytest.mark.parametrize("exact", [True, False])
@pytest.mark.parametrize("says", [True, False])
def test_tolerates_rounding(register: Any, says: bool, exact: bool) -> None:
    register(Unary, tolerates_rounding=says, exact_inputs=exact)
    update = on_ps("update", "ApplyGradientDescent", "v", "rate", "c")
    made = narrowed(const("rate", np.float32(1), device=PS), on_ps("c", "Own", "grad"), update)
    assert made == (["grad"] if says and not exact else [])


class Rows(Op):
    inputs = "table: Ref(T), ids: int64"
    outputs = "rows: T"
    attrs = T
    only_reads = True

    def infer(self, node: Any) -> Any:
        table, ids = node.shapes
        return [None if table is None or ids is None else (*ids, *table[1:])]


class SumsRows(Update):
    inputs = "var: Ref(T), rows: T, ids: int64"


def with_table(*nodes: Node) -> list[str]:
    """Returns the ops on rows in a graph for a table on a parameter server."""
    ids = node("ids", "_Arg", T=dtypes.int64, index=0, shape=(None,), device=WORKER)
    rows = node("rows", "_Arg", T=dtypes.float32, index=1, shape=(None, 64), device=WORKER)
    table = on_ps("v", "VariableV2", dtype=dtypes.float32, shape=(1000, 64))
    graph = Graph([ids, rows, table, *nodes])
    result = distinct_rows(graph, infer_types(graph))
    return sorted(n.op for n in result if n.op.endswith("Rows"))


@pytest.mark.parametrize("says", [True, False])
def test_looks_up_rows(register: Any, says: bool) -> None:
    register(Rows, looks_up_rows=says)
    used = node("used", "Square", "c", device=WORKER)
    made = with_table(on_ps("c", "Own", "v", "ids"), used)
    assert made == (["_DistinctRows", "_ExpandRows"] if says else [])


@pytest.mark.parametrize("says", [True, False])
def test_sums_rows(register: Any, says: bool) -> None:
    register(SumsRows, sums_rows=("rows", "ids") if says else None)
    made = with_table(on_ps("c", "Own", "v", "rows", "ids"))
    assert made == (["_DistinctRows", "_SumRows"] if says else [])

import numpy as np
import pytest

from sparkflow_runtime import dtypes
from sparkflow_runtime.ir.graph import Graph
from sparkflow_runtime.ir.node import Endpoint, Node
from sparkflow_runtime.ir.types import infer_types
from sparkflow_runtime.ops.kernel import KernelContext
from sparkflow_runtime.passes.moving_averages import moving_averages
from sparkflow_runtime.resources.container import Resources
from sparkflow_runtime.resources.variable import Variable
from support.graphs import const, node
from support.interpreter import interpret

F32 = dtypes.float32
PS = "/job:ps/replica:0/task:0/device:CPU:0"
WORKER = "/job:worker/replica:0/task:0/device:CPU:0"


def nodes(*, handle: bool = False, home: str = PS, value: tuple[int, ...] = (3,)) -> list[Node]:
    """The nodes of an update of an average of [3]."""
    made = "VarHandleOp" if handle else "VariableV2"
    read = node("read", "ReadVariableOp", "v", dtype=F32, device=PS)
    update = node("update", "AssignSubVariableOp", "v", "product", dtype=F32, device=PS)
    if not handle:
        read = node("read", "Identity", "v", device=PS)
        update = node("update", "AssignSub", "v", "product", device=PS)
    return [
        node("v", made, dtype=F32, shape=(3,), shared_name="v", device=PS),
        node("value", "_Arg", T=F32, index=0, shape=value, device=WORKER),
        const("rate", 0.25, device=PS),
        read,
        node("difference", "Sub", "read", "value", device=home),
        node("product", "Mul", "difference", "rate", device=home),
        update,
    ]


def run(given: list[Node]) -> Graph:
    graph = Graph(given)
    result = moving_averages(graph, infer_types(graph))
    infer_types(result)
    return result


@pytest.mark.parametrize("handle", [False, True])
def test_an_average_is_moved_by_one_op_with_the_same_bits(handle: bool) -> None:
    graph, result = Graph(nodes(handle=handle)), run(nodes(handle=handle))
    moved = result["update"]
    assert moved.op == ("ResourceApplyMovingAverage" if handle else "ApplyMovingAverage")
    assert moved.inputs == tuple(Endpoint(name, 0) for name in ("v", "rate", "value"))
    assert set(result.nodes) - {"read"} == {"v", "value", "rate", "update"}
    rng = np.random.default_rng(0)
    start, value = rng.normal(size=(2, 3)).astype(np.float32)
    after = []
    for each in (graph, result):
        resources = Resources()
        variable = Variable("v", F32, (3,))
        variable.array = start.copy()
        resources.put("", "v", variable)
        interpret(each.sorted(), KernelContext(np, "CPU", PS, resources, Resources()), [value])
        after.append(variable.read())
    np.testing.assert_array_equal(*after)
    assert (after[0] != start).all()


def changed(name: str, *others: Node) -> list[Node]:
    return [*(each for each in nodes() if each.name != name), *others]


OTHERS = {
    "the change is made elsewhere": nodes(home=WORKER),
    "the value is broadcast": nodes(value=(1,)),
    "a second update": [*nodes(), node("other", "AssignAdd", "v", "value", device=PS)],
    "the change is read": [*nodes(), node("other", "Neg", "product", device=PS)],
    "the difference is read": [*nodes(), node("other", "Neg", "difference", device=PS)],
    "the product waits": changed(
        "product",
        node("product", "Mul", "difference", "rate", after=("value",), device=PS),
    ),
    "another variable is read": changed(
        "read",
        node("w", "VariableV2", dtype=F32, shape=(3,), shared_name="w", device=PS),
        node("read", "Identity", "w", device=PS),
    ),
    "the rate is a vector": changed("rate", const("rate", [0.25, 0.5, 1.0], F32, device=PS)),
    "another update": changed("update", node("update", "AssignAdd", "v", "product", device=PS)),
}


@pytest.mark.parametrize("given", OTHERS.values(), ids=OTHERS)
def test_other_updates_stay(given: list[Node]) -> None:
    graph = Graph(given)
    assert moving_averages(graph, infer_types(graph)) is graph

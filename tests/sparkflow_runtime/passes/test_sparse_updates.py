import numpy as np
import pytest

from sparkflow_runtime import dtypes
from sparkflow_runtime.ir.graph import Graph
from sparkflow_runtime.ir.node import Endpoint, Node
from sparkflow_runtime.ir.types import infer_types
from sparkflow_runtime.ops.kernel import KernelContext
from sparkflow_runtime.passes.sparse_updates import sparse_updates
from sparkflow_runtime.resources.container import Resources
from sparkflow_runtime.resources.variable import Variable
from support.graphs import const, node
from support.interpreter import interpret

I32 = dtypes.int32
PS = "/job:ps/replica:0/task:0/device:CPU:0"
WORKER = "/job:worker/replica:0/task:0/device:CPU:0"


def added_up(*, device: str = PS, after: tuple[str, ...] = ()) -> list[Node]:
    """The nodes of an optimizer for the gradient `values` at `indices`."""
    return [
        node("values", "_Arg", T=dtypes.float32, index=0, shape=(None, 2), device=device),
        node("indices", "_Arg", T=I32, index=1, shape=(None,), device=device),
        node("start", "NoOp", device=device),
        node("unique", "Unique", "indices", T=I32, device=device),
        node("shape", "Shape", "unique", T=I32, device=device),
        *[const(n, [i], I32, device=device) for n, i in (("b", 0), ("e", 1), ("s", 1))],
        node(
            *("count", "StridedSlice", "shape", "b", "e", "s"),
            T=I32,
            Index=I32,
            shrink_axis_mask=1,
            device=device,
        ),
        node(
            *("total", "UnsortedSegmentSum", "values", "unique:1", "count"),
            after=after,
            Tindices=I32,
            device=device,
        ),
    ]


def update(op: str = "SparseApplyAdagrad") -> list[Node]:
    handles = op.startswith("Resource")
    make = "VarHandleOp" if handles else "VariableV2"
    slots = ["accum", "linear"] if "Ftrl" in op else ["accum"]
    held = [node(n, make, dtype=dtypes.float32, shape=(6, 2), device=PS) for n in ("v", *slots)]
    numbers = [const(f"n{i}", value, device=PS) for i, value in enumerate((0.5, 0.1, 0.1, -0.5))]
    if "Ftrl" in op:
        inputs = ["v", *slots, "total", "unique", "n0", "n1", "n2", "n3"]
    elif "Momentum" in op:
        inputs = ["v", *slots, "n0", "total", "unique", "n1"]
    else:
        inputs = ["v", *slots, "n0", "total", "unique"]
    return [*held, *numbers, node("update", op, *inputs, Tindices=I32, device=PS)]


@pytest.mark.parametrize(
    "op",
    [
        *("SparseApplyAdagrad", "SparseApplyMomentum", "SparseApplyFtrl"),
        *("ResourceSparseApplyAdagrad", "ResourceSparseApplyMomentum"),
    ],
)
def test_an_update_adds_rows_up_itself_and_gives_the_same(op: str) -> None:
    graph = Graph([*added_up(), *update(op)])
    result = sparse_updates(graph)
    infer_types(result)
    taken = result["update"].inputs
    assert Endpoint("values", 0) in taken
    assert Endpoint("indices", 0) in taken
    assert not {"unique", "total", "shape", "count", "b"} & result.nodes.keys()
    rng = np.random.default_rng(0)
    values = rng.normal(size=(9, 2)).astype(np.float32)
    indices = np.array([3, 1, 3, 3, 0, 1, 5, 3, 0], np.int32)
    states = []
    for each in (graph, result):
        resources = Resources()
        for name in ("v", "accum", "linear"):
            variable = Variable(name, dtypes.float32, (6, 2))
            variable.array = np.full((6, 2), 0.25, np.float32)
            resources.put("", name, variable)
        context = KernelContext(np, "CPU", PS, resources, Resources())
        interpret(each.sorted(), context, [values, indices])
        states.append([resources.get("", n, Variable).read() for n in ("v", "accum", "linear")])
    for after, before in zip(*states, strict=True):
        np.testing.assert_allclose(after, before, rtol=1e-6)
    assert (states[0][0] != 0.25).any()


OTHERS = {
    "the sum has another reader": [
        *[*added_up(), *update(), node("other", "Neg", "total", device=PS)]
    ],
    "the sum is sent": [*added_up(device=WORKER), *update()],
    "the sum waits": [*added_up(after=("start",)), *update()],
    "the update is of another kind": [
        *[*added_up(), *update()[:-1]],
        node("update", "ScatterSub", "v", "unique", "total", Tindices=I32, device=PS),
    ],
    "the rows are others": [
        *[*added_up(), *update()[:-1]],
        node("others", "Unique", "indices", T=I32, device=PS, after=["start"]),
        node(
            *("update", "SparseApplyAdagrad", "v", "accum", "n0", "total", "others"),
            Tindices=I32,
            device=PS,
        ),
    ],
    "the number of rows is given": [
        *[each for each in added_up() if each.name not in ("count", "total")],
        const("count", 9, I32, device=PS),
        node(
            *("total", "UnsortedSegmentSum", "values", "unique:1", "count"),
            Tindices=I32,
            device=PS,
        ),
        *update(),
    ],
    "no update": added_up(),
}


@pytest.mark.parametrize("case", OTHERS)
def test_elsewhere_the_graph_is_the_same_object(case: str) -> None:
    graph = Graph(OTHERS[case])
    assert sparse_updates(graph) is graph


def test_distinct_indices_stay_for_other_readers() -> None:
    graph = Graph([*added_up(), *update(), node("other", "Size", "unique", T=I32, device=PS)])
    result = sparse_updates(graph)
    assert "total" not in result
    assert "unique" in result

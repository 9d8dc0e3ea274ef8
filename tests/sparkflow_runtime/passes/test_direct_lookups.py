import numpy as np
import pytest

from sparkflow_runtime import dtypes
from sparkflow_runtime.dtypes import DType
from sparkflow_runtime.ir.graph import Graph
from sparkflow_runtime.ir.node import Endpoint, Node
from sparkflow_runtime.ir.types import infer_types
from sparkflow_runtime.ops.kernel import KernelContext
from sparkflow_runtime.passes.direct_lookups import direct_lookups
from sparkflow_runtime.resources.container import Resources
from support.graphs import const, node
from support.interpreter import interpret

F32, I32, I64 = dtypes.float32, dtypes.int32, dtypes.int64
PS = "/job:ps/replica:0/task:0/device:CPU:0"
WORKER = "/job:worker/replica:0/task:0/device:CPU:0"


def combined(
    op: str = "SparseSegmentMean", *, ids: DType = I64, home: str = PS, axis: int = 0
) -> list[Node]:
    """The nodes of `embedding_lookup_sparse`, and of its gradient."""
    return [
        node("ids", "_Arg", T=ids, index=0, shape=(None,), device=home),
        node("segments", "_Arg", T=I32, index=1, shape=(None,), device=home),
        node("table", "_Arg", T=F32, index=2, shape=(9, 2), device=PS),
        node("unique", "Unique", "ids", T=ids, device=home),
        const("axis", axis, I32, device=PS),
        node("rows", "GatherV2", "table", "unique", "axis", Tindices=ids, Taxis=I32, device=PS),
        node("same", "Identity", "rows", device=home),
        node("combined", op, "same", "unique:1", "segments", Tidx=I32, device=home),
        node("shape", "Shape", "same", device=home),
        *[const(n, [i], I32, device=home) for n, i in (("b", 0), ("e", 1), ("s", 1))],
        node(
            *("number", "StridedSlice", "shape", "b", "e", "s"),
            T=I32,
            Index=I32,
            shrink_axis_mask=1,
            device=home,
        ),
        node(
            *("back", f"{op}Grad", "combined", "unique:1", "segments", "number"),
            Tidx=I32,
            device=home,
        ),
    ]


def updated(*after: str, by: str = "step") -> list[Node]:
    """The nodes of a variable for the table, and of an update of it."""
    return [
        node("v", "VariableV2", dtype=F32, shape=(9, 2), device=PS),
        node("table", "Identity", "v", device=PS),
        node("step", "_Arg", T=F32, index=2, shape=(9, 2), device=PS),
        node("update", "AssignSub", "v", by, after=after, device=PS),
    ]


def with_variable(*update: Node) -> Graph:
    return Graph([*update, *(each for each in combined() if each.name != "table")])


def is_direct(graph: Graph) -> bool:
    result = direct_lookups(graph)
    infer_types(result)
    taken = result["combined"].inputs[:2] == (Endpoint("table", 0), Endpoint("ids", 0))
    assert taken or result is graph
    return taken


@pytest.mark.parametrize("ids", [I32, I64])
@pytest.mark.parametrize("op", ["SparseSegmentSum", "SparseSegmentMean", "SparseSegmentSqrtN"])
def test_a_table_is_combined_directly_with_the_same_results(op: str, ids: DType) -> None:
    fetches = [
        node(f"fetch{i}", "_Retval", name, T=F32, index=i, device=PS)
        for i, name in enumerate(("combined", "back"))
    ]
    graph = Graph([*combined(op, ids=ids), *fetches])
    result = direct_lookups(graph)
    infer_types(result)
    assert not {"rows", "same", "axis", "shape"} & result.nodes.keys()
    rng = np.random.default_rng(0)
    args = [
        rng.integers(0, 9, 12).astype(ids.as_numpy_dtype),
        np.sort(rng.integers(0, 5, 12)).astype(np.int32),
        rng.normal(size=(9, 2)).astype(np.float32),
    ]
    found = []
    for each in (graph, result):
        context = KernelContext(np, "CPU", PS, Resources(), Resources())
        found.append(interpret(each.sorted(), context, args))
    for index in (0, 1):
        np.testing.assert_array_equal(found[0][index], found[1][index])


def test_rows_travel_not_the_table() -> None:
    assert not is_direct(Graph(combined(home=WORKER)))


def test_lookups_along_another_dimension_stay() -> None:
    assert not is_direct(Graph(combined(axis=1)))


@pytest.mark.parametrize(
    "reader",
    [
        node("used", "Square", "rows", device=PS),
        node("used", "Square", "same", device=PS),
        node("used", "Identity", "shape", T=I32, device=PS),
        node("used", "NoOp", after=("rows",), device=PS),
        node("used", "Rank", "same", device=PS),
    ],
    ids=["rows", "same", "whole shape", "after", "rank"],
)
def test_rows_that_are_needed_elsewhere_stay(reader: Node) -> None:
    assert is_direct(Graph(combined()))
    assert not is_direct(Graph([*combined(), reader]))


def test_other_places_of_the_rows_stay() -> None:
    """The segments' rows are not those of the distinct ids."""
    nodes = combined()
    other = node("places", "_Arg", T=I32, index=3, shape=(None,), device=PS)
    changed = [
        node(*("combined", "SparseSegmentMean", "same", "places", "segments"), Tidx=I32, device=PS)
        if each.name == "combined"
        else each
        for each in nodes
    ]
    assert not is_direct(Graph([other, *changed]))


def test_a_variable_is_read_before_its_updates() -> None:
    assert is_direct(with_variable(*updated(by="step")[:2]))
    assert is_direct(with_variable(*updated("back")))
    assert is_direct(with_variable(*updated("combined")))
    assert not is_direct(with_variable(*updated()))
    assert not is_direct(with_variable(*updated("number")))
    assert not is_direct(with_variable(*updated("unique")))

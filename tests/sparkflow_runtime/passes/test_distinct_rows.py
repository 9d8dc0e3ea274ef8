import numpy as np
import pytest

from sparkflow_runtime import dtypes
from sparkflow_runtime.ir.graph import Graph
from sparkflow_runtime.ir.node import Endpoint, Node
from sparkflow_runtime.ir.types import infer_types
from sparkflow_runtime.passes.distinct_rows import distinct_rows
from support.graphs import const, node

I64, F32, I32 = dtypes.int64, dtypes.float32, dtypes.int32
PS = "/job:ps/replica:0/task:0/device:CPU:0"
WORKER = "/job:worker/replica:0/task:0/device:CPU:0"
GPU = "/job:worker/replica:0/task:0/device:GPU:0"


def lookup(*, home: str = WORKER, table_on: str = PS, columns: int = 64, axis: int = 0) -> Graph:
    """Rows of a table at `ids`, and an update of the table with `values` for them."""
    return Graph(
        [
            node("ids", "_Arg", T=I64, index=0, shape=(None, 3), device=home),
            node("values", "_Arg", T=F32, index=1, shape=(None, columns), device=home),
            const("flat_shape", [-1], I32, device=home),
            node("flat", "Reshape", "ids", "flat_shape", T=I64, Tshape=I32, device=home),
            node("v", "VariableV2", dtype=F32, shape=(1000, columns), device=table_on),
            node("accum", "VariableV2", dtype=F32, shape=(1000, columns), device=table_on),
            const("axis", axis, I32, device=table_on),
            node("rows", "GatherV2", "v", "ids", "axis", Tindices=I64, Taxis=I32, device=table_on),
            node("used", "Square", "rows", device=home),
            const("rate", 0.5, device=table_on),
            node(
                *("update", "SparseApplyAdagrad", "v", "accum", "rate", "values", "flat"),
                Tindices=I64,
                device=table_on,
            ),
        ]
    )


def run(graph: Graph) -> Graph:
    result = distinct_rows(graph, infer_types(graph))
    infer_types(result)
    return result


def ops(graph: Graph) -> list[str]:
    return sorted(each.op for each in graph if each.op.startswith("_") and each.op != "_Arg")


def test_a_lookup_and_its_gradient_share_distinct_ids() -> None:
    result = run(lookup())
    assert ops(result) == ["_DistinctRows", "_ExpandRows", "_SumRows"]
    distinct = next(each for each in result if each.op == "_DistinctRows")
    asked = Endpoint(distinct.name, 0)
    assert result["rows"].inputs[1] == asked
    assert result["update"].inputs[4] == asked
    assert result[result["update"].inputs[3].node].op == "_SumRows"
    assert result[result["used"].inputs[0].node].op == "_ExpandRows"
    assert {each.device for each in result if each.op in ops(result)} == {WORKER}
    assert "flat" not in result


@pytest.mark.parametrize(
    "graph",
    [
        lookup(table_on=WORKER),
        lookup(columns=8),
        lookup(home=GPU),
        lookup(table_on=GPU),
    ],
    ids=["one task", "short rows", "ids on a GPU", "one host"],
)
def test_what_gains_nothing_stays(graph: Graph) -> None:
    assert distinct_rows(graph, infer_types(graph)) is graph


def test_rows_read_beside_the_table_stay_as_they_are() -> None:
    nodes = [
        Node(n.name, n.op, n.inputs, n.control_inputs, PS, n.attrs) if n.name == "used" else n
        for n in lookup()
    ]
    assert ops(run(Graph(nodes))) == ["_DistinctRows", "_SumRows"]


def test_columns_are_no_rows() -> None:
    graph = Graph(n for n in lookup(axis=1) if n.name in {"ids", "v", "axis", "rows", "used"})
    assert run(graph) is graph


@pytest.mark.parametrize("op", ["ScatterSub", "ScatterAdd"])
def test_scattered_rows_are_added_up_before_they_travel(op: str) -> None:
    nodes = [n for n in lookup() if n.name not in {"rate", "accum", "update", "used", "rows"}]
    nodes.append(node("update", op, "v", "flat", "values", Tindices=I64, device=PS))
    result = run(Graph(nodes))
    assert ops(result) == ["_DistinctRows", "_SumRows"]


def added_up(also_read: bool = False) -> Graph:
    """The nodes of an optimizer for an update that needs each id once."""
    nodes = [n for n in lookup() if n.name in {"ids", "values", "flat_shape", "flat"}]
    nodes += [
        node("unique", "Unique", "flat", T=I64, device=PS),
        node("count", "Size", "unique", T=I64, device=PS),
        node(
            *("total", "UnsortedSegmentSum", "values", "unique:1", "count"),
            Tindices=I32,
            device=PS,
        ),
    ]
    if also_read:
        nodes.append(node("places", "Identity", "unique:1", T=I32, device=PS))
    return Graph(nodes)


def test_sums_on_the_server_get_rows_added_up() -> None:
    result = run(added_up())
    assert ops(result) == ["_DistinctRows", "_SumRows"]
    assert result[result["unique"].inputs[0].node].op == "_DistinctRows"
    assert result[result["total"].inputs[0].node].op == "_SumRows"


def test_places_that_somebody_reads_must_stay() -> None:
    graph = added_up(also_read=True)
    assert run(graph) is graph


def test_ids_that_are_distinct_are_not_told_apart_again() -> None:
    graph = lookup()
    nodes = [n for n in graph if n.name not in {"rows", "used", "update", "axis"}]
    nodes += [
        node("own", "Unique", "flat", T=I64, device=WORKER),
        const("axis", 0, I32, device=PS),
        node("rows", "GatherV2", "v", "own", "axis", Tindices=I64, Taxis=I32, device=PS),
        node("used", "Square", "rows", device=WORKER),
    ]
    graph = Graph(nodes)
    assert run(graph) is graph


def test_several_tables_share_the_distinct_ids() -> None:
    graph = lookup()
    other = [
        Node(
            f"{n.name}2",
            n.op,
            tuple(
                Endpoint(f"{e.node}2", e.slot) if e.node in {"v", "rows"} else e for e in n.inputs
            ),
            (),
            n.device,
            n.attrs,
        )
        for n in graph
        if n.name in {"v", "rows", "used"}
    ]
    result = run(Graph([*graph, *other]))
    assert ops(result) == ["_DistinctRows", "_ExpandRows", "_ExpandRows", "_SumRows"]


def test_types_are_found_whatever_the_ids_look_like() -> None:
    result = run(lookup())
    types = infer_types(result)
    expanded = next(n.name for n in result if n.op == "_ExpandRows")
    assert types[Endpoint(expanded, 0)].shape == (None, 3, 64)
    assert np.dtype(types[Endpoint(expanded, 0)].dtype.numpy) == np.float32


def meeting(**attrs: object) -> Graph:
    """A replica's dense and sparse gradient, sent to those of other replicas."""
    nodes = [n for n in lookup() if n.name in {"ids", "values", "flat_shape", "flat"}]
    return Graph(
        [
            *nodes,
            node("dense", "_Arg", T=F32, index=2, shape=(100,), device=WORKER),
            node("rounds", "GradientRounds", device=PS),
            node("ready", "Const", dtype=dtypes.bool_, value=np.array(True), device=PS),
            node("step", "Const", dtype=I64, value=np.array(-1), device=PS),
            const("weight", 1.0, device=PS),
            node(
                *("meet", "GradientRoundsMeet", "rounds", "ready", "step", "weight", "dense"),
                *("flat", "values"),
                dense_types=[F32],
                index_types=[I64],
                value_types=[F32],
                device=PS,
                **attrs,
            ),
        ]
    )


def test_rows_that_meet_those_of_other_replicas_are_added_up_first() -> None:
    result = run(meeting())
    assert ops(result) == ["_DistinctRows", "_SumRows"]
    dense, ids, values = result["meet"].inputs[4:]
    assert dense == Endpoint("dense", 0)
    assert [result[each.node].op for each in (ids, values)] == ["_DistinctRows", "_SumRows"]

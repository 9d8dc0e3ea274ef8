import numpy as np
import pytest

from sparkflow_runtime import dtypes
from sparkflow_runtime.ir.graph import Graph
from sparkflow_runtime.ir.node import Node
from sparkflow_runtime.ir.types import infer_types
from sparkflow_runtime.passes.partitioning.wire_dtypes import GRADIENTS_OF, WIRE_ATTR, wire_dtypes
from support.graphs import const, node

F32, I64 = dtypes.float32, dtypes.int64
PS = "/job:ps/replica:0/task:0/device:CPU:0"
PS_GPU = "/job:ps/replica:0/task:0/device:GPU:0"
WORKER = "/job:worker/replica:0/task:0/device:CPU:0"


def variable(name: str, wire: dtypes.DType | None = None) -> Node:
    attrs = {} if wire is None else {WIRE_ATTR: wire}
    return node(name, "VariableV2", dtype=F32, shape=(8, 4), device=PS, **attrs)


def run(graph: Graph) -> Graph:
    result = wire_dtypes(graph, infer_types(graph), graph)
    infer_types(result)
    return result


def casts(graph: Graph) -> list[tuple[str, str]]:
    """Returns (source, device) of each cast that narrows."""
    return sorted(
        (str(n.inputs[0]), n.device[5:7])
        for n in graph
        if n.op == "Cast" and n.attrs["DstT"] is not F32
    )


def test_what_is_read_is_narrow_on_the_way_and_wide_where_it_arrives() -> None:
    graph = Graph(
        [
            variable("v", dtypes.bfloat16),
            node("read", "Identity", "v", device=PS),
            node("here", "Square", "read", device=PS),
            node("there", "Square", "read", device=WORKER),
            node("again", "Neg", "read", device=WORKER),
        ]
    )
    result = run(graph)
    assert casts(result) == [("read:0", "ps")]
    wide = result["there"].inputs[0]
    assert result["again"].inputs[0] == wide
    assert result[wide.node].device == WORKER
    assert result[wide.node].attrs["DstT"] is F32
    assert str(result["here"].inputs[0]) == "read:0"


@pytest.mark.parametrize("wire", [None, dtypes.float16])
def test_what_stays_on_a_task_stays_as_it_is(wire: dtypes.DType | None) -> None:
    home = WORKER if wire is None else PS_GPU
    graph = Graph([variable("v", wire), node("used", "Square", "v", device=home)])
    assert run(graph) is graph


def test_a_variable_read_elsewhere_is_read_when_its_reader_runs() -> None:
    graph = Graph(
        [
            variable("v", dtypes.float16),
            node("first", "NoOp", device=PS),
            node("used", "Square", "v", after=("first",), device=WORKER),
        ]
    )
    result = run(graph)
    (narrow,) = (n for n in result if n.op == "Cast" and n.device == PS)
    assert narrow.control_inputs == ("first",)


def test_gradients_are_narrow_through_what_the_server_does_with_them() -> None:
    graph = Graph(
        [
            variable("v", dtypes.bfloat16),
            variable("other"),
            node("grad", "_Arg", T=F32, index=0, shape=(8, 4), device=WORKER),
            node("plain", "_Arg", T=F32, index=1, shape=(8, 4), device=WORKER),
            node("rate", "_Arg", T=F32, index=2, shape=(), device=WORKER),
            node("halved", "Mul", "grad", "rate", device=PS),
            node("update", "ApplyGradientDescent", "v", "rate", "halved", device=PS),
            node("apart", "ApplyGradientDescent", "other", "rate", "plain", device=PS),
        ]
    )
    assert casts(run(graph)) == [("grad:0", "wo")]


def test_gradients_of_replicas_are_narrow_where_they_meet() -> None:
    graph = Graph(
        [
            variable("table", dtypes.bfloat16),
            variable("kernel", dtypes.float16),
            variable("other"),
            *[
                node(name, "_Arg", T=F32, index=i, shape=(None, 4), device=WORKER)
                for i, name in enumerate(("d_kernel", "d_other", "d_table"))
            ],
            node("ids", "_Arg", T=I64, index=3, shape=(None,), device=WORKER),
            node("rounds", "GradientRounds", device=PS),
            node("ready", "Const", dtype=dtypes.bool_, value=np.array(True), device=PS),
            node("step", "Const", dtype=I64, value=np.array(-1), device=PS),
            const("weight", 1.0, device=PS),
            node(
                *("meet", "GradientRoundsMeet", "rounds", "ready", "step", "weight"),
                *("d_kernel", "d_other", "ids", "d_table"),
                dense_types=[F32, F32],
                index_types=[I64],
                value_types=[F32],
                device=PS,
                **{GRADIENTS_OF: ["kernel", "other", "table"]},
            ),
        ]
    )
    result = run(graph)
    narrowed = {
        str(n.inputs[0]): n.attrs["DstT"] for n in result if n.op == "Cast" and n.device == WORKER
    }
    assert narrowed == {"d_kernel:0": dtypes.float16, "d_table:0": dtypes.bfloat16}


def test_what_is_saved_elsewhere_is_whole() -> None:
    texts = [
        node(name, "Const", dtype=dtypes.string, value=np.array(value, object), device=WORKER)
        for name, value in (("path", b"p"), ("names", [b"v"]), ("slices", [b""]))
    ]
    graph = Graph(
        [
            variable("v", dtypes.float16),
            *texts,
            node("save", "SaveV2", "path", "names", "slices", "v", dtypes=[F32], device=WORKER),
        ]
    )
    assert run(graph) is graph

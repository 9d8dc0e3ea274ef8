import numpy as np
import pytest

from sparkflow_runtime import dtypes
from sparkflow_runtime.errors import InvalidArgumentError
from sparkflow_runtime.ir.graph_def import (
    MAX_NAME_BYTES,
    export_graph,
    export_node,
    import_graph,
    import_node,
)
from sparkflow_runtime.ir.node import Endpoint, Node
from sparkflow_runtime.protos.graph_pb2 import GraphDef
from sparkflow_runtime.protos.node_def_pb2 import NodeDef
from support.graphs import const, node, placeholder, variable


def test_nodes_survive_the_trip() -> None:
    nodes = [
        placeholder("x", (None, 3)),
        placeholder("unknown"),
        const("c", [[1, 2]], dtypes.int64),
        variable("v", (3,), device="/job:ps"),
        node("m", "MatMul", "x", "c:0", after=["v"], transpose_b=True, _source="a.py:1"),
        node("r", "Reshape", "m", "c", Tshape=dtypes.int64, _class=["loc:@m"]),
        node("p", "Pack", "m", "r", N=2, axis=-1),
    ]
    back = import_graph(GraphDef.FromString(export_graph(nodes).SerializeToString()))
    for before, after in zip(nodes, back, strict=True):
        assert (after.name, after.op, after.inputs) == (before.name, before.op, before.inputs)
        assert after.control_inputs == before.control_inputs
        assert after.device == before.device
        assert after.attrs.keys() == before.attrs.keys()
        for key, value in before.attrs.items():
            np.testing.assert_array_equal(after.attrs[key], value, strict=True) if isinstance(
                value, np.ndarray
            ) else _same(after.attrs[key], value)


def _same(a: object, b: object) -> None:
    assert a == b
    assert type(a) is type(b)


def test_nodes_of_unknown_types_survive_the_trip() -> None:
    attrs = {
        "i": 1,
        "f": 0.5,
        "b": True,
        "s": "text",
        "t": dtypes.int8,
        "shape": (1, None),
        "rank": None,
        "li": [1, 2],
        "lt": [dtypes.bool_],
        "ls": ["a", "b"],
        "lshape": [(1,), None],
        "empty": [],
    }
    back = import_node(export_node(Node("n", "Elsewhere", (Endpoint("a", 1),), ("b",), "", attrs)))
    assert back == Node("n", "Elsewhere", (Endpoint("a", 1),), ("b",), "", attrs)


def test_defaults_are_filled_in() -> None:
    proto = NodeDef(name="m", op="MatMul", input=["a", "b"])
    proto.attr["T"].type = 1  # type: ignore[assignment]
    attrs = import_node(proto).attrs
    assert (attrs["T"], attrs["transpose_a"]) == (dtypes.float32, False)


def _proto(**fields: object) -> NodeDef:
    proto = NodeDef(**{"name": "n", "op": "NoOp", **fields})  # type: ignore[arg-type]
    return proto


@pytest.mark.parametrize(
    ("proto", "text"),
    [
        (_proto(name=""), "A node name must have 1 to"),
        (_proto(name="n" * (MAX_NAME_BYTES + 1)), "A node name must have 1 to"),
        (_proto(device="/" * (MAX_NAME_BYTES + 1)), "a device name of 4097 characters"),
        (_proto(input=["a:b"]), "'a:b' does not name a tensor"),
        (_proto(op="MatMul"), "MatMul needs a value for its attribute 'T'"),
    ],
)
def test_unreadable_nodes_are_named(proto: NodeDef, text: str) -> None:
    with pytest.raises(InvalidArgumentError, match=text):
        import_node(proto)


def test_attributes_of_a_wrong_kind_are_refused() -> None:
    proto = export_node(node("m", "MatMul", "a", "b"))
    proto.attr["transpose_a"].s = b"yes"
    with pytest.raises(InvalidArgumentError, match=r"takes bool, got 'yes'\n.*'m' \(MatMul\)"):
        import_node(proto)
    proto = export_node(node("p", "Unpack", "a", num=2))
    proto.attr["num"].f = float("inf")
    with pytest.raises(InvalidArgumentError, match="takes int, got inf"):
        import_node(proto)
    proto = export_node(node("m", "MatMul", "a", "b"))
    proto.attr["T"].type = 99  # type: ignore[assignment]
    with pytest.raises(InvalidArgumentError, match="Unknown dtype number 99"):
        import_node(proto)
    proto.attr["T"].Clear()
    with pytest.raises(InvalidArgumentError, match="without a value"):
        import_node(proto)


def test_a_name_twice_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="Node 'n' is not unique"):
        import_graph(GraphDef(node=[_proto(), _proto()]))

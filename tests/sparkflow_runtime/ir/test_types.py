import numpy as np
import pytest

from sparkflow_runtime import dtypes
from sparkflow_runtime.errors import InvalidArgumentError, NotFoundError, OpError
from sparkflow_runtime.ir.graph import Graph
from sparkflow_runtime.ir.node import Endpoint, Node
from sparkflow_runtime.ir.types import TensorType, infer_types
from support.graphs import const, node, placeholder, variable


def test_types_of_every_output() -> None:
    types = infer_types(
        Graph(
            [
                placeholder("x", (None, 3)),
                const("w", [[1.0]] * 3),
                node("y", "MatMul", "x", "w"),
                variable("v", (2,)),
                node("parts", "Unpack", "x", num=3, axis=1),
                const("shape", [-1], dtypes.int32),
                node("flat", "Reshape", "w", "shape", Tshape=dtypes.int32),
            ]
        )
    )
    assert types[Endpoint("y", 0)] == TensorType(dtypes.float32, (None, 1))
    assert types[Endpoint("v", 0)] == TensorType(dtypes.float32.ref, (2,))
    assert [types[Endpoint("parts", i)].shape for i in range(3)] == [(None,)] * 3
    assert types[Endpoint("flat", 0)].shape == (3,)  # known from the constant


def test_known_types_are_not_computed_again() -> None:
    graph = Graph([placeholder("x", (1,)), node("y", "Identity", "x")])
    known = {Endpoint("x", 0): TensorType(dtypes.float32, (7,))}
    assert infer_types(graph, known)[Endpoint("y", 0)].shape == (7,)


@pytest.mark.parametrize(
    ("bad", "error", "text"),
    [
        (node("y", "MatMul", "x", "x"), InvalidArgumentError, r"\[2,3\], \[2,3\]"),
        (node("y", "AddV2", "x"), InvalidArgumentError, "AddV2 takes 2 inputs, the node has 1"),
        (node("y", "AddV2", "x", "i"), InvalidArgumentError, "i:0 has type int32, expected float"),
        (node("y", "Identity", "x:1"), InvalidArgumentError, "Input x:1 does not exist"),
        (node("y", "AssignAdd", "x", "x"), InvalidArgumentError, "expected float32_ref"),
        (
            node("y", "Const", dtype=dtypes.bfloat16, value=np.zeros(1, np.float32)),
            InvalidArgumentError,
            "bfloat16",
        ),
        (Node("y", "Nonsense"), NotFoundError, "'Nonsense' is not registered"),
        (node("y", "Pack", "x", N=0), InvalidArgumentError, "shorter than minimum length 1"),
        (node("y", "Pack", "x", N=1 << 40), InvalidArgumentError, "a list of 1099511627776"),
        (
            node("y", "MatMul", "b", "b", T=dtypes.bool_),
            InvalidArgumentError,
            "not in list of allowed",
        ),
    ],
)
def test_untypable_nodes_are_named(bad: Node, error: type[OpError], text: str) -> None:
    bad = Node(bad.name, bad.op, bad.inputs, attrs={**bad.attrs, "_source": "model.py:12"})
    graph = Graph(
        [
            const("x", [[1, 2, 3], [4, 5, 6]]),
            const("i", [[1] * 3] * 2, dtypes.int32),
            const("b", [[True]], dtypes.bool_),
            bad,
        ]
    )
    with pytest.raises(error, match=text) as info:
        infer_types(graph)
    assert f"[[node 'y' ({bad.op}), defined at model.py:12]]" in str(info.value)

import numpy as np
import pytest

from sparkflow_runtime import dtypes
from sparkflow_runtime.errors import InvalidArgumentError
from sparkflow_runtime.ir.function import Function, called
from sparkflow_runtime.ir.function_def import export_function, import_function
from sparkflow_runtime.ir.graph import Graph
from sparkflow_runtime.ir.node import Endpoint, Node


def example():
    """Two arguments, one a variable; the second part of a split, and the variable itself."""
    value = np.asarray(0, np.int32)
    return Function(
        "example",
        Graph(
            [
                Node("x", "_Arg", attrs={"T": dtypes.float32, "index": 0, "shape": (None, 3)}),
                Node("v", "_Arg", attrs={"T": dtypes.float32.ref, "index": 1, "shape": None}),
                Node("axis", "Const", attrs={"value": value, "dtype": dtypes.int32}),
                Node(
                    "parts",
                    "Split",
                    (Endpoint("axis", 0), Endpoint("x", 0)),
                    attrs={"num_split": 2, "T": dtypes.float32},
                ),
                Node("wait", "NoOp", control_inputs=("parts",)),
                Node(
                    "r0",
                    "_Retval",
                    (Endpoint("parts", 1),),
                    attrs={"T": dtypes.float32, "index": 0},
                ),
                Node(
                    "r1",
                    "_Retval",
                    (Endpoint("v", 0),),
                    attrs={"T": dtypes.float32.ref, "index": 1},
                ),
            ]
        ),
        targets=("wait",),
        taped=("parts:0",),
    )


def test_a_function_survives_the_trip():
    function = example()
    again = import_function(export_function(function))
    assert again.name == "example"
    assert again.targets == ("wait",)
    assert again.taped == ("parts:0",)
    assert {node.name for node in again.body} == {node.name for node in function.body}
    for node in function.body:
        other = again.body[node.name]
        assert (other.op, other.inputs, other.control_inputs) == (
            node.op,
            node.inputs,
            node.control_inputs,
        )
    assert again.body["x"].attrs["shape"] == (None, 3)
    assert again.body["v"].attrs["T"].is_ref
    assert again.body["r1"].attrs["T"].is_ref


def test_inputs_are_written_as_tensorflow_writes_them():
    proto = export_function(example())
    assert [arg.name for arg in proto.signature.input_arg] == ["x", "v"]
    assert proto.signature.input_arg[1].is_ref
    assert proto.ret == {"r0": "parts:output:1", "r1": "v"}
    split = next(node for node in proto.node_def if node.name == "parts")
    assert list(split.input) == ["axis:output:0", "x"]


def test_an_input_that_does_not_exist_is_named():
    proto = export_function(example())
    proto.node_def[1].input[1] = "missing:output:0"
    with pytest.raises(InvalidArgumentError, match="reads 'missing:output:0', which it lacks"):
        import_function(proto)


def test_names_must_not_repeat():
    proto = export_function(example())
    proto.node_def.append(proto.node_def[0])
    with pytest.raises(InvalidArgumentError, match="two nodes 'axis'"):
        import_function(proto)


def test_called_functions_are_found_in_lists_too():
    case = Node("c", "Case", attrs={"branches": ["a", "b"], "Tin": [], "Tout": []})
    assert list(called(case)) == ["a", "b"]

"""Which parts of a partition may continue while another one waits."""

import pytest

from sparkflow_runtime.compiler.concurrent import cut
from sparkflow_runtime.dtypes import float32
from sparkflow_runtime.ir.function import Function
from sparkflow_runtime.ir.graph import Graph
from sparkflow_runtime.ir.node import Endpoint, Node
from sparkflow_runtime.ir.strands import (
    are_ordered,
    find_classes,
    found_beside_readers,
    in_order_of_classes,
    may_block,
)

BLOCKS = may_block({})
TYPES = {"T": float32}


def queue(name):
    attrs = {"component_types": [float32], "shapes": [()], "capacity": 3}
    return Node(name, "FIFOQueueV2", attrs={**attrs, "container": "", "shared_name": ""})


def take(name, source, *control):
    attrs = {"component_types": [float32], "timeout_ms": -1}
    return Node(name, "QueueDequeueV2", (Endpoint(source, 0),), control, attrs=attrs)


def compute(name, *inputs, op="Neg", control=()):
    return Node(name, op, tuple(Endpoint(each, 0) for each in inputs), control, attrs=TYPES)


def variable(name="v"):
    attrs = {"shape": (), "dtype": float32, "container": "", "shared_name": ""}
    return Node(name, "VariableV2", attrs=attrs)


def fetch(name, source, index=0):
    return Node(name, "_Retval", (Endpoint(source, 0),), attrs={"T": float32, "index": index})


def classes_of(*nodes):
    found = find_classes(nodes, BLOCKS)
    return None if found is None else {name: set(each) for name, each in found.items()}


def test_nothing_that_waits_has_no_classes():
    assert classes_of(variable(), compute("read", "v", op="Identity")) is None


def test_a_class_is_what_may_wait_before_a_node():
    found = classes_of(
        queue("q"), take("a", "q"), take("b", "q", "a"), compute("x", "a"), compute("y", "b")
    )
    assert found["a"] == found["x"] == {"a"}
    assert found["b"] == found["y"] == {"a", "b"}


def test_what_only_computes_is_beside_its_readers():
    nodes = [
        variable(),
        compute("read", "v", op="Identity"),
        compute("minus", "read"),
        queue("q"),
        take("a", "q"),
        compute("sum", "minus", "a", op="AddV2"),
    ]
    found = classes_of(*nodes)
    assert found["read"] == found["minus"] == found["sum"] == {"a"}
    assert [n.name for n in found_beside_readers(nodes, BLOCKS)] == ["v", "read", "minus", "q"]


def test_what_is_fetched_as_well_is_not_moved():
    nodes = [
        variable(),
        compute("read", "v", op="Identity"),
        fetch("fetch", "read"),
        queue("q"),
        take("a", "q"),
        compute("sum", "read", "a", op="AddV2"),
    ]
    assert classes_of(*nodes)["read"] == set()
    assert found_beside_readers(nodes, BLOCKS) == []


def test_a_read_is_not_moved_past_an_update():
    update = Node("update", "AssignAdd", (Endpoint("v", 0), Endpoint("one", 0)), attrs={**TYPES})
    one = compute("one", "read")
    nodes = [
        variable(),
        compute("read", "v", op="Identity"),
        one,
        update,
        queue("q"),
        take("a", "q"),
        compute("other", "v", op="Identity"),
        compute("sum", "other", "a", op="AddV2"),
    ]
    assert classes_of(*nodes)["other"] == set()


def test_nothing_is_behind_what_it_does_not_depend_on():
    nodes = [queue("q"), take("a", "q"), fetch("fetch", "a"), compute("x", "arg")]
    argument = Node("arg", "_Arg", attrs={"T": float32, "index": 0, "shape": ()})
    nodes = [argument, *nodes, fetch("other", "x", 1)]
    classes = find_classes(nodes, BLOCKS)
    ordered = [node.name for node in in_order_of_classes(nodes, classes)]
    assert ordered.index("other") < ordered.index("a")


def test_unordered_ones_are_strands():
    nodes = [
        queue("q"),
        take("a", "q"),
        take("b", "q"),
        compute("sum", "a", "b", op="AddV2"),
        fetch("fetch", "sum"),
    ]
    classes = find_classes(nodes, BLOCKS)
    assert not are_ordered(classes.values())
    made = cut(nodes, classes)
    names = [[node.name for node in strand] for strand in made.strands]
    assert names == [
        ["q", "a", "_given_0"],
        ["q", "b", "_given_1"],
        ["_taken_0", "_taken_1", "sum", "fetch"],
    ]
    assert made.before == [set(), set(), {0, 1}]


@pytest.mark.parametrize("inner", [take("a", "q"), None])
def test_a_call_waits_where_its_function_does(inner):
    body = Graph([queue("q"), *([inner] if inner else [])])
    function = Function("f", body)
    attrs = {"f": "f", "Tin": [], "Tout": []}
    node = Node("call", "PartitionedCall", attrs=attrs)
    assert may_block({"f": function})(node) == (inner is not None)

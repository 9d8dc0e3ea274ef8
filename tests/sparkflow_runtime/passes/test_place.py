import pytest

from sparkflow_runtime import dtypes
from sparkflow_runtime.device.names import DeviceSpec
from sparkflow_runtime.errors import InvalidArgumentError, OpError, UnimplementedError
from sparkflow_runtime.ir.graph import Graph
from sparkflow_runtime.ir.node import Node
from sparkflow_runtime.passes.place import Placement, place
from support.graphs import const, node, placeholder, variable

W0 = "/job:worker/replica:0/task:0/device:CPU:0"
G0 = "/job:worker/replica:0/task:0/device:GPU:0"
W1 = "/job:worker/replica:0/task:1/device:CPU:0"
P0 = "/job:ps/replica:0/task:0/device:CPU:0"
P1 = "/job:ps/replica:0/task:1/device:CPU:0"


def placement(*names: str, soft: bool = False) -> Placement:
    return Placement([DeviceSpec.from_string(name) for name in names], soft)


ALL = placement(W0, W1, P0, P1)


def devices(nodes: list[Node], where: Placement = ALL, whole: Graph | None = None) -> dict:
    return {n.name: n.device for n in place(Graph(nodes), where, whole)}


@pytest.mark.parametrize(
    ("request_", "expected"),
    [
        ("", W0),
        ("/job:worker", W0),
        ("/task:1", W1),
        ("/job:ps", P0),
        ("/job:ps/task:1", P1),
        ("/cpu:0", W0),
        ("/job:ps/task:1/cpu:0", P1),
        ("/device:CPU", W0),
        ("/job:ps/device:*", P0),
        (P1, P1),
    ],
)
def test_short_forms_take_the_first_device_that_fits(request_: str, expected: str) -> None:
    assert devices([const("c", 1, device=request_)]) == {"c": expected}


def test_colocated_nodes_share_the_device_one_of_them_asks_for() -> None:
    nodes = [
        const("a", 1, device="/job:ps/task:1"),
        node("b", "Neg", "a", _class=["loc:@a"]),
        node("c", "Neg", "b", _class=["loc:@b", "not:@W0"], device="/cpu:0"),
        node("d", "Neg", "c"),
    ]
    assert devices(nodes) == {"a": P1, "b": P1, "c": P1, "d": W0}


def test_updates_go_where_their_variable_is() -> None:
    nodes = [
        variable("v", device="/job:ps/task:1"),
        const("one", 1),
        node("init", "Assign", "v", "one"),
        node("more", "AssignAdd", "init", "one"),
        node("read", "Identity", "more"),
    ]
    assert devices(nodes) == {"v": P1, "one": W0, "init": P1, "more": P1, "read": W0}


def test_users_of_a_resource_go_where_it_is() -> None:
    kinds = {"output_types": [dtypes.float32], "output_shapes": [(None,)]}
    nodes = [
        node("data", "IteratorV2", shared_name="d", container="", device=W1, **kinds),
        node("next", "IteratorGetNext", "data", **kinds),
    ]
    assert devices(nodes) == {"data": W1, "next": W1}


def test_colocation_with_a_pruned_node_counts() -> None:
    slot = [
        variable("slot", _class=["loc:@v"]),
        const("zero", 0),
        node("slot/init", "Assign", "slot", "zero"),
    ]
    whole = Graph(
        [
            variable("main", device="/job:ps/task:1"),
            node("v", "Assign", "main", "zero", _class=["loc:@gone"]),
            *slot,
        ]
    )
    assert devices(slot) == {"slot": W0, "zero": W0, "slot/init": W0}
    assert devices(slot, whole=whole) == {"slot": P1, "zero": W0, "slot/init": P1}
    foreign = Graph([Node("v", "ElseWhere", device="/nonsense"), *slot])
    assert devices(slot, whole=foreign)["slot"] == W0


def test_a_node_goes_to_a_device_with_a_kernel() -> None:
    nodes = [const("c", 1), variable("text", dtype=dtypes.string)]
    assert devices(nodes, placement(G0, W0)) == {"c": G0, "text": W0}


@pytest.mark.parametrize("soft", [False, True])
def test_soft_placement_falls_back_to_the_cpu_of_the_task(soft: bool) -> None:
    missing = [const("c", 1, device="/job:worker/task:1/gpu:0")]
    no_kernel = [variable("text", dtype=dtypes.string, device=G0)]
    if soft:
        assert devices(missing, placement(W0, W1, soft=True)) == {"c": W1}
        assert devices(no_kernel, placement(G0, W0, soft=True)) == {"text": W0}
        second = [const("c", 1, device="/cpu:1")]
        assert devices(second, placement(W0, soft=True)) == {"c": W0}
    else:
        with pytest.raises(InvalidArgumentError, match="explicitly assigned to"):
            devices(missing, placement(W0, W1))
        with pytest.raises(
            UnimplementedError, match=r"VariableV2 for device GPU with string(.|\n)*'text'"
        ):
            devices(no_kernel, placement(G0, W0))
    # Soft placement never moves a node to another task.
    with pytest.raises(InvalidArgumentError, match="Cannot assign a device"):
        devices([const("c", 1, device="/job:tpu")], placement(W0, soft=soft))


@pytest.mark.parametrize(
    ("nodes", "texts"),
    [
        (
            [const("c", 1, device="/job:gone/task:3")],
            ["operation c:", "/job:gone/task:3", W0, P1, "[[node 'c' (Const)"],
        ),
        (
            [
                const("a", 1, device="/job:ps"),
                node("b", "Neg", "a", _class=["loc:@a"], device="/job:worker", _source="m.py:3"),
            ],
            ["'a' and 'b'", "/job:ps", "/job:worker", "m.py:3"],
        ),
        (
            [
                variable("v", device="/job:ps/task:0"),
                placeholder("x"),
                node("u", "AssignAdd", "v", "x", device="/job:ps/task:1"),
            ],
            ["Cannot colocate nodes 'v' and 'u'"],
        ),
        ([const("c", 1, device="gpu")], ["'gpu' is not a device name", "[[node 'c'"]),
    ],
)
def test_impossible_requests_are_explained(nodes: list[Node], texts: list[str]) -> None:
    with pytest.raises(OpError) as info:
        devices(nodes)
    for text in texts:
        assert text in str(info.value)

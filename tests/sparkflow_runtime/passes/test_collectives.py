"""Ranks of collectives, their two halves, and their place in partitions."""

import numpy as np
import pytest

from sparkflow_runtime import dtypes
from sparkflow_runtime.device.names import DeviceSpec
from sparkflow_runtime.errors import InvalidArgumentError, UnimplementedError
from sparkflow_runtime.ir.graph import Graph
from sparkflow_runtime.ir.node import START, WAIT, Endpoint
from sparkflow_runtime.ir.types import infer_types
from sparkflow_runtime.master.pipeline import Request, optimise
from sparkflow_runtime.ops import registry
from sparkflow_runtime.passes.collectives import split_collectives
from sparkflow_runtime.passes.partitioning.partition import waiting_for_all
from sparkflow_runtime.passes.place import Placement
from support.graphs import const, node

TASK = "/job:w/replica:0/task:{}/device:CPU:{}"
CPUS = [TASK.format(0, index) for index in range(3)]
FLOAT = {"T": dtypes.float32}


def reduce(name, value, device, size=2, group=1, instance=1, **attrs):
    return node(
        name,
        "CollectiveReduce",
        value,
        device=device,
        group_size=size,
        group_key=group,
        instance_key=instance,
        merge_op="Add",
        final_op="Id",
        **FLOAT,
        **attrs,
    )


def value(name, device):
    return const(name, np.ones(2), dtypes.float32, device=device)


def split(*nodes, whole=None):
    graph = Graph(nodes)
    return split_collectives(graph, infer_types(graph), whole)


def test_a_graph_without_collectives_stays_as_it_is():
    graph = Graph([value("x", CPUS[0])])
    assert split_collectives(graph, {}) is graph
    assert waiting_for_all(graph) is graph


def test_a_node_becomes_a_start_and_a_wait_of_its_name():
    x = value("x", CPUS[0])
    made = split(x, reduce("sum", "x", CPUS[0], size=1, timeout_seconds=2.5))
    start, wait = made["_start/sum"], made["sum"]
    assert (start.op, wait.op) == (START, WAIT)
    assert start.inputs == (Endpoint("x", 0),)
    assert wait.inputs == ()
    assert wait.control_inputs == ("_start/sum",)
    assert start.attrs["kind"] == "CollectiveReduce"
    assert wait.attrs["shapes"] == [(2,)]
    for half in (start, wait):
        assert half.attrs["timeout_seconds"] == 2.5
        assert half.device == CPUS[0]


def place_of(made, name):
    attrs = made[name].attrs
    return attrs["rank"], list(attrs["devices"]), attrs["between"]


def test_devices_of_one_graph_are_ranks_in_order():
    nodes = [value(f"x{i}", CPUS[i]) for i in (2, 0, 1)]
    nodes += [reduce(f"sum{i}", f"x{i}", CPUS[i], size=3) for i in (2, 0, 1)]
    made = split(*nodes)
    for rank in range(3):
        assert place_of(made, f"sum{rank}") == (rank, CPUS, False)


def test_one_device_of_each_task_is_a_rank():
    device = TASK.format(1, 0)
    made = split(value("x", device), reduce("sum", "x", device, size=3))
    assert place_of(made, "sum") == (1, [TASK.format(task, 0) for task in range(3)], True)


def test_several_devices_of_each_task_are_ranks():
    here = [TASK.format(1, index) for index in range(2)]
    nodes = [value(f"x{i}", device) for i, device in enumerate(here)]
    nodes += [reduce(f"sum{i}", f"x{i}", device, size=4) for i, device in enumerate(here)]
    devices = [TASK.format(task, index) for task in range(2) for index in range(2)]
    assert place_of(split(*nodes), "sum1") == (3, devices, True)


@pytest.mark.parametrize(
    ("devices", "size"), [([(0, 0), (0, 1)], 3), ([(0, 0), (1, 0)], 4), ([(2, 0)], 2)]
)
def test_ranks_that_cannot_be_found_are_refused(devices, size):
    names = [TASK.format(*device) for device in devices]
    nodes = [value(f"x{i}", name) for i, name in enumerate(names)]
    nodes += [reduce(f"sum{i}", f"x{i}", name, size=size) for i, name in enumerate(names)]
    with pytest.raises(InvalidArgumentError, match=f"group 1 has {size} ranks. This graph"):
        split(*nodes)


def test_nodes_of_a_group_must_agree_on_its_size():
    nodes = [value("x0", CPUS[0]), value("x1", CPUS[1])]
    nodes += [reduce("a", "x0", CPUS[0], size=2), reduce("b", "x1", CPUS[1], size=3)]
    with pytest.raises(InvalidArgumentError, match="has 2 ranks in 'a' and 3 in 'b'"):
        split(*nodes)


def test_a_device_takes_part_in_an_instance_once():
    nodes = [value("x", CPUS[0]), reduce("a", "x", CPUS[0]), reduce("b", "x", CPUS[0])]
    with pytest.raises(InvalidArgumentError, match=r"two nodes on .*: 'a' and 'b'"):
        split(*nodes)


def test_a_step_needs_all_ranks_of_its_graph():
    nodes = [value("x0", CPUS[0]), reduce("a", "x0", CPUS[0])]
    whole = Graph([*nodes, value("x1", CPUS[1]), reduce("b", "x1", CPUS[1])])
    with pytest.raises(InvalidArgumentError, match="has 1 of its ranks in this step, a: all"):
        split(*nodes, whole=whole)


def random(name):
    attrs = {"dtype": dtypes.float32, "T": dtypes.int32}
    return node(name, "RandomStandardNormal", "shape", device=CPUS[0], **attrs)


def partitions_of(nodes, fetches, devices=2):
    request = Request((), tuple(Endpoint(name, 0) for name in fetches), ())
    names = [DeviceSpec.from_string(name) for name in CPUS[:devices]]
    return optimise(Graph(nodes), request, Placement(names))


def names_of(partition):
    return [each.name for each in partition.nodes]


def test_waits_come_after_what_the_starts_of_all_ranks_need():
    # Rank 1 needs a value of device 0 that is made after its own start: had its wait come first,
    # both would wait for ever.
    nodes = [
        node(
            "r",
            "RandomStandardNormal",
            "shape",
            device=CPUS[0],
            dtype=dtypes.float32,
            T=dtypes.int32,
        ),
        const("shape", [2], dtypes.int32, device=CPUS[0]),
        reduce("sum0", "r", CPUS[0]),
        node("later", "Neg", "r", device=CPUS[0], **FLOAT),
        reduce("sum1", "later", CPUS[1]),
    ]
    first, second = partitions_of(nodes, ["sum0", "sum1"])
    order = names_of(first)
    send = next(name for name in order if name.startswith("_send/"))
    assert order.index("_start/sum0") < order.index(send) < order.index("sum0")
    order = names_of(second)
    assert order.index("_start/sum1") < order.index("sum1")


def test_collectives_start_early_and_are_waited_for_late():
    nodes = [
        const("shape", [2], dtypes.int32, device=CPUS[0]),
        node(
            "a",
            "RandomStandardNormal",
            "shape",
            device=CPUS[0],
            dtype=dtypes.float32,
            T=dtypes.int32,
        ),
        node("b", "Neg", "a", device=CPUS[0], **FLOAT),
        node("c", "Exp", "b", device=CPUS[0], **FLOAT),
        reduce("sum_a", "a", CPUS[0], size=1, instance=1),
        reduce("sum_c", "c", CPUS[0], size=1, instance=2),
    ]
    (only,) = partitions_of(nodes, ["sum_a", "sum_c"], devices=1)
    order = names_of(only)
    assert order.index("_start/sum_a") < order.index("b")
    assert order.index("_start/sum_c") < order.index("sum_a")


def test_collectives_in_functions_are_refused():
    with pytest.raises(UnimplementedError, match="at the top of a graph"):
        registry.lookup("CollectiveReduce").bind(reduce("sum", "x", CPUS[0]), None)

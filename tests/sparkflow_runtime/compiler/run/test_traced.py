import threading

import numpy as np
import pytest

from sparkflow_runtime import dtypes
from sparkflow_runtime.codegen.machine import native
from sparkflow_runtime.compiler.program import compile_partition
from sparkflow_runtime.compiler.run.traced import TRANSFER, TracedPartition
from sparkflow_runtime.errors import InvalidArgumentError
from sparkflow_runtime.ir.node import Endpoint, Node
from sparkflow_runtime.ops.kernel import KernelContext
from sparkflow_runtime.resources.container import Resources
from support.graphs import const

DEVICE = "/job:localhost/replica:0/task:0/device:CPU:0"
T = {"T": dtypes.float32}


def partition(*nodes, synchronize=lambda: None):
    context = KernelContext(np, "CPU", DEVICE, Resources(), Resources())
    program = compile_partition(list(nodes), context)
    return TracedPartition(list(nodes), context, {}, program, synchronize)


def argument():
    return Node("a", "_Arg", attrs={**T, "index": 0, "shape": None})


def result(source, index=0):
    return Node(f"r{index}", "_Retval", (Endpoint(source, 0),), attrs={**T, "index": index})


def test_results_and_record_of_a_run():
    waited = []
    traced = partition(
        argument(),
        const("c", np.float32(2)),
        Node("m", "Mul", (Endpoint("a", 0), Endpoint("c", 0)), ("c",), attrs=T),
        result("m"),
        synchronize=lambda: waited.append(1),
    )
    values, stats = traced.run(None, [np.float32([1, 2])])
    np.testing.assert_array_equal(values[0], [2, 4])
    assert stats.device == DEVICE
    assert [node.node_name for node in stats.node_stats] == ["c", "a", "m", "r0"]
    product = stats.node_stats[2]
    assert product.timeline_label == "m = Mul(a, c, ^c)"
    assert product.memory[0].total_bytes == 8
    assert product.thread_id in stats.thread_names
    assert stats.node_stats[0].op_end_rel_nanos == 0
    assert len(waited) == 3
    again, other = traced.run(None, [np.float32([3])])
    assert again[0] == [6]
    assert len(other.node_stats) == 4


def test_threads_record_apart():
    traced = partition(argument(), Node("e", "Exp", (Endpoint("a", 0),), attrs=T), result("e"))
    recorded = []

    def run(size):
        recorded.extend(
            (size, traced.run(None, [np.zeros(size, np.float32)])[1]) for _ in range(20)
        )

    threads = [threading.Thread(target=run, args=(size,)) for size in (1, 2, 3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(recorded) == 60
    for size, stats in recorded:
        sizes = [n.output[0].tensor_description.shape.dim[0].size for n in stats.node_stats[:2]]
        assert sizes == [size, size]


def test_failures_name_their_node_and_leave_nothing_behind():
    ints = {"T": dtypes.int32}
    both = (Endpoint("a", 0), Endpoint("a", 0))
    traced = partition(
        Node("a", "_Arg", attrs={**ints, "index": 0, "shape": None}),
        Node("q", "FloorDiv", both, attrs=ints),
        Node("r", "_Retval", (Endpoint("q", 0),), attrs={**ints, "index": 0}),
    )
    with pytest.raises(InvalidArgumentError, match="node 'q'"):
        traced.run(None, [np.int32([0])])
    values, stats = traced.run(None, [np.int32([4])])
    assert values[0] == [1]
    assert len(stats.node_stats) == 3


def test_what_arrives_is_listed_as_a_transfer():
    class Step:
        def receive(self, key, source):
            return (np.zeros(5, np.float32),)

        def transport(self, key, source):
            return f"{key} pigeon"

    attrs = {"T": [dtypes.float32], "key": "0-1-0-0", "source": "/job:ps/task:0/device:CPU:0"}
    traced = partition(Node("recv", "_RecvBundle", attrs=attrs), result("recv"))
    _, stats = traced.run(Step(), [])
    transfer = stats.node_stats[1]
    assert transfer.node_name == TRANSFER
    assert transfer.timeline_label == (
        f"[20B] 0-1-0-0 from /job:ps/task:0/device:CPU:0 to {DEVICE} by 0-1-0-0 pigeon"
    )


@pytest.mark.skipif(not native.available(), reason="needs llvmlite")
def test_a_plan_is_recorded_as_it_runs():
    nodes = (
        argument(),
        const("c", np.float32(2)),
        Node("m", "Mul", (Endpoint("a", 0), Endpoint("c", 0)), attrs=T),
        Node("s", "Square", (Endpoint("m", 0),), attrs=T),
        result("s"),
    )
    context = KernelContext(np, "CPU", DEVICE, Resources(), Resources())
    program = compile_partition(list(nodes), context)
    traced = TracedPartition(list(nodes), context, {}, program, lambda: None)
    given = np.arange(100, dtype=np.float32)
    for _ in range(4):
        program.run(None, [given])
    (squares,), stats = traced.run(None, [given])
    np.testing.assert_array_equal(squares, np.square(given * 2))
    (kernel,) = [node for node in stats.node_stats if node.output]
    assert kernel.timeline_label == "s = Mul+Square(a, c)"
    assert kernel.output[0].tensor_description.shape.dim[0].size == 100
    assert stats.plan.plans_made == 1
    assert stats.plan.planned_runs >= 2
    assert stats.plan.planned_runs + stats.plan.general_runs == 4

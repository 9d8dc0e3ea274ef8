import json

import numpy as np
import pytest

import sparkflow as tf
from sparkflow.python.client import timeline
from sparkflow_runtime.testing.local_cluster import LocalCluster
from sparkflow_runtime.transport.channel.reactor import available as channels_available

FULL = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE)


def traced(session, fetches, feeds=None, options=FULL):
    metadata = tf.RunMetadata()
    return session.run(fetches, feeds, options, metadata), metadata


def nodes_of(metadata):
    return {
        node.node_name: node
        for device in metadata.step_stats.dev_stats
        for node in device.node_stats
    }


def test_every_node_is_listed_with_its_time_label_and_outputs():
    with tf.Graph().as_default(), tf.Session() as session:
        x = tf.placeholder(tf.float32, [2, 3], name="x")
        y = tf.matmul(x, tf.ones([3, 4]), name="y")
        with tf.control_dependencies([x]):
            tf.reduce_sum(y, name="z")
        value, metadata = traced(session, "z:0", {x: np.ones((2, 3))})
    assert value == 24
    (device,) = metadata.step_stats.dev_stats
    assert device.device == "/job:localhost/replica:0/task:0/device:CPU:0"
    nodes = nodes_of(metadata)
    assert nodes["y"].timeline_label.startswith("y = MatMul(")
    assert nodes["z"].timeline_label.startswith("z = Sum(y, ")
    (output,) = nodes["y"].output
    described = output.tensor_description
    assert described.dtype == int(tf.float32)
    assert [dim.size for dim in described.shape.dim] == [2, 4]
    assert described.allocation_description.requested_bytes == 32
    assert nodes["y"].memory[0].total_bytes == 32
    first, then = nodes["y"], nodes["z"]
    assert first.all_start_nanos + first.all_end_rel_nanos <= then.all_start_nanos
    assert first.op_end_rel_micros >= 1
    assert list(device.thread_names) == [first.thread_id]


def test_software_trace_records_and_no_trace_does_not():
    with tf.Graph().as_default(), tf.Session() as session:
        x = tf.random_uniform([2])
        software = tf.RunOptions(trace_level=tf.RunOptions.SOFTWARE_TRACE)
        assert nodes_of(traced(session, x, options=software)[1])
        assert traced(session, x, options=tf.RunOptions())[1] == tf.RunMetadata()
        assert traced(session, x, options=None)[1] == tf.RunMetadata()
        oom = tf.RunOptions(report_tensor_allocations_upon_oom=True)
        assert traced(session, x, options=oom)[1] == tf.RunMetadata()


def test_traced_and_plain_steps_share_their_state():
    with tf.Graph().as_default(), tf.Session() as session:
        v = tf.Variable(1.0, name="v")
        more = tf.assign_add(v, 1.0)
        session.run(v.initializer)
        assert session.run(more) == 2.0
        value, metadata = traced(session, more)
        assert value == 3.0
        assert session.run(more) == 4.0
    assert {"v", "AssignAdd"} <= nodes_of(metadata).keys()


def test_nodes_inside_loops_are_listed_for_each_turn():
    with tf.Graph().as_default(), tf.Session() as session:
        last = tf.while_loop(lambda i: i < 5, lambda i: tf.add(i, 1, name="more"), [0])
        value, metadata = traced(session, last)
    assert value == 5
    (device,) = metadata.step_stats.dev_stats
    assert sum("= Add" in node.timeline_label for node in device.node_stats) == 5


def test_remote_tasks_report_nodes_and_transfers():
    with LocalCluster(1, 1) as cluster, tf.Graph().as_default():
        with tf.device("/job:ps/task:0"):
            v = tf.Variable(np.ones(1000, np.float32), name="v")
        with tf.device("/job:worker/task:0"):
            total = tf.reduce_sum(v * 2.0, name="total")
        with tf.Session(f"grpc://{cluster.address('worker', 0)}") as session:
            session.run(v.initializer)
            options = tf.RunOptions(trace_level=FULL.trace_level, output_partition_graphs=True)
            value, metadata = traced(session, total, options=options)
    assert value == 2000
    assert [device.device for device in metadata.step_stats.dev_stats] == [
        "/job:ps/replica:0/task:0/device:CPU:0",
        "/job:worker/replica:0/task:0/device:CPU:0",
    ]
    transfer = nodes_of(metadata)["RecvTensor"]
    assert "[4000B]" in transfer.timeline_label
    assert "from /job:ps/replica:0/task:0/device:CPU:0 to /job:worker" in transfer.timeline_label
    assert transfer.output[0].tensor_description.allocation_description.requested_bytes == 4000
    assert len(metadata.partition_graphs) == 2


@pytest.mark.parametrize(
    ("transport", "shown"),
    [("auto", {"shm", "tcp", "grpc"}), ("unix", {"unix"}), ("tcp", {"tcp"}), ("grpc", {"grpc"})],
)
def test_the_trace_says_how_tensors_came(transport, shown):
    if transport in ("unix", "tcp") and not channels_available():
        pytest.skip("this system has no tensor channels")
    with LocalCluster(1, 1, transport=transport) as cluster, tf.Graph().as_default():
        with tf.device("/job:ps/task:0"):
            v = tf.Variable(np.ones(5000, np.float32), name="v")
        with tf.device("/job:worker/task:0"):
            total = tf.reduce_sum(v * 2.0, name="total")
        with tf.Session(cluster.target("worker", 0)) as session:
            session.run(v.initializer)
            value, metadata = traced(session, total)
    assert value == 10000
    assert nodes_of(metadata)["RecvTensor"].timeline_label.rpartition(" by ")[2] in shown


def test_callables_record_too():
    with tf.Graph().as_default(), tf.Session() as session:
        x = tf.placeholder(tf.float32)
        run = session.make_callable(tf.sqrt(x, name="y"), [x], accept_options=True)
        metadata = tf.RunMetadata()
        assert run(4.0, options=FULL, run_metadata=metadata) == 2.0
    assert "y" in nodes_of(metadata)


@pytest.mark.parametrize("way", ["run", "config"])
def test_a_step_that_blocks_is_timed_out(way):
    config = tf.ConfigProto(operation_timeout_in_ms=50 if way == "config" else 0)
    options = tf.RunOptions(timeout_in_ms=50) if way == "run" else None
    with tf.Graph().as_default(), tf.Session(config=config) as session:
        queue = tf.FIFOQueue(1, tf.float32)
        with pytest.raises(tf.errors.DeadlineExceededError, match=r"longer than 0\.05 s"):
            session.run(queue.dequeue(), options=options)
        assert session.run(tf.constant(1.0)) == 1.0


def test_timeline_draws_nodes_arrows_and_memory():
    with tf.Graph().as_default(), tf.Session() as session:
        x = tf.placeholder(tf.float32, [10], name="x")
        _, metadata = traced(session, tf.exp(tf.sqrt(x, name="a"), name="b"), {x: np.ones(10)})
    drawn = timeline.Timeline(metadata.step_stats)
    events = json.loads(drawn.generate_chrome_trace_format(show_memory=True))["traceEvents"]
    by_node = {e["args"]["name"]: e for e in events if e["ph"] == "X"}
    assert by_node["b"]["name"] == "Exp"
    assert by_node["b"]["args"]["input0"] == "a"
    assert by_node["b"]["dur"] >= 1
    starts = [event["name"] for event in events if event["ph"] == "s"]
    assert starts.count("a") == 1
    assert len(starts) == sum(event["ph"] == "t" for event in events)
    assert max(e["args"]["cpu"] for e in events if e["ph"] == "C") >= 80
    processes = [e["args"]["name"] for e in events if e["ph"] == "M"]
    assert processes == ["/job:localhost/replica:0/task:0/device:CPU:0 Compute", "cpu Memory"]
    plain = json.loads(drawn.generate_chrome_trace_format(show_dataflow=False))["traceEvents"]
    assert {event["ph"] for event in plain} == {"M", "X"}
    most = drawn.analyze_step_stats().allocator_maximums["cpu"]
    assert most.num_bytes >= 80
    assert "a" in most.tensors


def test_nodes_that_overlap_get_lanes_of_their_own():
    stats = tf.RunMetadata().step_stats
    device = stats.dev_stats.add(device="/device:CPU:0")
    for name, start in (("a", 0), ("b", 5), ("c", 10)):
        device.node_stats.add(
            node_name=name,
            all_start_micros=start,
            all_end_rel_micros=10,
            timeline_label=f"{name} = X()",
        )
    drawn = json.loads(timeline.Timeline(stats).generate_chrome_trace_format())["traceEvents"]
    assert [event["tid"] for event in drawn if event["ph"] == "X"] == [0, 1, 0]


def test_a_session_that_asks_for_it_is_told_what_nodes_cost():
    options = tf.GraphOptions(build_cost_model=2, build_cost_model_after=1)
    traced = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE)
    with (
        tf.Graph().as_default(),
        tf.Session(config=tf.ConfigProto(graph_options=options)) as session,
    ):
        x = tf.placeholder(tf.float32, [None, 4], name="x")
        product = tf.matmul(x, tf.ones([4, 3]), name="product")
        found = []
        for _ in range(5):
            metadata = tf.RunMetadata()
            session.run(product, {x: np.ones([2, 4])}, traced, metadata)
            found.append({node.name: node for node in metadata.cost_graph.node})
            assert metadata.step_stats.dev_stats
    assert [bool(each) for each in found] == [False, False, True, False, True]
    cost = found[2]["product"]
    assert cost.device.endswith("CPU:0")
    assert [each.size for each in cost.output_info] == [2 * 3 * 4]
    nodes = {node.id: node for node in found[2].values()}
    assert len(nodes) == len(found[2])
    read = [nodes[each.preceding_node] for each in cost.input_info]
    assert len(read) == 2
    assert cost not in read
    assert cost.compute_cost >= 0


@pytest.mark.parametrize("trace_level", [tf.RunOptions.NO_TRACE, tf.RunOptions.FULL_TRACE])
def test_others_are_told_nothing_of_costs(trace_level):
    metadata = tf.RunMetadata()
    with tf.Graph().as_default(), tf.Session() as session:
        session.run(tf.random_normal([2]), None, tf.RunOptions(trace_level=trace_level), metadata)
    assert not metadata.cost_graph.node

"""Models in stages: gradients as of one process, and the order of turns."""

import re
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import sparkflow as tf
from sparkflow.train.optimizers.strategy import AsyncReplication
from sparkflow.train.replication.micro_batches import MicroBatches
from sparkflow_runtime.testing.local_cluster import LocalCluster

STAGES = 3
PARTS = 4
ROWS = 22
WIDTH = 6
SIZES = [5, 9, 1, 7]
_random = np.random.default_rng(0)
X = _random.random((ROWS, WIDTH), np.float32)
IDS = _random.integers(0, 9, ROWS)
Y = _random.random((ROWS, 1), np.float32)

Place = Callable[[int], Any]
Build = Callable[[Any, Any, Any, Place], Any]
"""Maps features, ids, labels and a way to name stages to the loss."""


@pytest.fixture(scope="module")
def cluster() -> Iterator[LocalCluster]:
    with LocalCluster(1, STAGES) as made:
        yield made


def weights(name: str, shape: list[int], seed: int) -> Any:
    initial = tf.random_normal_initializer(stddev=0.4, seed=seed)
    return tf.get_variable(name, shape, initializer=initial)


def dense(x: Any, ids: Any, y: Any, place: Place) -> Any:
    h = x
    for number in range(STAGES):
        with place(number):
            h = tf.tanh(tf.matmul(h, weights(f"w{number}", [WIDTH, WIDTH], number + 1)))
    with place(STAGES - 1):
        return tf.reduce_mean(tf.square(tf.matmul(h, weights("out", [WIDTH, 1], 9)) - y))


def embedding(x: Any, ids: Any, y: Any, place: Place) -> Any:
    with place(0):
        h = tf.nn.embedding_lookup(weights("table", [9, WIDTH], 1), ids)
    with place(1):
        h = tf.nn.relu(tf.matmul(h + x, weights("w", [WIDTH, WIDTH], 2)))
    with place(2):
        error = tf.reduce_mean(tf.square(tf.matmul(h, weights("out", [WIDTH, 1], 9)) - y))
        return error + 0.1 * tf.nn.l2_loss(tf.get_default_graph().get_tensor_by_name("w:0"))


def loops(x: Any, ids: Any, y: Any, place: Place) -> Any:
    with place(0):
        w = weights("w", [WIDTH, WIDTH], 1)
        _, h = tf.while_loop(
            lambda i, h: i < 3, lambda i, h: (i + 1, tf.tanh(tf.matmul(h, w))), [0, x]
        )
    with place(1):
        h = tf.cond(tf.reduce_mean(h) > 0, lambda: h * 2.0, lambda: h * 3.0)
        h = tf.matmul(h, weights("middle", [WIDTH, WIDTH], 2))
    with place(2):
        return tf.reduce_mean(tf.square(tf.matmul(h, weights("out", [WIDTH, 1], 9)) - y))


def with_a_function(x: Any, ids: Any, y: Any, place: Place) -> Any:
    """It reaches out of the graph, which graphs of others may not; the copies are its own."""
    with place(0):
        seen = tf.py_func(lambda h: h * np.float32(0.5), [x], tf.float32)
        seen.set_shape([None, WIDTH])
    return dense(x + tf.stop_gradient(seen), ids, y, place)


def minimize(loss: Any) -> Any:
    return tf.train.AdamOptimizer(0.05).minimize(loss)


def clip(loss: Any) -> Any:
    optimizer = tf.train.GradientDescentOptimizer(0.5)
    pairs = optimizer.compute_gradients(loss)
    clipped, _ = tf.clip_by_global_norm([gradient for gradient, _ in pairs], 0.01)
    return optimizer.apply_gradients(
        [(gradient, variable) for gradient, (_, variable) in zip(clipped, pairs, strict=True)]
    )


def stage_of(op: Any) -> int | None:
    _, _, task = op.device.partition("/job:worker/task:")
    return int(task.partition("/")[0]) if task else None


def cut(tensor: Any) -> list[Any]:
    """Parts of unequal sizes, which are unknown in their static shapes."""
    parts = tf.split(tensor, SIZES)
    return [tf.placeholder_with_default(each, [None, *each.shape[1:]]) for each in parts]


def train(
    build: Build, update: Callable[[Any], Any], target: str, staged: bool, steps: int = 4
) -> tuple[list[float], dict[str, Any], Any]:
    """Returns losses, variables, and the partitions by stage."""

    def device_of(op: Any) -> str:
        is_variable = op.type in ("VariableV2", "VarHandleOp", "Variable")
        return "/job:ps/task:0" if is_variable else op.device or "/job:worker/task:0"

    def place(number: int) -> Any:
        def device(op: Any) -> str:
            return op.device if "Var" in op.type else f"/job:worker/task:{number}"

        return tf.device(device if staged else None)

    with tf.Graph().as_default() as graph, graph.device(device_of if staged else None):
        x, ids, y = (tf.placeholder(each.dtype, [None, *each.shape[1:]]) for each in (X, IDS, Y))
        if not staged:
            loss = build(x, ids, y, place)
            run_too = update(loss)
        else:
            batches = list(zip(*map(cut, (x, ids, y)), strict=True))
            rows = [tf.cast(tf.shape(batch[0])[0], tf.float32) for batch in batches]
            sizes = [tf.constant(each) for each in SIZES]
            names = [each.name for each in batches[0]]
            strategy = MicroBatches(
                AsyncReplication(), batches, rows, stage_of, STAGES, None, sizes, names
            )
            with strategy.scope():
                loss = build(*batches[0], place)
                run_too = update(loss)
            loss = strategy.of_whole_batch(loss)
        feeds = {x: X, ids: IDS, y: Y}
        with tf.Session(target) as session:
            session.run(tf.global_variables_initializer())
            losses = [float(session.run([loss, run_too], feeds)[0]) for _ in range(steps)]
            values = {v.op.name: session.run(v) for v in tf.global_variables()}
            metadata = tf.RunMetadata()
            options = tf.RunOptions(output_partition_graphs=True)
            session.run([loss, run_too], feeds, options, metadata)
    return losses, values, metadata.partition_graphs


@pytest.mark.parametrize("build", [dense, embedding, loops, with_a_function])
@pytest.mark.parametrize("update", [minimize, clip])
def test_they_learn_what_one_process_learns(
    cluster: LocalCluster, build: Build, update: Callable[[Any], Any]
) -> None:
    losses, values, _ = train(build, update, "", staged=False)
    found, learnt, _ = train(build, update, cluster.target("worker", 0), staged=True)
    np.testing.assert_allclose(found, losses, rtol=1e-5)
    assert learnt.keys() == values.keys()
    for name, value in values.items():
        np.testing.assert_allclose(learnt[name], value, rtol=1e-5, atol=1e-6, err_msg=name)
    assert losses[-1] < losses[0]


def test_stages_take_turns_as_zb_h1_has_it(cluster: LocalCluster) -> None:
    """F: forward, B: what earlier stages wait for, W: gradients of weights, S: sent to a stage."""
    _, _, partitions = train(dense, minimize, cluster.target("worker", 0), staged=True, steps=1)
    orders = {}
    for partition in partitions:
        device = partition.node[0].device
        if "worker" in device:
            turns = list(dict.fromkeys(filter(None, map(turn_of, partition.node))))
            stage = int(device.partition("task:")[2].partition("/")[0])
            orders[stage] = " ".join(turn.partition("/")[0] for turn in turns)
    assert orders == {
        0: "S F0 S F1 S F2 S W0 F3 S W1 W2 W3",  # labels first
        1: "F0 S F1 S B0 S F2 S B1 S W0 F3 S B2 S W1 B3 S W2 W3",
        2: "F0 B0 S F1 B1 S F2 B2 S W0 F3 B3 S W1 W2 W3",
    }


def turn_of(node: Any) -> str:
    """Returns the purpose of a node, and its micro-batch; "" if it belongs to none."""
    if node.op == "_SendBundle" and b"worker" in node.attr["destination"].s:
        return f"S/{node.name}"
    if node.op != "MatMul":
        return ""
    number = re.sub(r"^(micro_batch_(\d+).*|.*)$", r"\2", node.name) or "0"
    if "gradients" not in node.name:
        return f"F{number}"
    return f"W{number}" if node.attr["transpose_a"].b else f"B{number}"


def test_parts_draw_random_numbers_of_their_own() -> None:
    with tf.Graph().as_default():
        given = [tf.ones([1000]) * (number + 1.0) for number in range(3)]
        batches = [[tf.placeholder_with_default(each, [None])] for each in given]
        strategy = MicroBatches(
            AsyncReplication(), batches, [tf.constant(1.0)] * 3, lambda op: 0, 1
        )
        dropped = tf.nn.dropout(batches[0][0], 0.5, seed=7)
        strategy.of_whole_batch(tf.reduce_mean(dropped))
        copies = [dropped, *(strategy._copies[n][dropped.op.name].outputs[0] for n in (1, 2))]
        with tf.Session() as session:
            masks = [value > 0 for value in session.run(copies)]
    assert not np.array_equal(masks[0], masks[1])
    assert not np.array_equal(masks[1], masks[2])


def test_what_all_parts_have_in_common_is_left_alone() -> None:
    with tf.Graph().as_default():
        strategy = MicroBatches(
            AsyncReplication(),
            [[tf.constant([1.0])], [tf.constant([5.0, 6.0])]],
            [tf.constant(1.0), tf.constant(2.0)],
            lambda op: 0,
            1,
        )
        same = tf.constant(3.0)
        assert strategy.of_whole_batch(same) is same
        assert strategy.of_whole_batch(None) is None
        assert not strategy.is_used


def test_a_part_without_rows_does_not_count() -> None:
    with tf.Graph().as_default():
        batches = [[tf.constant([1.0, 3.0])], [tf.constant([99.0])]]
        rows = [tf.constant(2.0), tf.constant(0.0)]
        strategy = MicroBatches(AsyncReplication(), batches, rows, lambda op: 0, 1)
        mean = strategy.of_whole_batch(tf.reduce_mean(batches[0][0]))
        with tf.Session() as session:
            assert session.run(mean) == 2.0

import json

import numpy as np
import pytest

import sparkflow as tf

Builder = tf.profiler.ProfileOptionBuilder


@pytest.fixture
def graph():
    with tf.Graph().as_default() as graph:
        x = tf.placeholder(tf.float32, [100, 64], name="x")
        with tf.name_scope("first"):
            w = tf.Variable(tf.ones([64, 50]), name="w")
            h = tf.nn.relu(tf.matmul(x, w))
        with tf.name_scope("second"):
            tf.matmul(h, tf.Variable(tf.ones([50, 10]), name="w"), name="y")
            tf.Variable(0.0, trainable=False, name="step")
        yield graph


@pytest.fixture
def recorded(graph):
    metadata = tf.RunMetadata()
    options = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run("second/y:0", {"x:0": np.ones((100, 64))}, options, metadata)
    return metadata


def test_parameters_of_trainable_variables_by_scope(graph, capsys):
    root = tf.profiler.profile(graph, options=Builder.trainable_variables_parameter())
    assert root.total_parameters == 64 * 50 + 50 * 10
    assert [(child.name, child.total_parameters) for child in root.children] == [
        ("first", 3200),
        ("second", 500),
    ]
    text = capsys.readouterr().out
    assert "node name | # parameters\n_TFProfRoot (--/3.70k params)\n" in text
    assert "    first/w (64x50, 3.20k/3.20k params)\n" in text
    assert "step" not in text


def test_float_operations_by_op_type(graph, capsys):
    root = tf.profiler.profile(graph, cmd="op", options=Builder.float_operation())
    products = 2 * 100 * 50 * 64 + 2 * 100 * 10 * 50
    assert root.total_float_ops == products + 100 * 50
    assert [(child.name, child.float_ops) for child in root.children] == [
        ("MatMul", products),
        ("Relu", 5000),
    ]
    assert "MatMul  740.00k (100.00%, 99.33%) float_ops" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("build", "expected"),
    [
        (lambda: tf.nn.conv2d(tf.ones([2, 8, 8, 3]), tf.ones([3, 3, 3, 4]), 1, "SAME"), 27648),
        (lambda: tf.nn.max_pool(tf.ones([2, 8, 8, 3]), [2, 2], [2, 2], "SAME"), 384),
        (lambda: tf.add_n([tf.ones([5])] * 3), 10),
        (lambda: tf.nn.softmax(tf.ones([2, 3])), 30),
        (lambda: tf.reduce_mean(tf.ones([4, 5])), 20),
        (lambda: tf.nn.l2_loss(tf.ones([4])), 11),
        (lambda: tf.sqrt(tf.placeholder(tf.float32, [None])), 0),
    ],
)
def test_float_operations_of_a_node(build, expected):
    with tf.Graph().as_default() as graph:
        build()
    options = Builder(Builder.float_operation()).with_empty_output().build()
    assert tf.profiler.profile(graph, cmd="op", options=options).total_float_ops == expected


def test_time_and_memory_of_a_recorded_run(graph, recorded, capsys):
    root = tf.profiler.profile(graph, recorded, cmd="op", options=Builder.time_and_memory())
    (product,) = [child for child in root.children if child.name == "MatMul"]
    assert product.exec_micros >= 2
    assert product.accelerator_exec_micros == 0
    assert product.requested_bytes == 4 * (100 * 50 + 100 * 10)
    assert product.run_count == product.definition_count == 2
    assert root.total_exec_micros >= product.exec_micros
    assert "total execution time | accelerator execution time" in capsys.readouterr().out


def test_what_is_shown_can_be_chosen(graph, recorded, tmp_path):
    profiler = tf.profiler.Profiler(graph)
    profiler.add_step(3, recorded)
    quiet = Builder().with_empty_output()
    depth = profiler.profile_name_scope(quiet.with_max_depth(1).build())
    assert all(not child.children for child in depth.children)
    only = Builder().with_empty_output().with_node_names(show_name_regexes=["second.*"])
    assert [c.name for c in profiler.profile_name_scope(only.build()).children] == ["second"]
    trimmed = Builder().with_empty_output().with_node_names(trim_name_regexes=["first", "x"])
    names = [child.name for child in profiler.profile_name_scope(trimmed.build()).children]
    assert "second" in names
    assert "first" not in names
    started = Builder().with_empty_output().with_node_names(start_name_regexes=["first/w"])
    (start,) = profiler.profile_name_scope(started.build()).children
    assert start.name == "first/w"
    frequent = Builder().with_empty_output().with_min_occurrence(3).order_by("occurrence")
    counts = [c.definition_count for c in profiler.profile_operations(frequent.build()).children]
    assert counts == sorted(counts, reverse=True)
    assert min(counts) >= 3
    path = tmp_path / "report"
    profiler.profile_operations(
        Builder().with_step(3).with_file_output(str(path)).select(["occurrence", "device"]).build()
    )
    assert "MatMul" in path.read_text()
    assert "/job:localhost/replica:0/task:0/device:CPU:0" in path.read_text()
    profiler.profile_operations(Builder().with_timeline_output(str(tmp_path / "t")).build())
    assert json.loads((tmp_path / "t_3").read_text())["traceEvents"]
    with pytest.raises(ValueError, match="Step 4 was not added"):
        profiler.profile_operations(Builder().with_step(4).build())


def test_unknown_commands_are_refused(graph):
    with pytest.raises(ValueError, match="cmd must be"):
        tf.profiler.profile(graph, cmd="pie")


def test_passes_are_described():
    x = tf.placeholder(tf.float32, [2])
    y = sum((tf.exp(tf.identity(x) * 1.0 + i) for i in range(3)), tf.sin(tf.cos(x)))
    metadata = tf.RunMetadata()
    with tf.Session() as session:
        session.run(y, {x: [1, 2]}, tf.RunOptions(output_pass_graphs=True), metadata)
    lines = tf.profiler.describe_passes(metadata, most_ops=1).splitlines()
    assert lines[0].split() == ["pass", "nodes"]
    by_pass = {line.split()[0]: line.split()[1:] for line in lines[1:]}
    assert next(iter(by_pass)) == "prune"
    assert by_pass["prune"] == [str(len(metadata.pass_graphs[0].graph.node))]
    assert by_pass["simplify"][1:] == ["-3", "Const,", "2", "more"]
    with pytest.raises(ValueError, match="output_pass_graphs=True"):
        tf.profiler.describe_passes(tf.RunMetadata())

from typing import Any

import numpy as np
import pytest

import sparkflow as tf
from sparkflow.spark import stage
from sparkflow.spark.graphs import stages
from sparkflow.spark.graphs.devices import variables_on_ps
from sparkflow.spark.graphs.stages import (
    divide,
    keep_variables,
    require_all_used,
    stage_of,
    stages_in_scope,
)


def test_layers_go_to_their_stage_and_variables_to_parameter_servers() -> None:
    with tf.Graph().as_default() as graph, graph.device(variables_on_ps(2)), stages_in_scope(2):
        x = tf.ones([3, 4])
        with tf.device(stage(0)):
            first = tf.layers.dense(x, 5)
        with tf.device(stage(np.int64(1))):
            second = tf.layers.dense(first, 5)
    assert stage_of(first.op) == 0
    assert stage_of(second.op) == 1
    assert second.device == "/job:stage1"
    for variable in graph.get_collection(tf.GraphKeys.GLOBAL_VARIABLES):
        assert "/job:ps" in variable.device
        assert stage_of(variable.op) is None


@pytest.mark.parametrize("count", [None, 1])
def test_it_has_no_effect_where_all_is_on_one_task(count: int | None) -> None:
    with tf.Graph().as_default():
        if count is None:
            with tf.device(stage(3)):
                made = tf.ones([2]) + 1.0
        else:
            with stages_in_scope(count), tf.device(stage(3)):
                made = tf.ones([2]) + 1.0
    assert made.device == ""


@pytest.mark.parametrize(
    ("index", "kind", "text"),
    [
        (2, ValueError, r"stage\(2\) was requested, but modelParallel=2 has stages 0 to 1"),
        (-1, ValueError, "numbered from 0"),
        (1.0, TypeError, "takes an integer, got 1.0"),
        (True, TypeError, "takes an integer, got True"),
        ("1", TypeError, "takes an integer, got '1'"),
    ],
)
def test_no_such_stage(index: Any, kind: type[Exception], text: str) -> None:
    with stages_in_scope(2), pytest.raises(kind, match=text):
        stage(index)


def layers(widths: list[int]) -> list[Any]:
    """The operations of a model for the first stage."""
    with tf.Graph().as_default() as graph, graph.device(variables_on_ps(1)):
        h = tf.placeholder(tf.float32, [None, widths[0]])
        for width in widths[1:]:
            h = tf.layers.dense(h, width, tf.nn.relu)
        operations = graph.get_operations()
    return [op for op in operations if stage_of(op) == 0 and "Initializer" not in op.name]


@pytest.mark.parametrize(
    ("widths", "expected"),
    [
        ([64, 64, 64, 64, 64], [0, 0, 1, 1]),
        ([8, 8, 8, 512, 512], [0, 0, 1, 1]),
        ([512, 512, 8, 8, 8], [0, 0, 1, 1]),
    ],
)
def test_a_model_is_divided_by_work_and_variables(widths: list[int], expected: list[int]) -> None:
    operations = layers(widths)
    divide(operations, 2)
    assert [stage_of(op) for op in operations if op.type == "MatMul"] == expected
    for op in operations:
        for tensor in op.inputs:
            before, here = stage_of(tensor.op), stage_of(op)
            assert before is None or here is None or before <= here


def pictures_and_words() -> tuple[list[Any], dict[str, Any]]:
    """A large table that costs little, then four small convolutions that cost almost everything."""
    with tf.Graph().as_default() as graph, graph.device(variables_on_ps(1)):
        words = tf.placeholder(tf.float32, [None, 16, 16, 8])
        ids = tf.placeholder(tf.int64, [None])
        table = tf.get_variable("table", [200_000, 8])
        with tf.device("/job:worker"):
            known = tf.gather(table, ids)
        h = words + known[:, None, None, :]
        for number in range(4):
            h = tf.layers.conv2d(h, 8, 3, padding="same", name=f"conv{number}")
        tf.reduce_mean(h)
        operations = graph.get_operations()
    values = {ids.name: np.arange(64), words.name: np.ones((64, 16, 16, 8), np.float32)}
    reached = {words.op.name, ids.op.name}
    for op in operations:
        if any(each.op.name in reached for each in op.inputs):
            reached.add(op.name)
    given = {words.op.name, ids.op.name}
    return [op for op in operations if op.name in reached - given], values


def convolutions(operations: list[Any]) -> list[int | None]:
    return [stage_of(op) for op in operations if op.type == "Conv2D"]


def test_measured_time_decides_and_not_memory(caplog: pytest.LogCaptureFixture) -> None:
    operations, values = pictures_and_words()
    divide(operations, 2)
    assert convolutions(operations)[0] == 1, "estimated, the table is a stage of its own"

    operations, values = pictures_and_words()
    with caplog.at_level("INFO", "sparkflow.spark.graphs.stages"):
        divide(operations, 2, lambda: values)
    found = convolutions(operations)
    assert found[0] == 0
    assert found[-1] == 1
    assert "modelParallel=2, measured on the driver and divided: stage 0: " in caplog.text
    assert "MiB of variables; stage 1: " in caplog.text


def test_time_within_the_bound_of_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    takes = {"dense/MatMul": 1.0, "dense_1/MatMul": 1.0, "dense_2/MatMul": 9.0}

    def measured(operations: Any, _: Any) -> list[float]:
        return [takes.get(op.name, 0.0) for op in operations]

    monkeypatch.setattr(stages, "measured_micros", measured)
    found = []
    for widths in ([64, 64, 64, 64], [64, 64, 64, 64], [512, 512, 512, 1]):
        operations = layers(widths)
        divide(operations, 2, dict)
        found.append([stage_of(op) for op in operations if op.type == "MatMul"])
    # Two of three large layers are more than a stage may read, however long the last one takes.
    assert found == [[0, 0, 1], [0, 0, 1], [0, 1, 1]]


def test_a_model_that_cannot_be_run_on_the_driver_is_divided_by_estimates(
    caplog: pytest.LogCaptureFixture,
) -> None:
    operations = layers([64, 64, 64, 64, 64])
    divide(operations, 2, lambda: {"nobody:0": np.ones(3)})
    assert [stage_of(op) for op in operations if op.type == "MatMul"] == [0, 0, 1, 1]
    assert "cannot be run on the driver" in caplog.text


def test_a_model_with_too_few_layers_is_not_divided() -> None:
    with pytest.raises(ValueError, match="modelParallel=9: the model has too few layers"):
        divide(layers([4, 1]), 9)


def test_a_stage_without_work_is_told() -> None:
    with tf.Graph().as_default() as graph, stages_in_scope(3), tf.device(stage(0)):
        tf.ones([1])
        with pytest.raises(ValueError, match="puts nothing on stage 1, 2: use"):
            require_all_used(graph, 3)


def test_variables_are_kept_where_one_stage_alone_reads_them() -> None:
    with tf.Graph().as_default() as graph, graph.device(variables_on_ps(4)), stages_in_scope(2):
        ids = tf.placeholder(tf.int32, [None])
        with tf.device(stage(0)):
            table = tf.get_variable("table", [100, 6])
            h = tf.nn.embedding_lookup(table, ids)
            shared = tf.get_variable("shared", [6, 6])
            h = tf.layers.dense(tf.matmul(h, shared), 6, name="a")
        with tf.device(stage(1)):
            h = tf.layers.dense(tf.layers.dense(tf.matmul(h, shared), 6, name="b"), 6, name="c")
        before = {each.op.name: each.device for each in tf.global_variables()}
        made_of_rows = _after(ids.op, graph.get_operations())
        keep_variables(made_of_rows, [[0, 1], [2, 3]])
        optimizer = tf.train.AdamOptimizer(0.1)
        optimizer.minimize(tf.reduce_mean(h))
        places = {each.op.name: each.device for each in tf.global_variables()}
    for name in ("table", "shared"):  # read by row, and by both
        assert places[name] == before[name]
    on = {name: int(place[-1]) for name, place in places.items() if place.startswith("/job:ps/")}
    assert {on["a/kernel"], on["a/bias"]} == {0, 1}
    assert {on[f"{layer}/{name}"] for layer in "bc" for name in ("kernel", "bias")} == {2, 3}
    for name in ("a/kernel", "b/kernel"):
        assert on[f"{name}/Adam"] == on[f"{name}/Adam_1"] == on[name]
        for op in (f"{name}/Assign", f"{name}/read"):
            assert graph.get_operation_by_name(op).device == places[name]


def _after(start: Any, operations: list[Any]) -> list[Any]:
    found = [start]
    for op in operations:
        if any(tensor.op in found for tensor in op.inputs):
            found.append(op)
    return found


def test_variables_stay_where_parameter_servers_are_tasks_of_their_own() -> None:
    with tf.Graph().as_default() as graph, graph.device(variables_on_ps(2)):
        tf.layers.dense(tf.ones([2, 3]), 4)
        before = [op.device for op in graph.get_operations()]
        keep_variables(graph.get_operations(), [range(0), range(0)])
        assert [op.device for op in graph.get_operations()] == before

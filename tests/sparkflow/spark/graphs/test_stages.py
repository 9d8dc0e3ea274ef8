from typing import Any

import numpy as np
import pytest

import sparkflow as tf
from sparkflow.spark import stage
from sparkflow.spark.graphs.devices import variables_on_ps
from sparkflow.spark.graphs.stages import divide, require_all_used, stage_of, stages_in_scope


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
    """The operations of a model on the first stage."""
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
        ([8, 8, 8, 512, 512], [0, 0, 0, 1]),
        ([512, 512, 8, 8, 8], [0, 1, 1, 1]),
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


def test_a_model_with_too_few_layers_is_not_divided() -> None:
    with pytest.raises(ValueError, match="modelParallel=9: the model has too few layers"):
        divide(layers([4, 1]), 9)


def test_a_stage_without_work_is_told() -> None:
    with tf.Graph().as_default() as graph, stages_in_scope(3), tf.device(stage(0)):
        tf.ones([1])
        with pytest.raises(ValueError, match="puts nothing on stage 1, 2: use"):
            require_all_used(graph, 3)

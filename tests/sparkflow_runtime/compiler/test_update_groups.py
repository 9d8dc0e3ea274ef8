"""Updates of adjacent small variables become one call."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

import sparkflow as tf
from sparkflow_runtime import dtypes
from sparkflow_runtime.compiler import specialise
from sparkflow_runtime.compiler.known import Known
from sparkflow_runtime.compiler.plan import Unit
from sparkflow_runtime.compiler.update_groups import MOST_ELEMENTS, group_updates
from sparkflow_runtime.ir.node import Endpoint, Node
from support.graphs import node

F32 = dtypes.float32


def grouped(nodes: Sequence[Node], shapes: dict[str, Any]) -> list[int]:
    """Returns the number of updates in each unit."""
    known = {Endpoint(name, 0): Known(*each) for name, each in shapes.items()}
    units = [Unit(each) for each in nodes]
    return [len(u.group) or 1 for u in group_updates(units, known, lambda run: lambda sets: None)]


def updates(op: str, *variables: str, rate: str = "rate") -> list[Node]:
    return [node(f"update_{v}", op, v, rate, f"d_{v}", T=F32) for v in variables]


def shapes_of(dtype: Any, size: Any, *variables: str) -> dict[str, Any]:
    handle = dtype is dtypes.resource
    made: dict[str, Any] = {"rate": (F32, ())}
    for name in variables:
        made |= {name: (dtype, () if handle else (size,)), f"d_{name}": (F32, (size,))}
    return made


KINDS = [
    ("ApplyGradientDescent", F32.ref),
    ("ResourceApplyGradientDescent", dtypes.resource),
]


@pytest.mark.parametrize(("op", "dtype"), KINDS)
def test_updates_by_one_rule_are_one_call(op: str, dtype: Any) -> None:
    shapes = shapes_of(dtype, 3, "a", "b", "c") | {"other": (F32, ())}
    assert grouped(updates(op, "a", "b", "c"), shapes) == [3]
    nodes = [*updates(op, "a", "b"), *updates(op, "c", rate="other")]
    assert grouped(nodes, shapes) == [2, 1]


@pytest.mark.parametrize(("op", "dtype"), KINDS)
def test_what_is_large_or_the_same_stays_apart(op: str, dtype: Any) -> None:
    shapes = shapes_of(dtype, MOST_ELEMENTS + 1, "a", "b")
    assert grouped(updates(op, "a", "b"), shapes) == [1, 1]
    assert grouped(updates(op, "a", "a"), shapes_of(dtype, 3, "a")) == [1, 1]


def test_a_gradient_of_unknown_shape_has_that_of_its_reference_but_not_of_a_handle() -> None:
    for (op, dtype), expected in zip(KINDS, ([2], [1, 1]), strict=True):
        shapes = shapes_of(dtype, 3, "a", "b")
        shapes |= {"d_a": (F32, None), "d_b": (F32, None)}
        assert grouped(updates(op, "a", "b"), shapes) == expected


@pytest.mark.parametrize("use_resource", [False, True])
def test_steps_in_groups_are_those_one_by_one(
    use_resource: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(specialise, "SIGHTINGS", 1)
    start = np.linspace(-1, 1, 12, dtype=np.float32).reshape(4, 3)
    trained = []
    for together in (True, False):
        with monkeypatch.context() as patch, tf.Graph().as_default(), tf.Session() as session:
            if not together:
                patch.setattr("sparkflow_runtime.compiler.update_groups.MOST_ELEMENTS", 0)
            made = [
                tf.get_variable(f"v{i}", initializer=start * i, use_resource=use_resource)
                for i in range(1, 4)
            ]
            loss = tf.add_n([tf.reduce_sum(tf.square(each) * 0.5) for each in made])
            step = tf.train.AdamOptimizer(0.1).minimize(loss)
            session.run(tf.global_variables_initializer())
            for _ in range(3):
                session.run(step)
            trained.append(session.run(made))
    np.testing.assert_array_equal(trained[0], trained[1])

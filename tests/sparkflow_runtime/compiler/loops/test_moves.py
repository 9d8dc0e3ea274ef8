"""Pieces of moved tensors, compared with the result of the node's own kernel."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import sparkflow as tf
from sparkflow_runtime import dtypes
from sparkflow_runtime.codegen.cpu.copies import ZEROS, Pieces, bind_copies
from sparkflow_runtime.codegen.machine import native
from sparkflow_runtime.compiler.known import Known
from sparkflow_runtime.compiler.loops.moves import moved_inputs, pieces_of
from sparkflow_runtime.ops import registry
from sparkflow_runtime.ops.evaluation import NamedNode, computed

pytestmark = pytest.mark.skipif(not native.available(), reason="needs llvmlite")

A = np.arange(1.0, 13.0, dtype=np.float32).reshape(3, 4)
B = -np.arange(1.0, 10.0, dtype=np.float32).reshape(3, 3)


def planned(make: Callable[[Any, Any], Any]) -> tuple[Any, list[Any], list[Known], tuple[int, ...]]:
    """Returns the node made from two placeholders, its inputs, what is known, and what moves."""
    with tf.Graph().as_default(), tf.Session() as session:
        given = {tf.placeholder(tf.float32, each.shape): each for each in (A, B)}
        made = make(*given)
        operation = (made[0] if isinstance(made, list) else made).op
        values = [session.run(each, given) for each in operation.inputs]
        known = [
            Known(
                dtypes.as_dtype(value.dtype),
                value.shape,
                None if each in given else value,
            )
            for each, value in zip(operation.inputs, values, strict=True)
        ]
        node = NamedNode(operation.name, operation.type, dict(operation._attrs))
    return node, values, known, moved_inputs(node, known)  # type: ignore[arg-type]  # a node's view


@pytest.mark.parametrize(
    "make",
    [
        lambda a, b: tf.concat([a, b], 1),
        lambda a, b: tf.split(a, 2, 1),
        lambda a, b: tf.split(a, [1, 3], 1),
        lambda a, b: tf.transpose(a),
        lambda a, b: tf.pad(a, [[1, 0], [2, 1]]),
        lambda a, b: tf.reverse(a, [0, 1]),
        lambda a, b: tf.tile(a, [2, 3]),
        lambda a, b: tf.stack([a, a]),
        lambda a, b: a[1:, ::2],
        lambda a, b: tf.gather(a, [2, 0, 2]),
        lambda a, b: tf.unstack(a),
        lambda a, b: tf.reshape(a, [12]),
        lambda a, b: tf.gradients(a[:, 1:2], a, b[:, :1])[0],
    ],
)
def test_pieces(make: Callable[[Any, Any], Any]) -> None:
    node, values, known, moved = planned(make)
    assert moved
    pieces = pieces_of(node, known, moved)
    assert pieces is not None
    wanted = computed(registry.lookup(node.op), node, values)
    assert wanted is not None
    for each, result in zip(pieces, wanted, strict=True):
        out = np.full(result.shape, 99, result.dtype)
        sources = [np.ascontiguousarray(values[place]) for place in moved]
        bind_copies(each, len(moved))(*sources, out)
        np.testing.assert_array_equal(out, result)


def test_rows_of_two_arrays_are_two_pieces() -> None:
    node, _, known, moved = planned(lambda a, b: tf.concat([a, b], 1))
    assert pieces_of(node, known, moved) == [
        [Pieces(0, 0, 0, 16, 3, 16, 28), Pieces(1, 0, 16, 12, 3, 12, 28)]
    ]


def test_what_consists_of_many_zeros_is_cleared_at_once() -> None:
    node, _, known, moved = planned(lambda a, b: tf.gradients(a[:, 1:2], a, b[:, :1])[0])
    ((first, *others),) = pieces_of(node, known, moved) or [[]]
    assert first == Pieces(ZEROS, 0, 0, A.nbytes)
    assert [each.source for each in others] == [0] * len(others)
    node, _, known, moved = planned(lambda a, b: tf.pad(tf.tile(a, [1, 40]), [[0, 0], [1, 0]]))
    (pieces,) = pieces_of(node, known, moved) or [[]]
    assert [(each.length, each.count) for each in pieces if each.source == ZEROS] == [(4, 3)]


@pytest.mark.parametrize(
    "make", [lambda a, b: a + 1.0, lambda a, b: tf.matmul(b, a), lambda a, b: tf.nn.softmax(a)]
)
def test_what_computes_moves_nothing(make: Callable[[Any, Any], Any]) -> None:
    assert planned(make)[-1] == ()

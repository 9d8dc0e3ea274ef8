import numpy as np
import pytest

import sparkflow as tf
from sparkflow_runtime.codegen.machine import native
from sparkflow_runtime.ops.native.strips import Strips

pytestmark = pytest.mark.skipif(not native.available(), reason="there is no code generator here")

SHAPES = [
    ([(3, 2), (3, 5), (3, 0)], 1),
    ([(3, 2), (1, 2)], 0),
    ([(2, 3, 4), (2, 1, 4)], -2),
    ([(7,)], 0),
    ([(0, 2), (0, 3)], 1),
]


@pytest.mark.parametrize(("shapes", "axis"), SHAPES)
@pytest.mark.parametrize("dtype", [np.float32, np.int64, np.bool_, np.complex128])
def test_joined_and_cut_as_by_numpy(shapes, axis, dtype):
    parts = [np.random.default_rng(1).integers(0, 9, shape).astype(dtype) for shape in shapes]
    expected = np.concatenate(parts, axis)
    join, cut = Strips(), Strips(is_cut=True)
    for _ in range(2):
        whole = np.full_like(expected, 7)
        assert join.copy(parts, axis, whole)
        np.testing.assert_array_equal(whole, expected)
        found = [np.full_like(part, 7) for part in parts]
        assert cut.copy(found, axis, whole)
        for part, same in zip(parts, found, strict=True):
            np.testing.assert_array_equal(part, same)


@pytest.mark.parametrize("axis", [0, 1, 2, -1])
def test_stacked_as_by_numpy(axis):
    parts = [np.full((3, 2), number, np.float32) for number in range(4)]
    expected = np.stack(parts, axis)
    found = np.full_like(expected, 7)
    assert Strips(is_stacked=True).copy(parts, axis, found)
    np.testing.assert_array_equal(found, expected)


def test_what_does_not_fit_is_left_alone():
    one, whole = np.ones((3, 2), np.float32), np.zeros((3, 4), np.float32)
    strips = Strips()
    for parts, axis in (
        ([one], 1),
        ([one, one], 0),
        ([one, one], 2),
        ([one, np.ones((2, 2), np.float32)], 1),
        ([one, one.astype(np.float64)], 1),
        ([one, one[0]], 1),
        ([one, np.ones((2, 3), np.float32).T], 1),  # not in order
    ):
        assert not strips.copy(parts, axis, whole)
        assert not whole.any()
    names = np.array([["a"], ["b"]], object)
    assert not strips.copy([names], 1, np.empty_like(names))
    assert strips.copy([one, one], 1, whole)
    assert whole.all()


def test_a_graph_with_short_strips():
    x = tf.placeholder(tf.float32, [None, 6])
    first, second, third = tf.split(x * 2.0, 3, 1)
    joined = tf.concat([third, first - second, tf.stack([first[:, 0], second[:, 1]], 1)], 1)
    slope = tf.gradients(joined * joined, x)[0]
    with tf.Session() as session:
        for rows in (5, 5, 3, 3, 0):
            given = np.arange(6.0 * rows, dtype=np.float32).reshape(rows, 6)
            found, found_slope = session.run([joined, slope], {x: given})
            a, b, c = np.split(2 * given, 3, 1)
            wanted = np.concatenate([c, a - b, np.stack([a[:, 0], b[:, 1]], 1)], 1)
            np.testing.assert_array_equal(found, wanted)
            change = 4 * wanted
            ends = [change[:, 2:4], -change[:, 2:4], change[:, :2]]
            ends[0] = ends[0] + np.stack([change[:, 4], 0 * change[:, 4]], 1)
            ends[1] = ends[1] + np.stack([0 * change[:, 5], change[:, 5]], 1)
            np.testing.assert_allclose(found_slope, np.concatenate(ends, 1), rtol=1e-6)

"""float16 and bfloat16 are computed in float32 and rounded once, in kernels of any kind."""

import numpy as np
import pytest

import sparkflow as tf
from sparkflow_runtime.codegen.machine import native
from sparkflow_runtime.ops.kernel import StepArithmetic
from sparkflow_runtime.ops.kernels import narrow_kernels

SPECIAL = (np.nan, np.inf, -np.inf, 0.0, -0.0, 6e-8, 1e-40, 65504.0, 65520.0, 1.00049, 3e38)
KINDS = pytest.mark.parametrize("kind", [tf.float16, tf.bfloat16], ids=lambda each: each.name)


def values(size, kind, seed):
    found = np.random.default_rng(seed).normal(size=size).astype(np.float32)
    found[: len(SPECIAL)] = SPECIAL[:size]
    np.random.default_rng(seed + 1).shuffle(found)
    with np.errstate(over="ignore"):
        return found.astype(kind.as_numpy_dtype)


def computed(make, *arrays):
    """Returns a session's results from variables, several times: fused from the second step on."""
    with tf.Graph().as_default(), tf.Session() as session:
        held = [tf.Variable(each) for each in arrays]
        made = make(*map(tf.convert_to_tensor, held))
        session.run(tf.global_variables_initializer())
        for _ in range(3):
            found = session.run(made)
        return found


def assert_same(found, expected):
    assert [each.dtype for each in found] == [each.dtype for each in expected]
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one.astype(np.float64), other.astype(np.float64))


@KINDS
@pytest.mark.parametrize("size", [0, 1, 7, 37, 5000])
def test_every_op_of_a_fused_kernel_rounds(kind, size):
    x, y, z = (values(size, kind, seed) for seed in range(3))

    def make(x, y, z):
        product = x * y
        total = product + z
        wide = tf.cast(total, tf.float32) - 1.0
        return [product, total, wide, tf.where(x > y, z, total), tf.cast(wide, kind)]

    with StepArithmetic():
        product = (x.astype(np.float32) * y.astype(np.float32)).astype(x.dtype)
        total = (product.astype(np.float32) + z.astype(np.float32)).astype(x.dtype)
        wide = total.astype(np.float32) - np.float32(1)
        chosen = np.where(x.astype(np.float32) > y.astype(np.float32), z, total)
        expected = [product, total, wide, chosen, wide.astype(x.dtype)]
    assert_same(computed(make, x, y, z), expected)


@KINDS
@pytest.mark.parametrize("has_code", [True, False])
def test_sums_and_products_keep_their_small_terms(kind, has_code, monkeypatch):
    if not has_code:
        monkeypatch.setattr(native, "available", lambda: False)
    rng = np.random.default_rng(0)
    x = (1 + 0.1 * rng.random((64, 600))).astype(kind.as_numpy_dtype)
    wide = x.astype(np.float64)

    def make(x):
        return [
            *(tf.reduce_sum(x, axis) for axis in (0, 1)),
            tf.reduce_mean(x),
            tf.matmul(x, x, transpose_b=True),
            tf.einsum("ij,kj->ik", x, x),
            tf.math.segment_sum(x, np.arange(64) // 32),
            tf.cumsum(x, 1),
        ]

    expected = [
        wide.sum(0),
        wide.sum(1),
        wide.mean(),
        *[wide @ wide.T] * 2,
        wide.reshape(2, 32, 600).sum(1),
        wide.cumsum(1),
    ]
    for found, right in zip(computed(make, x), expected, strict=True):
        assert found.dtype == x.dtype
        rounding = 2.0**-10 if kind is tf.float16 else 2.0**-7
        np.testing.assert_allclose(found.astype(np.float64), right, rtol=rounding)


@KINDS
def test_bits_stay_where_bits_count(kind):
    x = values(20, kind, 0)
    with tf.Graph().as_default(), tf.Session() as session:
        given, text = tf.placeholder(kind, [20]), tf.placeholder(tf.string, [])
        written = session.run(tf.serialize_tensor(given), {given: x})
        made = [tf.decode_raw(text, kind), tf.parse_tensor(text, kind)]
        raw = session.run(made[0], {text: x.tobytes()})
        parsed = session.run(made[1], {text: written})
    for each in (raw, parsed):
        assert each.tobytes() == x.tobytes()
        assert each.dtype == x.dtype
    assert len(written) < 4 * x.size


def test_what_is_no_float32_is_converted_all_the_same():
    x = np.arange(12.0).reshape(3, 4)[:, ::2]
    for target in (tf.float16, tf.bfloat16):
        found = narrow_kernels.converted(x, tf.float32, target)
        np.testing.assert_array_equal(found.astype(np.float64), x)

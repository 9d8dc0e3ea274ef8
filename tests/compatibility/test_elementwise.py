"""Mathematics of single elements, used as TensorFlow 1's own unit tests use it."""

import numpy as np

import sparkflow as tf


class BinaryOpTest(tf.test.TestCase):
    def test_float_basic(self):
        x = np.linspace(-5, 20, 15).reshape(1, 3, 5).astype(np.float32)
        y = np.linspace(20, -5, 15).reshape(1, 3, 5).astype(np.float32)
        pairs = [
            (tf.add, np.add),
            (tf.subtract, np.subtract),
            (tf.multiply, np.multiply),
            (tf.truediv, np.true_divide),
            (tf.floordiv, np.floor_divide),
            (tf.mod, np.mod),
            (tf.maximum, np.maximum),
            (tf.minimum, np.minimum),
            (tf.atan2, np.arctan2),
            (tf.squared_difference, lambda a, b: (a - b) ** 2),
        ]
        for tf_func, np_func in pairs:
            with self.test_session(use_gpu=True):
                self.assertAllClose(
                    np_func(x, y + 0.1), tf_func(x, (y + 0.1).astype(np.float32)).eval(), rtol=1e-5
                )

    def test_overloads(self):
        x = np.arange(1, 7).reshape(2, 3)
        y = np.array([3, -2, 2])
        with self.test_session():
            a, b = tf.constant(x), tf.constant(y)
            self.assertAllEqual(x + y, (a + b).eval())
            self.assertAllEqual(x + y, (x + b).eval())
            self.assertAllEqual(x - y, (a - y).eval())
            self.assertAllEqual(y - x, (y - a).eval())
            self.assertAllEqual(x * y, (a * b).eval())
            self.assertAllEqual(x // y, (a // b).eval())
            self.assertAllEqual(x % y, (a % b).eval())
            self.assertAllClose(x / y, (a / b).eval())
            self.assertEqual(tf.float64, (a / b).dtype)
            self.assertAllEqual(x**2, (a**2).eval())
            self.assertAllEqual(2**x, (2**a).eval())
            self.assertAllEqual(-x, (-a).eval())
            self.assertAllEqual(abs(y), abs(b).eval())
            self.assertAllEqual(x > y, (a > b).eval())
            self.assertAllEqual(x <= y, (a <= b).eval())
            t, f = tf.constant([True, False]), tf.constant([True, True])
            self.assertAllEqual([True, False], (t & f).eval())
            self.assertAllEqual([True, True], (t | f).eval())
            self.assertAllEqual([False, True], (t ^ f).eval())
            self.assertAllEqual([False, True], (~t).eval())
            self.assertAllEqual(
                [[14, 14], [32, 32]],
                (
                    tf.constant([[1, 2, 3], [4, 5, 6]]) @ tf.constant([[1, 1], [2, 2], [3, 3]])
                ).eval(),
            )

    def test_integer_division(self):
        with self.test_session():
            self.assertAllEqual([-2, 1], tf.div([-4, 3], [2, 2]).eval())
            self.assertAllEqual([-3, 1], tf.floordiv([-5, 3], [2, 2]).eval())
            self.assertAllEqual([-2, 1], tf.truncatediv([-5, 3], [2, 2]).eval())
            self.assertAllEqual([-1, 1], tf.truncatemod([-5, 3], [2, 2]).eval())
            self.assertAllEqual([1, 1], tf.floormod([-5, 3], [2, 2]).eval())
            with self.assertRaisesOpError("Integer division by zero"):
                tf.div(tf.constant([4]), tf.placeholder_with_default([0], [1])).eval()
            with self.assertRaisesOpError("Integer division by zero"):
                (tf.constant([4]) % tf.placeholder_with_default([0], [1])).eval()

    def test_negative_power(self):
        with self.test_session():
            with self.assertRaisesOpError("Integers to negative integer powers are not allowed"):
                tf.pow(tf.placeholder_with_default([2], [1]), [-1]).eval()

    def test_mismatched_dtypes(self):
        with self.assertRaisesRegex(TypeError, "type float32 of argument|type.* float32.* int32"):
            tf.add(tf.constant(1), tf.constant(1.0))
        with self.assertRaises((TypeError, ValueError)):
            tf.constant(1) + 1.5
        with self.assertRaises((TypeError, ValueError)):
            tf.constant([1.0]) + "a"

    def test_mismatched_shapes(self):
        for func in [
            tf.add,
            tf.subtract,
            tf.multiply,
            tf.div,
            tf.less,
            tf.equal,
            tf.maximum,
            tf.pow,
        ]:
            with self.assertRaisesRegex(
                ValueError, r"Dimensions must.* equal, but are 3 and 2|Incompatible shapes"
            ):
                func(tf.constant([10.0, 20.0, 30.0]), tf.constant([[40.0, 50.0], [60.0, 70.0]]))
        with self.test_session():
            a = tf.placeholder(tf.float32)
            with self.assertRaisesOpError(r"Incompatible shapes: \[2\] vs. \[3\]"):
                (a + [1.0, 2.0, 3.0]).eval({a: [1.0, 2.0]})
            with self.assertRaisesOpError(r"Incompatible shapes: \[2\] vs. \[3\]"):
                tf.less(a, [1.0, 2.0, 3.0]).eval({a: [1.0, 2.0]})

    def test_broadcast_gradients(self):
        rng = np.random.RandomState(0)
        shapes = [([2, 3], [3]), ([2, 1, 3], [4, 1]), ([], [2, 2]), ([1], [3]), ([2, 0], [1])]
        with self.test_session():
            for xs, ys in shapes:
                x = tf.constant(np.asarray(rng.rand(*xs) + 1))
                y = tf.constant(np.asarray(rng.rand(*ys) + 1))
                for f in (
                    tf.add,
                    tf.subtract,
                    tf.multiply,
                    tf.div,
                    tf.maximum,
                    tf.pow,
                    tf.squared_difference,
                ):
                    z = f(x, y)
                    if 0 in xs:
                        gx, gy = tf.gradients(z, [x, y])
                        self.assertEqual(tuple(xs), gx.eval().shape)
                        self.assertAllEqual([0], gy.eval())
                        continue
                    for v, s in ((x, xs), (y, ys)):
                        value = v.eval()
                        error = tf.test.compute_gradient_error(
                            v, s, z, z.get_shape().as_list(), x_init_value=value, delta=1e-5
                        )
                        self.assertLess(error, 1e-5)

    def test_zero_pow_gradient(self):
        with self.test_session():
            for dtype in np.float16, np.float32, np.float64:
                x = tf.constant(0.0, dtype=dtype)
                y = tf.constant(2.0, dtype=dtype)
                z = tf.pow(x, y)
                self.assertEqual(0, tf.gradients(z, y)[0].eval())

    def test_complex(self):
        x = np.array([1 + 2j, -3 + 0.5j], np.complex64)
        with self.test_session():
            self.assertAllClose(np.abs(x), tf.abs(x).eval())
            self.assertEqual(tf.float32, tf.abs(x).dtype)
            self.assertAllClose(x.real, tf.real(x).eval())
            self.assertAllClose(x.imag, tf.imag(x).eval())
            self.assertAllClose(np.angle(x), tf.angle(x).eval())
            self.assertAllClose(np.conj(x), tf.conj(x).eval())
            self.assertAllClose(np.exp(x), tf.exp(x).eval())
            self.assertAllClose(np.sqrt(x), tf.sqrt(x).eval())
            self.assertAllClose(x.real + 1j, tf.complex(x.real, np.ones(2, np.float32)).eval())
            self.assertAllClose(np.array([1.0]), tf.real([1.0]).eval())
            with self.assertRaises((TypeError, ValueError)):
                tf.less(x, x)


class UnaryOpTest(tf.test.TestCase):
    def test_floats(self):
        x = np.linspace(0.05, 0.95, 12).reshape(3, 4)
        import scipy.special as special

        pairs = [
            (tf.abs, np.abs),
            (tf.negative, np.negative),
            (tf.square, np.square),
            (tf.sqrt, np.sqrt),
            (tf.rsqrt, lambda v: 1 / np.sqrt(v)),
            (tf.exp, np.exp),
            (tf.expm1, np.expm1),
            (tf.log, np.log),
            (tf.log1p, np.log1p),
            (tf.sinh, np.sinh),
            (tf.cosh, np.cosh),
            (tf.tanh, np.tanh),
            (tf.asinh, np.arcsinh),
            (tf.atanh, np.arctanh),
            (tf.sigmoid, special.expit),
            (tf.sin, np.sin),
            (tf.cos, np.cos),
            (tf.tan, np.tan),
            (tf.asin, np.arcsin),
            (tf.acos, np.arccos),
            (tf.atan, np.arctan),
            (tf.lgamma, special.gammaln),
            (tf.digamma, special.digamma),
            (tf.erf, special.erf),
            (tf.erfc, special.erfc),
            (tf.reciprocal, np.reciprocal),
            (tf.sign, np.sign),
            (tf.log_sigmoid, lambda v: np.log(special.expit(v))),
            (tf.nn.softsign, lambda v: v / (np.abs(v) + 1)),
            (tf.nn.softplus, lambda v: np.log1p(np.exp(v))),
            (tf.nn.elu, lambda v: np.where(v < 0, np.expm1(v), v)),
        ]
        for dtype, rtol in ((np.float32, 1e-5), (np.float64, 1e-10)):
            with self.test_session():
                for tf_func, np_func in pairs:
                    value = x.astype(dtype)
                    tensor = tf.constant(value)
                    y = tf_func(tensor)
                    self.assertEqual(dtype, y.dtype.as_numpy_dtype)
                    self.assertAllClose(np_func(x), y.eval(), rtol=rtol, atol=rtol)
                    if dtype == np.float64 and tf_func is not tf.sign:
                        error = tf.test.compute_gradient_error(
                            tensor, [3, 4], y, [3, 4], x_init_value=value, delta=1e-5
                        )
                        self.assertLess(error, 1e-4, tf_func)

    def test_rounding(self):
        x = np.array([-2.5, -1.7, -0.5, 0.5, 1.5, 2.5, 2.7])
        with self.test_session():
            self.assertAllEqual(np.round(x), tf.round(x).eval())
            self.assertAllEqual(np.rint(x), tf.rint(x).eval())
            self.assertAllEqual(np.floor(x), tf.floor(x).eval())
            self.assertAllEqual(np.ceil(x), tf.ceil(x).eval())
            self.assertAllEqual([1, 2], tf.round([1, 2]).eval())
            self.assertIs(None, tf.gradients(tf.floor(tf.constant(x)), [tf.constant(x)])[0])

    def test_nan_inf(self):
        x = np.array([1.0, np.nan, np.inf, -np.inf], np.float32)
        with self.test_session():
            self.assertAllEqual(np.isnan(x), tf.is_nan(x).eval())
            self.assertAllEqual(np.isinf(x), tf.is_inf(x).eval())
            self.assertAllEqual(np.isfinite(x), tf.is_finite(x).eval())

    def test_accumulate_and_add_n(self):
        with self.test_session():
            x = [tf.constant([1.0, 2.0]), tf.constant([3.0, 4.0]), tf.Variable([5.0, 6.0])]
            self.evaluate(tf.global_variables_initializer())
            self.assertAllEqual([9, 12], tf.accumulate_n(x).eval())
            self.assertAllEqual([9, 12], tf.add_n(x).eval())
            self.assertAllEqual(
                [[1, 1]] * 2, [g.eval() for g in tf.gradients(tf.accumulate_n(x[:2]), x[:2])]
            )
            with self.assertRaisesRegex(ValueError, "inputs must be a list of at least one Tensor"):
                tf.add_n([])
            with self.assertRaisesRegex(ValueError, "inputs must be a list of at least one Tensor"):
                tf.accumulate_n([])
            with self.assertRaises((TypeError, ValueError)):
                tf.accumulate_n([tf.constant([1.0]), tf.constant([1])])
            with self.assertRaises(ValueError):
                tf.add_n([tf.constant([1.0]), tf.constant([1.0, 2.0])])

    def test_log_sum_exp_and_others(self):
        x = np.random.RandomState(0).rand(3, 4).astype(np.float32) * 100
        with self.test_session():
            self.assertAllClose(
                np.log(np.exp(x.astype(np.float64)).sum(1)), tf.reduce_logsumexp(x, 1).eval()
            )
            self.assertEqual((3, 1), tf.reduce_logsumexp(x, 1, keep_dims=True).eval().shape)
            self.assertAllClose(-np.inf, tf.reduce_logsumexp([-np.inf, -np.inf]).eval())


class BetaincTest(tf.test.TestCase):
    def test_values(self):
        import scipy.special as special

        rng = np.random.RandomState(0)
        a, b, x = rng.rand(3, 5) * 10, rng.rand(3, 5) * 10, rng.rand(3, 5)
        with self.test_session():
            self.assertAllClose(special.betainc(a, b, x), tf.betainc(a, b, x).eval(), rtol=1e-6)
            self.assertAllClose(special.gammainc(a, b), tf.igamma(a, b).eval(), rtol=1e-6)
            self.assertAllClose(special.gammaincc(a, b), tf.igammac(a, b).eval(), rtol=1e-6)
            self.assertAllClose(special.zeta(a + 1, b), tf.zeta(a + 1, b).eval(), rtol=1e-6)
            self.assertAllClose(
                special.polygamma(np.array([1, 2]), np.array([0.5, 1.5])),
                tf.polygamma([1.0, 2.0], [0.5, 1.5]).eval(),
                rtol=1e-5,
            )
            self.assertAllClose(
                special.gammaln(a) + special.gammaln(b) - special.gammaln(a + b),
                tf.lbeta(np.stack([a, b], -1)).eval(),
                rtol=1e-6,
            )
            with self.assertRaises(ValueError):
                tf.betainc(0.5, [0.5, 0.5], [[0.5]])
            for nan in tf.betainc(
                np.array([-1.0, 1.0]), 1.0 * np.ones(2), np.array([0.5, 2.0])
            ).eval():
                self.assertTrue(np.isnan(nan))


class MiscMathTest(tf.test.TestCase):
    def test_confusion_matrix(self):
        with self.test_session():
            self.assertAllEqual(
                [[0, 0, 0], [0, 1, 1], [0, 0, 1]], tf.confusion_matrix([1, 2, 1], [1, 2, 2]).eval()
            )
            self.assertAllEqual(
                [[2.0, 0], [0, 0.5]],
                tf.confusion_matrix(
                    [0, 1], [0, 1], num_classes=2, weights=[2.0, 0.5], dtype=tf.float32
                ).eval(),
            )
            with self.assertRaisesOpError("`labels`.*out of bound|negative values|out of bound"):
                tf.confusion_matrix([3], [0], num_classes=2).eval()

    def test_clip(self):
        x = np.array([[-5.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
        with self.test_session() as sess:
            self.assertAllClose(np.clip(x, -4.4, 4.4), tf.clip_by_value(x, -4.4, 4.4).eval())
            self.assertAllClose(
                [[-3.0, 0, 0], [4.0, 0, 0]],
                tf.clip_by_norm([[-3.0, 0, 0], [4.0, 0, 0]], 5.0).eval(),
            )
            self.assertAllClose(
                [[-2.4, 0, 0], [3.2, 0, 0]],
                tf.clip_by_norm([[-3.0, 0, 0], [4.0, 0, 0]], 4.0).eval(),
            )
            self.assertAllClose(
                [[-1.0, 0], [1.0, 0]], tf.clip_by_norm([[-3.0, 0], [4.0, 0]], 1.0, axes=[1]).eval()
            )
            clipped, norm = tf.clip_by_global_norm([[-2.0, 0, 0, 4.0, 0, 0], [1.0, -2.0]], 4.0)
            self.assertAllClose(5.0, norm.eval())
            self.assertAllClose([0.8, -1.6], sess.run(clipped[1]))
            clipped, norm = tf.clip_by_global_norm(
                [tf.constant([3.0]), None, tf.IndexedSlices(tf.constant([4.0]), tf.constant([1]))],
                1.0,
            )
            self.assertIs(None, clipped[1])
            self.assertAllClose([0.8], clipped[2].values.eval())
            self.assertAllClose(
                [[-1.2, 0, 0], [1.6, 0, 0]],
                tf.clip_by_average_norm([[-3.0, 0, 0], [4.0, 0, 0]], 2.0 / 6).eval(),
            )
            with self.assertRaisesRegex(TypeError, "t_list should be a sequence"):
                tf.clip_by_global_norm(tf.constant(1.0), 1.0)

    def test_clip_by_norm_zero_gradient(self):
        with self.test_session():
            x = tf.zeros([3])
            y = tf.clip_by_norm(x, 1.0)
            self.assertAllEqual([0, 0, 0], y.eval())
            self.assertFalse(np.isnan(tf.gradients(y, x)[0].eval()).any())

    def test_histogram_and_bincount(self):
        with self.test_session():
            self.assertAllEqual(
                [2, 1, 1, 0, 2],
                tf.histogram_fixed_width(
                    [-1.0, 0.0, 1.5, 2.0, 5.0, 15], [0.0, 5.0], nbins=5
                ).eval(),
            )
            self.assertAllEqual([0, 1, 2], tf.bincount([2, 1, 2]).eval())
            self.assertAllEqual(
                [0, 0.5, 3.0], tf.bincount([2, 1, 2], weights=[1.0, 0.5, 2.0]).eval()
            )
            self.assertAllEqual([0, 1], tf.bincount([2, 1, 2], maxlength=2).eval())

    def test_in_top_k(self):
        predictions = [[0.1, 0.3, 0.2, 0.4], [0.1, 0.2, 0.3, 0.4]]
        with self.test_session():
            self.assertAllEqual([True, False], tf.nn.in_top_k(predictions, [3, 2], 1).eval())
            self.assertAllEqual([False, True], tf.nn.in_top_k(predictions, [0, 2], 2).eval())
            self.assertAllEqual(
                [False, False],
                tf.nn.in_top_k([[0.1, np.nan, 0.2], [0.1, 0.2, np.inf]], [1, 2], 2).eval(),
            )
            with self.assertRaisesRegex(ValueError, "must be equal"):
                tf.nn.in_top_k(predictions, [0, 1, 2], 1)

    def test_top_k(self):
        x = [[0.1, 0.3, 0.2, 0.4], [0.1, 0.3, 0.3, 0.2]]
        with self.test_session() as sess:
            values, indices = sess.run(tf.nn.top_k(x, 2))
            self.assertAllEqual([[3, 1], [1, 2]], indices)
            self.assertAllClose([[0.4, 0.3], [0.3, 0.3]], values)
            named = tf.nn.top_k(x, k=3, sorted=True)
            self.assertEqual([2, 3], named.values.get_shape().as_list())
            with self.assertRaisesRegex(ValueError, "input must have last dimension >= k = 4"):
                tf.nn.top_k([[0.1, 0.2], [0.3, 0.4]], 4)
            p = tf.placeholder(tf.int32)
            with self.assertRaisesOpError("input must have at least k columns"):
                tf.nn.top_k(x, p).values.eval({p: 9})
            with self.assertRaisesOpError("Need k >= 0, got -7"):
                tf.nn.top_k(x, p).values.eval({p: -7})
            t = tf.constant(x)
            g = tf.gradients(tf.nn.top_k(t, 2).values, t)[0].eval()
            self.assertAllEqual([[0, 1, 0, 1], [0, 1, 1, 0]], g)


class DtypeCastTest(tf.test.TestCase):
    def test_casts(self):
        x = np.array([-1.7, 0.0, 2.9])
        with self.test_session():
            self.assertAllEqual([-1, 0, 2], tf.cast(x, tf.int32).eval())
            self.assertAllEqual([True, False, True], tf.cast(x, tf.bool).eval())
            self.assertAllEqual([1.0, 0.0], tf.to_float([True, False]).eval())
            self.assertEqual(tf.float64, tf.to_double([1]).dtype)
            self.assertEqual(tf.int64, tf.to_int64([1.5]).dtype)
            self.assertEqual(tf.bfloat16, tf.to_bfloat16([1.5]).dtype)
            self.assertAllEqual([2, 0], tf.saturate_cast([2.5, -3.0], tf.uint8).eval())
            y = tf.constant([1.0])
            self.assertIs(y, tf.cast(y, tf.float32))
            sparse = tf.SparseTensor([[0]], [1.5], [3])
            self.assertEqual(tf.int32, tf.cast(sparse, tf.int32).dtype)
            with self.assertRaises(
                (TypeError, ValueError, NotImplementedError, tf.errors.UnimplementedError)
            ):
                tf.cast(["a"], tf.int32).eval()

    def test_bitcast(self):
        with self.test_session():
            x = np.random.RandomState(0).randint(0, 100, (2, 4)).astype(np.uint8)
            self.assertAllEqual(x.view(np.int32).reshape(2), tf.bitcast(x, tf.int32).eval())
            self.assertAllEqual(x.view(np.int8), tf.bitcast(x, tf.int8).eval())
            self.assertAllEqual(
                np.float32([1.0]).view(np.int32), tf.bitcast(np.float32([1.0]), tf.int32).eval()
            )
            with self.assertRaisesRegex(ValueError, "Cannot bitcast"):
                tf.bitcast(np.zeros((7,), np.uint8), tf.int32)

    def test_gradient(self):
        with self.test_session():
            x = tf.constant([1.0, 2.0])
            self.assertEqual(tf.float32, tf.gradients(tf.cast(x, tf.float64), x)[0].dtype)
            self.assertIs(None, tf.gradients(tf.cast(x, tf.int32), x)[0])


if __name__ == "__main__":
    tf.test.main()

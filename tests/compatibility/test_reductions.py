"""Reductions, scans and segments, used as TensorFlow 1's own unit tests use them."""

import numpy as np

import sparkflow as tf


class ReductionTest(tf.test.TestCase):
    def _check(self, tf_f, np_f, x, axes, keepdims):
        got = tf_f(x, axis=axes, keepdims=keepdims)
        np_axes = tuple(axes) if isinstance(axes, list) else axes
        expected = np_f(x, axis=np_axes, keepdims=keepdims)
        self.assertAllClose(expected, got.eval(), rtol=1e-5)
        self.assertShapeEqual(np.asarray(expected), got)

    def test_everything(self):
        x = np.arange(1, 31).reshape(2, 3, 5)
        pairs = [
            (tf.reduce_sum, np.sum),
            (tf.reduce_mean, np.mean),
            (tf.reduce_prod, np.prod),
            (tf.reduce_max, np.max),
            (tf.reduce_min, np.min),
        ]
        for tf_f, np_f in pairs:
            for dtype in (np.float32, np.float64):
                with self.test_session(graph=tf.Graph()):
                    for axes in (None, 0, -1, [0], [0, 2], [1, 2], [0, 1, 2], [-1, -3]):
                        for keep in (False, True):
                            self._check(tf_f, np_f, x.astype(dtype) / 10, axes, keep)

    def test_booleans(self):
        x = np.array([[True, False], [True, True]])
        with self.test_session():
            self.assertAllEqual(x.all(1), tf.reduce_all(x, 1).eval())
            self.assertAllEqual(x.any(0), tf.reduce_any(x, reduction_indices=0).eval())
            self.assertAllEqual([2, 1], tf.count_nonzero(x, axis=0).eval())
            self.assertEqual(tf.int64, tf.count_nonzero(x).dtype)
            self.assertEqual(2, tf.count_nonzero(["", "a", "b"]).eval())

    def test_empty(self):
        with self.test_session():
            x = np.zeros((0, 3), np.float32)
            self.assertAllEqual([0, 0, 0], tf.reduce_sum(x, 0).eval())
            self.assertAllEqual([1, 1, 1], tf.reduce_prod(x, 0).eval())
            self.assertAllEqual([-np.inf] * 3, tf.reduce_max(x, 0).eval())
            self.assertAllEqual([np.nan] * 3, tf.reduce_mean(x, 0).eval())
            self.assertAllEqual(np.zeros(0), tf.reduce_mean(x, 1).eval())

    def test_invalid_index(self):
        with self.test_session():
            x = np.arange(0, 10).reshape([2, 5]).astype(np.int32)
            with self.assertRaisesRegex(ValueError, "Invalid reduction dimension"):
                tf.reduce_sum(tf.convert_to_tensor(x), [-3])
            with self.assertRaisesRegex(ValueError, "Invalid reduction dimension"):
                tf.reduce_sum(tf.convert_to_tensor(x), [2])
            p = tf.placeholder(tf.int32)
            with self.assertRaisesOpError("Invalid reduction dimension"):
                tf.reduce_sum(x, p).eval({p: [5]})
            with self.assertRaisesOpError("Axes contains duplicate dimension"):
                tf.reduce_sum(x, [0, 0]).eval()

    def test_partial_shapes(self):
        x = tf.placeholder(tf.float32)
        self.assertIs(None, tf.reduce_sum(x, [0]).get_shape().ndims)
        y = tf.placeholder(tf.float32, [None, 3, 2])
        self.assertEqual([None, 1, 2], tf.reduce_sum(y, 1, keepdims=True).get_shape().as_list())
        z = tf.reduce_sum(y, tf.placeholder(tf.int32, [1]))
        self.assertIs(None, z.get_shape().ndims)

    def test_gradients(self):
        x = np.random.RandomState(0).rand(2, 3, 4) + 0.5
        with self.test_session():
            for f in (
                tf.reduce_sum,
                tf.reduce_mean,
                tf.reduce_prod,
                tf.reduce_max,
                tf.reduce_min,
                tf.reduce_logsumexp,
            ):
                for axes in (None, [0], [1, 2], [0, 2]):
                    t = tf.constant(x)
                    y = f(t, axes)
                    error = tf.test.compute_gradient_error(
                        t, [2, 3, 4], y, y.get_shape().as_list(), x_init_value=x, delta=1e-4
                    )
                    self.assertLess(error, 1e-4)

    def test_prod_gradient_with_zeros(self):
        with self.test_session():
            x = tf.constant([[0.0, 2.0, 3.0], [0.0, 0.0, 1.0], [1.0, 2.0, 3.0]])
            g = tf.gradients(tf.reduce_prod(x, 1), x)[0].eval()
            self.assertAllEqual([[6, 0, 0], [0, 0, 0], [6, 3, 2]], g)

    def test_max_gradient_ties(self):
        with self.test_session():
            x = tf.constant([1.0, 3.0, 3.0])
            self.assertAllEqual([0, 0.5, 0.5], tf.gradients(tf.reduce_max(x), x)[0].eval())


class ScanTest(tf.test.TestCase):
    def test_all(self):
        x = np.arange(1, 13, dtype=np.float32).reshape(3, 4)
        with self.test_session():
            for axis in (0, 1, -1, -2):
                self.assertAllClose(np.cumsum(x, axis), tf.cumsum(x, axis).eval())
                self.assertAllClose(np.cumprod(x, axis), tf.cumprod(x, axis).eval())
            self.assertAllEqual([0, 1, 3], tf.cumsum([1, 2, 3], exclusive=True).eval())
            self.assertAllEqual([6, 5, 3], tf.cumsum([1, 2, 3], reverse=True).eval())
            self.assertAllEqual(
                [5, 3, 0], tf.cumsum([1, 2, 3], reverse=True, exclusive=True).eval()
            )
            self.assertAllEqual(
                [6, 3, 1], tf.cumprod([1, 2, 3], reverse=True, exclusive=True).eval()
            )

    def test_invalid_axis(self):
        x = np.arange(0, 10).reshape([2, 5]).astype(np.float32)
        input_tensor = tf.convert_to_tensor(x)
        with self.test_session():
            with self.assertRaisesWithPredicateMatch(
                tf.errors.InvalidArgumentError,
                lambda e: "Expected scan axis in the range [-2, 2)" in str(e),
            ):
                tf.cumsum(input_tensor, -3).eval()
            with self.assertRaisesWithPredicateMatch(
                tf.errors.InvalidArgumentError,
                lambda e: "Expected scan axis in the range [-2, 2)" in str(e),
            ):
                tf.cumprod(input_tensor, 2).eval()
            with self.assertRaisesWithPredicateMatch(
                tf.errors.InvalidArgumentError, lambda e: "axis must be a scalar" in str(e)
            ):
                tf.cumsum(input_tensor, [0]).eval()

    def test_gradient(self):
        with self.test_session():
            for exclusive in (True, False):
                for reverse in (True, False):
                    for f in (tf.cumsum, tf.cumprod):
                        t = tf.constant(np.arange(1.0, 10.0).reshape(3, 3) / 4)
                        y = f(t, axis=1, exclusive=exclusive, reverse=reverse)
                        self.assertLess(
                            tf.test.compute_gradient_error(t, [3, 3], y, [3, 3], delta=1e-4), 1e-5
                        )


class SegmentTest(tf.test.TestCase):
    def test_values(self):
        x = np.arange(1, 9).reshape(4, 2)
        ids = [0, 0, 2, 2]
        with self.test_session():
            self.assertAllEqual([[4, 6], [0, 0], [12, 14]], tf.segment_sum(x, ids).eval())
            self.assertAllEqual([[3, 8], [1, 1], [35, 48]], tf.segment_prod(x, ids).eval())
            self.assertAllEqual([[1, 2], [0, 0], [5, 6]], tf.segment_min(x, ids).eval())
            self.assertAllEqual([[3, 4], [0, 0], [7, 8]], tf.segment_max(x, ids).eval())
            self.assertAllClose(
                [[2, 3], [0, 0], [6, 7]], tf.segment_mean(x.astype(np.float32), ids).eval()
            )
            self.assertAllEqual(
                [[4, 6], [0, 0], [12, 14], [0, 0]], tf.unsorted_segment_sum(x, ids, 4).eval()
            )
            self.assertAllEqual(
                [[8, 10], [8, 10]], tf.unsorted_segment_sum(x, [0, 1, 1, 0], num_segments=2).eval()
            )
            self.assertAllClose(
                [[np.sqrt(2) * 2, 6 / np.sqrt(2)]],
                tf.unsorted_segment_sqrt_n(x[:2].astype(np.float32), [0, 0], 1).eval(),
            )

    def test_invalid_ids(self):
        tf_x = np.ones((4, 2), np.float32)
        with self.test_session():
            with self.assertRaisesOpError("segment_ids should be the same size"):
                tf.segment_sum(tf_x, [0, 1, 1]).eval()
            with self.assertRaisesOpError("segment ids are not increasing"):
                tf.segment_sum(tf_x, [0, 0, 2, 1]).eval()
            with self.assertRaisesOpError(r"segment ids must be >= 0|out of range"):
                tf.segment_sum(tf_x, [-1, 0, 1, 1]).eval()
            with self.assertRaisesOpError(
                r"segment_ids\[0\] = 9 is out of range \[0, 4\)|segment_ids.* is out of range"
            ):
                tf.unsorted_segment_sum(tf_x, [9, 0, 1, 1], 4).eval()

    def test_gradients(self):
        with self.test_session():
            x = tf.constant(np.random.RandomState(0).rand(4, 2))
            for y in (
                tf.segment_sum(x, [0, 1, 2, 2]),
                tf.segment_mean(x, [0, 0, 2, 2]),
                tf.segment_max(x, [0, 1, 2, 2]),
                tf.unsorted_segment_sum(x, [1, 0, 1, 2], 3),
                tf.unsorted_segment_max(x, [1, 0, 1, 2], 3),
                tf.unsorted_segment_prod(x, [1, 0, 1, 2], 3),
                tf.unsorted_segment_mean(x, [1, 0, 1, 2], 3),
            ):
                self.assertLess(tf.test.compute_gradient_error(x, [4, 2], y, [3, 2]), 1e-5)

    def test_sparse_segments(self):
        x = np.arange(1, 13, dtype=np.float32).reshape(4, 3)
        with self.test_session():
            self.assertAllClose([x[1] + x[2]], tf.sparse_segment_sum(x, [1, 2], [0, 0]).eval())
            self.assertAllClose(
                [(x[0] + x[3]) / 2, x[1]], tf.sparse_segment_mean(x, [0, 3, 1], [0, 0, 1]).eval()
            )
            self.assertAllClose(
                [x[0], np.zeros(3)], tf.sparse_segment_sum(x, [0], [0], num_segments=2).eval()
            )
            with self.assertRaisesOpError("segment ids are not increasing"):
                tf.sparse_segment_sum(x, [0, 1], [1, 0]).eval()
            with self.assertRaisesOpError(r"indices\[1\].* 10 (is not in|out of range)"):
                tf.sparse_segment_sum(x, [0, 10], [0, 1]).eval()


class RangeTest(tf.test.TestCase):
    def test_range(self):
        with self.test_session():
            self.assertAllEqual(np.arange(0, 5), tf.range(5).eval())
            self.assertAllEqual(np.arange(2, 9, 3), tf.range(2, 9, 3).eval())
            self.assertAllEqual([], tf.range(0, 0).eval())
            self.assertAllEqual([5, 4, 3], tf.range(5, 2, -1).eval())
            self.assertAllClose(np.arange(0, 1, 0.25), tf.range(0.0, 1.0, 0.25).eval())
            self.assertEqual(tf.int32, tf.range(5).dtype)
            self.assertEqual(tf.int64, tf.range(0, tf.constant(5, tf.int64)).dtype)
            self.assertEqual(tf.float64, tf.range(5, dtype=tf.float64).dtype)
            with self.assertRaises((ValueError, tf.errors.InvalidArgumentError)):
                tf.range(0, 5, 0).eval()
            with self.assertRaises((ValueError, tf.errors.InvalidArgumentError)):
                tf.range(5, 0).eval()
            self.assertEqual([3], tf.range(3).get_shape().as_list())

    def test_linspace(self):
        with self.test_session():
            self.assertAllClose(np.linspace(1, 5, 4), tf.linspace(1.0, 5.0, 4).eval())
            self.assertAllClose([2.0], tf.lin_space(2.0, 5.0, 1).eval())
            self.assertEqual([3], tf.linspace(0.0, 1.0, 3).get_shape().as_list())
            with self.assertRaises((ValueError, tf.errors.InvalidArgumentError)):
                tf.linspace(0.0, 1.0, 0).eval()


if __name__ == "__main__":
    tf.test.main()

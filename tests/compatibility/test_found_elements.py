"""Elements found, counted and gathered, used as TensorFlow 1's own unit tests use them."""

import numpy as np

import sparkflow as tf


class ArgMaxTest(tf.test.TestCase):
    def _check(self, method, x, dimension, expected, wrong=None):
        for use_gpu in (True, False):
            with self.test_session(use_gpu=use_gpu):
                result = method(x, dimension=dimension)
                if wrong is not None:
                    with self.assertRaisesOpError(wrong):
                        self.evaluate(result)
                else:
                    self.assertAllEqual(expected, result.eval())
                    self.assertShapeEqual(expected, result)

    def test_floats(self):
        x = np.asarray(100 * np.random.RandomState(0).randn(3, 2, 4, 5, 6), dtype=np.float32)
        for axis in (-5, -1, 0, 2, 4):
            self._check(tf.argmax, x, axis, x.argmax(axis))
            self._check(tf.argmin, x, axis, x.argmin(axis))

    def test_dtypes(self):
        for dtype in (np.float32, np.float64, np.int32, np.int64, np.int16, np.uint8):
            x = np.asarray([[9, 2, 0], [1, 4, 4]], dtype=dtype)
            self._check(tf.argmax, x, 1, x.argmax(1))
            self._check(tf.argmin, x, 0, x.argmin(0))

    def test_output_type(self):
        x = np.asarray(np.arange(12).reshape(3, 4), dtype=np.float32)
        with self.test_session():
            result = tf.argmax(x, axis=0, output_type=tf.int32)
            self.assertEqual(tf.int32, result.dtype)
            self.assertAllEqual([2, 2, 2, 2], result.eval())
            self.assertEqual(np.int32, result.eval().dtype)

    def test_empty(self):
        with self.cached_session():
            for op in tf.argmin, tf.argmax:
                with self.assertRaisesOpError(r"Reduction axis 0 is empty in shape \[0\]"):
                    op([], 0).eval()

    def test_default_axis(self):
        with self.cached_session():
            for op in tf.argmin, tf.argmax:
                answer = op([1]).eval()
                self.assertAllEqual(answer, 0)

    def test_output_empty(self):
        with self.cached_session():
            for op in tf.argmin, tf.argmax:
                ret = op(tf.zeros(shape=[1, 0, 2]), axis=-1).eval()
                self.assertEqual(ret.shape, (1, 0))

    def test_axis_out_of_range(self):
        with self.test_session():
            with self.assertRaisesRegex(ValueError, "must be in"):
                tf.argmax(tf.zeros([2, 3]), 2)
            place = tf.placeholder(tf.int32)
            with self.assertRaisesOpError("must be in the range"):
                tf.argmax(tf.zeros([2, 3]), place).eval({place: 5})


class SequenceMaskTest(tf.test.TestCase):
    def test_exceptions(self):
        with self.test_session():
            with self.assertRaisesRegex(ValueError, "maxlen must be scalar"):
                tf.sequence_mask([10, 20], [10, 20])

    def test_one_dim(self):
        with self.test_session():
            res = tf.sequence_mask(tf.constant([1, 3, 2]), 5)
            self.assertAllEqual(res.get_shape(), [3, 5])
            self.assertAllEqual(
                res.eval(),
                [
                    [True, False, False, False, False],
                    [True, True, True, False, False],
                    [True, True, False, False, False],
                ],
            )
            res = tf.sequence_mask(tf.constant([0, 1, 4]))
            self.assertAllEqual([3, 4], res.eval().shape)
            self.assertEqual([3, 4], res.get_shape().as_list())  # 2.21; 1.15 knew [3, None]

    def test_dtype_and_ranks(self):
        with self.test_session():
            res = tf.sequence_mask([[0, 1], [2, 3]], 3, dtype=tf.float32)
            self.assertAllEqual([[[0, 0, 0], [1, 0, 0]], [[1, 1, 0], [1, 1, 1]]], res.eval())
            self.assertEqual(tf.float32, res.dtype)
            res = tf.sequence_mask(
                tf.placeholder_with_default(np.int64(2), []), tf.constant(3, tf.int64)
            )
            self.assertAllEqual([True, True, False], res.eval())


class OneHotTest(tf.test.TestCase):
    def test_basic(self):
        indices = np.asarray([0, 2, -1, 1], dtype=np.int32)
        with self.test_session():
            expected = np.array([[1, -1, -1], [-1, -1, 1], [-1, -1, -1], [-1, 1, -1]], np.float32)
            got = tf.one_hot(indices, 3, np.float32(1.0), np.float32(-1.0))
            self.assertAllEqual(expected, got.eval())
            got = tf.one_hot(indices, 3, 1.0, -1.0, axis=0)
            self.assertAllEqual(expected.T, got.eval())
            self.assertEqual([3, 4], got.get_shape().as_list())

    def test_default_and_dtype(self):
        with self.test_session():
            self.assertEqual(tf.float32, tf.one_hot([0], 2).dtype)
            self.assertEqual(tf.int64, tf.one_hot([0], 2, dtype=tf.int64).dtype)
            self.assertEqual(tf.int32, tf.one_hot([0], 2, on_value=1).dtype)
            self.assertAllEqual(
                [[True, False]], tf.one_hot([0], 2, on_value=True, off_value=False).eval()
            )
            self.assertAllEqual([[b"a", b"b"]], tf.one_hot([0], 2, "a", "b").eval())
            with self.assertRaises(ValueError):
                tf.one_hot([0, 1], 2, axis=5)
            with self.assertRaises(TypeError):
                tf.one_hot([0.5], 2)


class WhereTest(tf.test.TestCase):
    def test_ranks(self):
        with self.test_session(use_gpu=True):
            for shape in [(4,), (3, 2), (2, 3, 2), (2, 0)]:
                x = np.random.RandomState(0).randint(0, 2, size=shape).astype(bool)
                expected = np.argwhere(x)
                got = tf.where(x)
                self.assertEqual(tf.int64, got.dtype)
                self.assertAllEqual(expected, got.eval())
                self.assertEqual([None, len(shape)], got.get_shape().as_list())

    def test_numbers(self):
        with self.test_session():
            self.assertAllEqual([[1], [3]], tf.where(np.array([0.0, 2.0, 0.0, np.nan])).eval())
            self.assertAllEqual([[0]], tf.where(np.array([1 + 0j, 0])).eval())

    def test_three_operands(self):
        with self.test_session():
            x = np.array([[-2, 3, -1], [1, -3, -3]])
            self.assertAllEqual(np.where(x > 0, x * x, -x), tf.where(x > 0, x * x, -x).eval())
            self.assertAllEqual(
                [[1, 1], [-1, -1]],
                tf.where([True, False], [[1, 1], [1, 1]], [[-1, -1], [-1, -1]]).eval(),
            )
            self.assertAllEqual([1, 1], tf.where(True, [1, 1], [2, 2]).eval())
            with self.assertRaises(ValueError):
                tf.where([False, True], [1, 2, 3], [1, 2, 3])
            with self.assertRaises(ValueError):
                tf.where([False, True], [1, 2], [1, 2, 3])
            with self.assertRaisesRegex(ValueError, "x and y must both be"):
                tf.where([False, True], [1, 2])
            self.assertEqual("Select", tf.where(True, 1, 2).op.type)


class UniqueTest(tf.test.TestCase):
    def test_unique(self):
        x = np.random.RandomState(1).randint(2, high=10, size=700)
        for idx in (tf.int32, tf.int64):
            with self.test_session() as sess:
                y, i = sess.run(tf.unique(x, out_idx=idx))
                self.assertEqual(len(y), len(np.unique(x)))
                self.assertAllEqual(x, y[i])
                self.assertEqual(idx.as_numpy_dtype, i.dtype)

    def test_with_counts(self):
        with self.test_session() as sess:
            y, i, c = sess.run(tf.unique_with_counts(["b", "a", "b", "c"]))
            self.assertAllEqual([b"b", b"a", b"c"], y)
            self.assertAllEqual([0, 1, 0, 2], i)
            self.assertAllEqual([2, 1, 1], c)

    def test_matrix_refused(self):
        with self.assertRaises(ValueError):
            tf.unique([[1, 2]])

    def test_setdiff(self):
        with self.test_session() as sess:
            out, idx = sess.run(tf.setdiff1d([1, 2, 3, 4, 5, 6], [1, 3, 5]))
            self.assertAllEqual([2, 4, 6], out)
            self.assertAllEqual([1, 3, 5], idx)
            out, idx = sess.run(tf.listdiff(["a", "b"], ["b"]))
            self.assertAllEqual([b"a"], out)


class GatherTest(tf.test.TestCase):
    def test_scalar_1d(self):
        with self.test_session(use_gpu=True):
            data = np.array([0, 1, 2, 3, 7, 5])
            for indices in 4, [4], [1, 2, 2, 4, 5]:
                got = tf.gather(tf.constant(data), tf.constant(indices))
                self.assertAllEqual(data[indices], got.eval())

    def test_axes(self):
        data = np.random.RandomState(0).rand(2, 3, 4, 5)
        indices = np.array([[0, 1], [2, 0]])
        with self.test_session():
            for axis in (1, 2, 3, -1, -3):
                got = tf.gather(data, indices, axis=axis)
                self.assertAllEqual(np.take(data, indices, axis=axis), got.eval())
                self.assertEqual("GatherV2", got.op.type)

    def test_gradient(self):
        data = np.random.RandomState(0).rand(4, 3)
        with self.test_session():
            x = tf.constant(data)
            g = tf.gradients(tf.gather(x, [1, 1, 3]), x)[0]
            self.assertIsInstance(g, tf.IndexedSlices)
            self.assertAllEqual(
                [[0] * 3, [2] * 3, [0] * 3, [1] * 3], tf.convert_to_tensor(g).eval()
            )
            g = tf.gradients(tf.gather(x, [0, 2], axis=1), x)[0]
            self.assertAllEqual([[1, 0, 1]] * 4, g.eval())

    def test_bad_indices(self):
        with self.test_session():
            params = [[0, 1, 2], [3, 4, 5]]
            with self.assertRaisesOpError(r"indices\[0,0\] = 7 is not in \[0, 2\)"):
                tf.gather(params, [[7]], axis=0).eval()
            with self.assertRaisesOpError(r"indices\[0,0\] = 7 is not in \[0, 3\)"):
                tf.gather(params, [[7]], axis=1).eval()

    def test_bad_axis(self):
        with self.test_session():
            params_ph = tf.placeholder(dtype=tf.int32)
            with self.assertRaisesRegex(ValueError, "must be at least rank"):
                tf.gather([0, 1, 2], 0, axis=1)
            with self.assertRaisesOpError(r"Expected axis in the range \[-?\d, \d\), but got -?2"):
                tf.gather(params_ph, 0, axis=2).eval({params_ph: [1, 2]})

    def test_empty(self):
        with self.test_session():
            self.assertAllEqual(
                np.zeros((0, 3)), tf.gather(np.zeros((2, 3)), np.zeros((0,), np.int32)).eval()
            )

    def test_gather_nd(self):
        with self.test_session():
            params = np.array([[[1, 2], [3, 4]], [[5, 6], [7, 8]]])
            self.assertAllEqual([4, 5], tf.gather_nd(params, [[0, 1, 1], [1, 0, 0]]).eval())
            self.assertAllEqual([[3, 4]], tf.gather_nd(params, [[0, 1]]).eval())
            self.assertAllEqual(params, tf.gather_nd(params, np.zeros((0,), np.int32)).eval())
            with self.assertRaisesOpError(r"indices\[1\] = \[0, 2\] does not index into param"):
                tf.gather_nd(params, [[0, 1], [0, 2]]).eval()
            x = tf.constant(np.ones((2, 2)))
            grad = tf.gradients(tf.gather_nd(x, [[0, 1], [0, 1], [1, 0]]), x)[0]
            self.assertAllEqual([[0, 2], [1, 0]], tf.convert_to_tensor(grad).eval())


if __name__ == "__main__":
    tf.test.main()

"""Shapes of arrays and their elements' order, used as TensorFlow 1's own unit tests use them."""

import numpy as np

import sparkflow as tf


class OperatorShapeTest(tf.test.TestCase):
    def test_expand_scalar(self):
        scalar = "hello"
        expanded = tf.expand_dims(scalar, [0])
        self.assertEqual(expanded.get_shape(), (1,))

    def test_squeeze_scalar(self):
        matrix = [[1]]
        squeezed = tf.squeeze(matrix, [0, 1])
        self.assertEqual(squeezed.get_shape(), ())

    def test_squeeze_keeps(self):
        matrix = [[1, 2, 3]]
        self.assertEqual(tf.squeeze(matrix, [0]).get_shape(), (3,))
        self.assertEqual(tf.squeeze([[1], [2]]).get_shape(), (2,))

    def test_squeeze_wrong(self):
        with self.assertRaises(ValueError):
            tf.squeeze([[1, 2], [3, 4]], [0])
        with self.assertRaises(ValueError):
            tf.squeeze([[1]], [-3])
        with self.assertRaises(ValueError):
            tf.squeeze([[1]], [2])

    def test_squeeze_dims_and_axis(self):
        with self.assertRaises(ValueError):
            tf.squeeze([[1]], axis=0, squeeze_dims=0)
        self.assertEqual((1,), tf.squeeze([[1]], squeeze_dims=[1]).get_shape())

    def test_squeeze_at_run_time(self):
        with self.test_session():
            place = tf.placeholder(tf.float32)
            out = tf.squeeze(place, [1])
            self.assertAllEqual([1.0, 2.0], out.eval({place: [[1.0], [2.0]]}))
            with self.assertRaisesOpError("Can not squeeze dim"):
                out.eval({place: [[1.0, 2.0]]})


class ReverseTest(tf.test.TestCase):
    def test_reverse_0_dim(self):
        with self.test_session():
            self.assertAllEqual(4, tf.reverse(4, []).eval())
            self.assertAllEqual(b"a", tf.reverse(b"a", []).eval())

    def test_reverse_1_dim_all_types(self):
        for dtype in [
            np.uint8,
            np.int8,
            np.int32,
            np.int64,
            np.bool_,
            np.float16,
            np.float32,
            np.float64,
            np.complex64,
            np.complex128,
        ]:
            for use_gpu in (False, True):
                x = np.array([1, 0, 1, 1, 0], dtype=dtype)
                with self.test_session(use_gpu=use_gpu):
                    self.assertAllEqual(tf.reverse(x, [0]).eval(), x[::-1])
                    for axis_dtype in (tf.int32, tf.int64):
                        self.assertAllEqual(
                            tf.reverse(x, tf.constant([-1], dtype=axis_dtype)).eval(), x[::-1]
                        )

    def test_reverse_2_dims(self):
        x = np.array([[1, 2, 3], [4, 5, 6]])
        with self.test_session():
            self.assertAllEqual(tf.reverse(x, []).eval(), x)
            self.assertAllEqual(tf.reverse(x, [0]).eval(), x[::-1])
            self.assertAllEqual(tf.reverse(x, [-1]).eval(), x[:, ::-1])
            self.assertAllEqual(tf.reverse(x, [1, 0]).eval(), x[::-1, ::-1])
            with self.assertRaisesRegex(ValueError, "is out of.* range"):
                tf.reverse(x, [-30])
            with self.assertRaisesRegex(ValueError, "is out of.* range"):
                tf.reverse(x, [2])
            with self.assertRaisesRegex(ValueError, "axis 0 specified more than once"):
                tf.reverse(x, [0, -2])

    def test_name(self):
        with self.test_session():
            result = tf.reverse([1, 2, 3], [0], name="reverse_it")
            self.assertEqual("reverse_it:0", result.name)
            self.assertEqual("ReverseV2", result.op.type)

    def test_unknown_dims(self):
        data_t = tf.placeholder(tf.float32)
        axis_known_t = tf.placeholder(tf.int32, shape=[3])
        reverse_known_t = tf.reverse(data_t, axis_known_t)
        self.assertIs(None, reverse_known_t.get_shape().ndims)
        data_2d_t = tf.placeholder(tf.float32, shape=[None, None])
        axis_2d_t = tf.placeholder(tf.int32, shape=[3])
        self.assertIs(2, tf.reverse(data_2d_t, axis_2d_t).get_shape().ndims)

    def test_gradient(self):
        with self.test_session():
            x = tf.constant(np.random.RandomState(1).rand(2, 3))
            error = tf.test.compute_gradient_error(x, [2, 3], tf.reverse(x, [0, 1]), [2, 3])
            self.assertLess(error, 1e-8)


class ShapeSizeRankTest(tf.test.TestCase):
    def test_dense(self):
        with self.test_session():
            value = np.zeros([2, 3, 5])
            self.assertAllEqual([2, 3, 5], tf.shape(value).eval())
            self.assertEqual(30, tf.size(value).eval())
            self.assertEqual(3, tf.rank(value).eval())
            self.assertEqual(tf.int64, tf.shape(value, out_type=tf.int64).dtype)
            self.assertEqual(np.int64, tf.size(value, out_type=tf.int64).eval().dtype)

    def test_sparse(self):
        with self.test_session():
            sparse = tf.SparseTensor(indices=[[0, 1], [1, 0]], values=[1, 2], dense_shape=[2, 7])
            self.assertAllEqual([2, 7], tf.shape(sparse).eval())
            self.assertEqual(14, tf.size(sparse).eval())
            self.assertEqual(2, tf.rank(sparse).eval())

    def test_shape_n(self):
        with self.test_session() as sess:
            got = sess.run(tf.shape_n([np.zeros([2]), np.zeros([3, 1])]))
            self.assertAllEqual([2], got[0])
            self.assertAllEqual([3, 1], got[1])

    def test_optimized_away(self):
        x = tf.placeholder(tf.float32, [None, 4])
        self.assertEqual("Shape", tf.shape(x).op.type)
        self.assertEqual("Const", tf.shape(tf.zeros([2, 2])).op.type)
        self.assertEqual("Const", tf.rank(x).op.type)


class TransposeTest(tf.test.TestCase):
    def test_all(self):
        with self.test_session():
            x = np.arange(24).reshape(2, 3, 4)
            self.assertAllEqual(x.transpose(), tf.transpose(x).eval())
            self.assertAllEqual(x.transpose(0, 2, 1), tf.transpose(x, [0, 2, 1]).eval())
            self.assertAllEqual((x * 1j).conj().T, tf.transpose(x * 1j, conjugate=True).eval())
            self.assertAllEqual(x.transpose(0, 2, 1), tf.matrix_transpose(x).eval())
            self.assertAllEqual(x.transpose(0, 2, 1), tf.linalg.transpose(x).eval())

    def test_errors(self):
        with self.assertRaises(ValueError):
            tf.transpose(np.arange(30).reshape(2, 15), [0, 1, 2])
        with self.assertRaises(ValueError):
            tf.transpose(np.arange(6).reshape(2, 3), [0, 3])
        with self.test_session():
            p = tf.placeholder(tf.int32)
            with self.assertRaisesOpError("is missing from"):
                tf.transpose(np.zeros((2, 3)), p).eval({p: [0, 0]})

    def test_shape(self):
        self.assertEqual(
            [None, 2], tf.transpose(tf.placeholder(tf.float32, [2, None])).get_shape().as_list()
        )
        self.assertIs(None, tf.transpose(tf.placeholder(tf.float32)).get_shape().ndims)
        self.assertEqual(2, tf.transpose(tf.placeholder(tf.float32), [1, 0]).get_shape().ndims)


class ReshapeTest(tf.test.TestCase):
    def test_errors(self):
        y = tf.constant(0.0, shape=[23, 29, 31])
        with self.assertRaisesRegex(ValueError, "must be evenly divisible by 17"):
            tf.reshape(y, [17, -1])
        z = tf.constant(0.0, shape=[32, 128])
        with self.assertRaisesRegex(ValueError, "Cannot reshape a tensor with 4096 elements"):
            tf.reshape(z, [4095])
        with self.test_session(), self.assertRaisesOpError("[Oo]nly one input size may be -1"):
            tf.reshape(z, [-1, -1]).eval()

    def test_partial_shapes(self):
        x = tf.placeholder(tf.float32)
        self.assertEqual(
            [None, 37, None],
            tf.reshape(
                x, tf.stack([tf.placeholder(tf.int32, []), 37, tf.placeholder(tf.int32, [])])
            )
            .get_shape()
            .as_list(),
        )
        y = tf.placeholder(tf.float32, shape=[None, 37, None])
        self.assertEqual([1, None, 1], tf.reshape(y, [1, -1, 1]).get_shape().as_list())
        with self.test_session():
            with self.assertRaisesOpError(
                "Input to reshape is a tensor with 6 values, but the requested shape has 4"
            ):
                tf.reshape(x, [4]).eval({x: np.zeros(6)})
            with self.assertRaisesOpError("requires a multiple of 4"):
                tf.reshape(x, [4, -1]).eval({x: np.zeros(6)})

    def test_empty(self):
        with self.test_session():
            self.assertEqual((0, 4), tf.reshape(np.zeros((4, 0)), [0, 4]).eval().shape)
            self.assertEqual((0,), tf.reshape(np.zeros((4, 0)), [-1]).eval().shape)


if __name__ == "__main__":
    tf.test.main()

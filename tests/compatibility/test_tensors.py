"""Shapes, dtypes and constants, used as TensorFlow 1's own unit tests use them."""

import numpy as np

import sparkflow as tf


class TensorShapeTest(tf.test.TestCase):
    def test_dimension(self):
        d = tf.Dimension(12)
        self.assertEqual(12, d.value)
        self.assertEqual(12, int(d))
        self.assertEqual(tf.Dimension(27), d + tf.Dimension(15))
        self.assertEqual(tf.Dimension(144), d * d)
        self.assertEqual(tf.Dimension(6), d // 2)
        self.assertEqual(tf.Dimension(0), d % 12)
        self.assertEqual(tf.Dimension(12), d.merge_with(tf.Dimension(12)))
        self.assertEqual(tf.Dimension(12), d.merge_with(None))
        self.assertLess(d, tf.Dimension(13))
        self.assertTrue(d.is_compatible_with(None))
        with self.assertRaises(ValueError):
            d.merge_with(13)
        with self.assertRaises(ValueError):
            tf.Dimension(-1)
        unknown = tf.Dimension(None)
        self.assertIs(None, unknown.value)
        self.assertIs(None, unknown == tf.Dimension(None))
        self.assertIs(None, unknown < d)
        self.assertIs(None, (unknown + 1).value)
        self.assertEqual("12", str(d))
        self.assertEqual("?", str(unknown))
        self.assertEqual("Dimension(12)", repr(d))

    def test_shapes(self):
        s = tf.TensorShape([tf.Dimension(3), None, 7])
        self.assertEqual([3, None, 7], s.as_list())
        self.assertEqual(3, s.ndims)
        self.assertFalse(s.is_fully_defined())
        self.assertIs(None, s.num_elements())
        self.assertEqual(tf.Dimension(7), s[2])
        self.assertEqual(tf.Dimension(7), s[-1])
        self.assertEqual([3], s[:1].as_list())
        self.assertEqual("(3, ?, 7)", str(s))
        self.assertEqual("TensorShape([Dimension(3), Dimension(None), Dimension(7)])", repr(s))
        self.assertEqual([3, 5, 7], s.merge_with([None, 5, 7]).as_list())
        self.assertEqual([3, None, 7, 1], s.concatenate([1]).as_list())
        with self.assertRaisesRegex(
            ValueError, r"Shapes \(3, \?, 7\) and \(4,\) are not compatible"
        ):
            s.merge_with([4])
        with self.assertRaisesRegex(ValueError, "must have the same rank|incompatible"):
            s.assert_same_rank([1, 2])
        with self.assertRaisesRegex(ValueError, r"must have rank 2"):
            s.assert_has_rank(2)
        with self.assertRaises(ValueError):
            s.with_rank(2)
        with self.assertRaisesRegex(ValueError, "must have rank at least 4"):
            s.with_rank_at_least(4)
        with self.assertRaisesRegex(ValueError, "must have rank at most 2"):
            s.with_rank_at_most(2)
        with self.assertRaisesRegex(ValueError, "is not fully defined"):
            s.assert_is_fully_defined()
        with self.assertRaisesRegex(ValueError, "incompatible"):
            s.assert_is_compatible_with([3, 4, 8])
        self.assertEqual([2, 3], [d.value for d in tf.TensorShape([2, 3])])
        self.assertEqual(6, tf.TensorShape([2, 3]).num_elements())
        self.assertEqual(tf.TensorShape([2, 3]), [2, 3])
        self.assertNotEqual(tf.TensorShape([2, 3]), [2, 4])

    def test_unknown(self):
        s = tf.TensorShape(None)
        self.assertIs(None, s.ndims)
        self.assertEqual("<unknown>", str(s))
        self.assertEqual("TensorShape(None)", repr(s))
        with self.assertRaises(ValueError):
            s.as_list()
        with self.assertRaises(ValueError):
            len(s)
        with self.assertRaises(ValueError):
            list(s)
        self.assertFalse(bool(s))
        self.assertIs(None, s[0].value)
        self.assertIs(None, s[1:].ndims)
        self.assertEqual([3], s.merge_with([3]).as_list())
        self.assertEqual([None, None], s.with_rank(2).as_list())
        self.assertTrue(s.is_compatible_with([1, 2]))
        self.assertEqual(s, tf.TensorShape(None))
        self.assertEqual([], tf.TensorShape([]).as_list())
        self.assertFalse(bool(tf.TensorShape([])) is None)

    def test_proto(self):
        for shape in ([1, None], [], None):
            s = tf.TensorShape(shape)
            again = tf.TensorShape(s.as_proto())
            self.assertEqual(s.ndims, again.ndims)
            self.assertEqual(str(s), str(again))


class DTypeTest(tf.test.TestCase):
    def test_all(self):
        self.assertEqual("float32", tf.float32.name)
        self.assertIs(np.float32, tf.float32.as_numpy_dtype)
        self.assertEqual(tf.float32, tf.as_dtype("float32"))
        self.assertEqual(tf.float32, tf.as_dtype(np.float32))
        self.assertEqual(tf.float32, np.float32)
        self.assertEqual(tf.string, tf.as_dtype(str))
        self.assertEqual(tf.bool, tf.as_dtype(bool))
        self.assertEqual(tf.float32, tf.as_dtype(float))
        self.assertEqual(tf.float32, tf.as_dtype(1))
        self.assertEqual("float32_ref", tf.as_dtype("float32_ref").name)
        self.assertEqual(tf.float32, tf.as_dtype("float32_ref").base_dtype)
        self.assertEqual(-128, tf.int8.min)
        self.assertEqual(255, tf.uint8.max)
        self.assertEqual((0, 255), tf.uint8.limits)
        self.assertEqual(4, tf.float32.size)
        self.assertTrue(tf.int64.is_integer)
        self.assertFalse(tf.quint8.is_integer)
        self.assertTrue(tf.quint8.is_quantized)
        self.assertTrue(tf.bfloat16.is_floating)
        self.assertTrue(tf.complex64.is_complex)
        self.assertEqual(tf.float32, tf.complex64.real_dtype)
        self.assertTrue(tf.uint16.is_unsigned)
        self.assertTrue(tf.bool.is_bool)
        self.assertTrue(tf.int32.is_compatible_with(tf.as_dtype("int32_ref")))
        self.assertEqual("<dtype: 'float32'>", str(tf.float32))
        self.assertEqual("tf.float32", repr(tf.float32))
        self.assertEqual(1, tf.float32.as_datatype_enum)
        with self.assertRaises(TypeError):
            tf.as_dtype("nothing")
        with self.assertRaises(TypeError):
            _ = tf.string.min


class ConstantTest(tf.test.TestCase):
    def test_forms(self):
        with self.test_session():
            self.assertAllEqual(np.full((2, 3), 7), tf.constant(7, shape=[2, 3]).eval())
            self.assertAllEqual([[1, 2], [2, 2]], tf.constant([1, 2], shape=[2, 2]).eval())
            self.assertAllEqual([b"a", "é".encode()], tf.constant(["a", "é"]).eval())
            self.assertEqual(tf.float32, tf.constant(1.5).dtype)
            self.assertEqual(tf.float64, tf.constant(np.float64(1.5)).dtype)
            self.assertEqual(tf.int64, tf.constant(np.arange(2)).dtype)
            self.assertEqual(tf.float32, tf.constant([1, 2.5]).dtype)
            self.assertEqual(tf.bool, tf.constant([True]).dtype)
            self.assertEqual(tf.complex128, tf.constant(1j).dtype)
            self.assertEqual(tf.int64, tf.constant(2**40).dtype)
            self.assertAllEqual(np.zeros((0, 2)), tf.constant([], shape=[0, 2]).eval())

    def test_errors(self):
        with self.assertRaisesRegex(
            ValueError, "Too many elements provided. Needed at most 5, but received 7"
        ):
            tf.constant([1, 2, 3, 4, 5, 6, 7], shape=[5])
        with self.assertRaisesRegex(
            TypeError, "Expected int32, got 1.5 of type 'float' instead.|Expected int32"
        ):
            tf.constant(1.5, dtype=tf.int32)
        with self.assertRaises(TypeError):
            tf.constant("a", dtype=tf.float32)
        with self.assertRaises((TypeError, ValueError)):
            tf.constant([[1, 2], [3]])
        with self.assertRaisesRegex(ValueError, "None values not supported."):
            tf.constant(None)
        with self.assertRaises((TypeError, ValueError)):
            tf.constant([1, None])

    def test_limit(self):
        with self.assertRaises((TypeError, ValueError)):
            tf.constant(2**70)

    def test_zeros_ones_fill(self):
        with self.test_session():
            self.assertAllEqual(np.zeros((2, 3)), tf.zeros([2, 3]).eval())
            self.assertEqual(tf.float32, tf.zeros([2]).dtype)
            self.assertAllEqual([b"", b""], tf.zeros([2], tf.string).eval())
            self.assertAllEqual([False], tf.zeros([1], tf.bool).eval())
            self.assertAllEqual(np.ones((2, 3)), tf.ones(tf.constant([2, 3])).eval())
            self.assertAllEqual(np.ones((2, 3)), tf.ones_like(np.zeros((2, 3))).eval())
            self.assertEqual(tf.int32, tf.zeros_like([1.5], dtype=tf.int32).dtype)
            self.assertAllEqual([[b"x"] * 2], tf.fill([1, 2], "x").eval())
            self.assertEqual(
                [None, 2],
                tf.zeros(tf.stack([tf.placeholder(tf.int32, []), 2])).get_shape().as_list(),
            )
            self.assertEqual(
                [None, 2],
                tf.zeros_like(tf.placeholder(tf.float32, [None, 2])).get_shape().as_list(),
            )
            with self.assertRaises(ValueError):
                tf.fill([-1], 3)
            with self.assertRaises(ValueError):
                tf.fill([[0, 1], [2, 3]], 3)
            with self.assertRaises(ValueError):
                tf.fill([3, 2], [3.0])
            p = tf.placeholder(tf.int32)
            with self.assertRaisesOpError("must be.* nonnegative|>= 0|negative"):
                tf.fill(p, 3).eval({p: [-1]})

    def test_placeholder(self):
        with self.test_session():
            p = tf.placeholder(tf.float32, shape=(10, 10), name="p")
            with self.assertRaisesOpError(
                r"must feed a value for placeholder tensor 'p' with dtype float and shape \[10,10\]"
            ):
                tf.identity(p).eval()
            with self.assertRaisesWithPredicateMatch(
                ValueError, lambda e: "Cannot feed value of shape" in str(e)
            ):
                tf.identity(p).eval(feed_dict={p: np.zeros((1, 2))})
            q = tf.placeholder(tf.int32, shape=None, name="q")
            with self.assertRaisesOpError(
                "must feed a value for placeholder tensor 'q' with dtype int32"
            ):
                tf.identity(q).eval()
            d = tf.placeholder_with_default([1, 2], [None])
            self.assertAllEqual([1, 2], d.eval())
            self.assertAllEqual([5], d.eval({d: [5]}))
            self.assertEqual([None], d.get_shape().as_list())
            with self.assertRaises(ValueError):
                tf.placeholder_with_default([1, 2], [3])
            s = tf.sparse_placeholder(tf.int32)
            got = tf.sparse_tensor_to_dense(s).eval({s: ([[0]], [5], [2])})
            self.assertAllEqual([5, 0], got)


class ConvertTest(tf.test.TestCase):
    def test_convert(self):
        with tf.Graph().as_default():
            t = tf.convert_to_tensor([1, 2])
            self.assertIs(t, tf.convert_to_tensor(t))
            with self.assertRaisesRegex(
                ValueError, "Tensor conversion requested dtype float32 for Tensor with dtype int32"
            ):
                tf.convert_to_tensor(t, dtype=tf.float32)
            self.assertEqual(
                tf.float32, tf.convert_to_tensor([1], preferred_dtype=tf.float32).dtype
            )
            self.assertEqual(
                tf.float32, tf.convert_to_tensor([1.5], preferred_dtype=tf.int32).dtype
            )
            mixed = tf.convert_to_tensor([t[0], 5])
            self.assertEqual("Pack", mixed.op.type)
            with self.assertRaisesRegex(TypeError, "(?i)failed to convert|Expected"):
                tf.convert_to_tensor(object())

    def test_own_conversion(self):
        class Money:
            value = 3.5

        tf.register_tensor_conversion_function(
            Money,
            lambda v, dtype=None, name=None, as_ref=False: tf.constant(
                v.value, dtype=dtype, name=name
            ),
        )
        with self.test_session():
            self.assertAllClose(7.0, (tf.constant(3.5) + Money()).eval())

    def test_indexed_slices(self):
        with self.test_session():
            s = tf.IndexedSlices(
                tf.constant([[1.0, 2.0]]), tf.constant([1]), dense_shape=tf.constant([3, 2])
            )
            self.assertAllEqual([[0, 0], [1, 2], [0, 0]], tf.convert_to_tensor(s).eval())
            self.assertEqual(tf.float32, s.dtype)
            without = tf.IndexedSlices(tf.constant([1.0]), tf.constant([1]))
            with self.assertRaisesRegex(ValueError, "without dense_shape"):
                tf.convert_to_tensor(without)
            total = tf.add_n([s, s])
            self.assertIsInstance(total, (tf.IndexedSlices, tf.Tensor))

    def test_constant_value(self):
        from_contrib = tf.contrib.util.constant_value
        self.assertAllEqual([1, 2], from_contrib(tf.constant([1, 2])))
        self.assertIs(None, from_contrib(tf.placeholder(tf.int32)))
        self.assertAllEqual([3, 4], from_contrib(tf.shape(tf.zeros([3, 4]))))


if __name__ == "__main__":
    tf.test.main()

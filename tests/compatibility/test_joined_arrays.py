"""Arrays joined and split, used as TensorFlow 1's own unit tests use them."""

import numpy as np

import sparkflow as tf


class ConcatSliceRoundTripTest(tf.test.TestCase):
    def test_concat_offset(self):
        for use_gpu in (False, True):
            with self.test_session(use_gpu=use_gpu):
                x1, x2 = tf.ones([3, 2]), tf.ones([3, 5])
                c = tf.concat([x1, x2], 1)
                self.assertEqual([3, 7], c.get_shape().as_list())
                grads = tf.gradients(
                    c * tf.constant(np.arange(21, dtype=np.float32).reshape(3, 7)), [x1, x2]
                )
                self.assertAllEqual(np.arange(21).reshape(3, 7)[:, :2], grads[0].eval())
                self.assertAllEqual(np.arange(21).reshape(3, 7)[:, 2:], grads[1].eval())

    def test_concat_order_of_arguments(self):
        with self.test_session():
            p1 = tf.placeholder(tf.float32, shape=[4, 4])
            p2 = tf.placeholder(tf.float32, shape=[4, 4])
            c = tf.concat([p1, p2], 0)
            self.assertEqual(c.get_shape(), [8, 4])
            with self.assertRaises((TypeError, ValueError)):
                tf.concat(1.5, [p1, p2])

    def test_concat_errors(self):
        with self.test_session():
            inp_tensors = [tf.constant(1), tf.constant(2)]
            with self.assertRaises(ValueError):
                tf.concat(inp_tensors, 0)
            with self.assertRaises(ValueError):
                tf.concat([np.ones((2, 3)), np.ones((3, 2))], 1)
            with self.assertRaises(ValueError):
                tf.concat([np.ones((2, 3)), np.ones((2,))], 0)
            with self.assertRaises(ValueError):
                tf.concat([tf.ones([2]), tf.ones([2])], tf.constant([0, 1]))

    def test_concat_bad_shape_at_run_time(self):
        with self.test_session():
            a, b = tf.placeholder(tf.float32), tf.placeholder(tf.float32)
            with self.assertRaisesOpError("Dimensions of inputs should match"):
                tf.concat([a, b], 0).eval({a: np.ones((2, 3)), b: np.ones((2, 2))})
            with self.assertRaisesOpError("Ranks of all input tensors should match"):
                tf.concat([a, b], 0).eval({a: np.ones((2, 3)), b: np.ones((2,))})

    def test_concat_one(self):
        with self.test_session():
            c = tf.concat([tf.constant([1, 2])], 0, name="c")
            self.assertAllEqual([1, 2], c.eval())
            c = tf.concat(tf.constant([1, 2]), 0)
            self.assertAllEqual([1, 2], c.eval())

    def test_concat_gradients_with_unknown_input_dim(self):
        with self.test_session() as sess:
            a = tf.placeholder(tf.float32)
            b = tf.constant(np.ones((2, 3), np.float32))
            c = tf.concat([a, b], 1)
            grad = tf.gradients(
                [c], [a], [tf.constant(np.arange(10, dtype=np.float32).reshape(2, 5))]
            )[0]
            got = sess.run(grad, {a: np.zeros((2, 2))})
            self.assertAllEqual([[0, 1], [5, 6]], got)

    def test_concat_indexed_slices_gradient(self):
        with self.test_session():
            x = tf.constant(np.random.RandomState(0).rand(4, 3).astype(np.float32))
            y = tf.constant(np.random.RandomState(1).rand(4, 2).astype(np.float32))
            out = tf.gather(tf.concat([x, y], 1), [1, 3, 1])
            gx, gy = tf.gradients(out, [x, y])
            dense = tf.convert_to_tensor(gx).eval()
            self.assertAllEqual([[0] * 3, [2] * 3, [0] * 3, [1] * 3], dense)
            self.assertAllEqual(
                [[0] * 2, [2] * 2, [0] * 2, [1] * 2], tf.convert_to_tensor(gy).eval()
            )


class SplitTest(tf.test.TestCase):
    def test_shape_inference(self):
        with self.test_session() as sess:
            value = np.random.RandomState(2).rand(11, 11)
            scope = tf.placeholder(tf.int32, [3])
            result = tf.split(value, scope, axis=0)
            self.assertEqual([None, 11], result[1].get_shape().as_list())
            got = sess.run(result, {scope: [5, 3, 3]})
            self.assertEqual((3, 11), got[2].shape)
            with self.assertRaises(ValueError):
                tf.split(value, tf.placeholder(tf.int32), axis=0)
            self.assertEqual(3, len(tf.split(value, tf.placeholder(tf.int32), axis=0, num=3)))

    def test_explicit_num(self):
        with self.test_session():
            size_splits = tf.constant([2, 2, 6], dtype=tf.int32)
            value = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]
            with self.assertRaises(ValueError):
                tf.split(value, size_splits, num=4)
            r = tf.split(value, size_splits, num=3)
            self.assertAllEqual(r[0].eval(), value[0:2])
            self.assertAllEqual(r[2].eval(), value[4:])

    def test_minus_one(self):
        with self.test_session() as sess:
            a, b = sess.run(tf.split(np.arange(10), [3, -1]))
            self.assertAllEqual(np.arange(3), a)
            self.assertAllEqual(np.arange(3, 10), b)

    def test_empty_splits(self):
        with self.test_session() as sess:
            parts = sess.run(tf.split(np.zeros((2, 0)), 2, 0))
            self.assertEqual((1, 0), parts[0].shape)
            parts = sess.run(tf.split(np.arange(3), [0, 3], 0))
            self.assertEqual((0,), parts[0].shape)

    def test_invalid(self):
        with self.test_session():
            with self.assertRaises(ValueError):
                tf.split(np.arange(6), 4)
            with self.assertRaises(ValueError):
                tf.split(tf.zeros([6]), num_or_size_splits=2, axis=1)
            x = tf.placeholder(tf.float32)
            parts = tf.split(x, 4)
            with self.assertRaisesOpError("evenly"):
                parts[0].eval({x: np.zeros(6)})
            with self.assertRaises(ValueError):
                tf.split([1, 2, 3], [1, 1])

    def test_gradient(self):
        with self.test_session():
            x = tf.constant(np.arange(6.0))
            a, _, c = tf.split(x, 3)
            self.assertAllEqual([1, 1, 0, 0, 3, 3], tf.gradients([a, 3 * c], x)[0].eval())


class StackUnstackTest(tf.test.TestCase):
    def test_simple(self):
        rng = np.random.RandomState(7)
        with self.test_session(use_gpu=True):
            for shape in (2,), (3,), (2, 3), (3, 2), (4, 3, 2):
                for dtype in [np.bool_, np.float32, np.int32, np.int64]:
                    data = rng.randn(*shape).astype(dtype)
                    xs = list(map(tf.constant, data))
                    self.assertAllEqual(tf.stack(xs).eval(), data)
                    if len(shape) > 1:
                        self.assertAllEqual(tf.stack(xs, axis=1).eval(), np.stack(data, 1))
                    unstacked = tf.unstack(tf.constant(data))
                    self.assertEqual(len(unstacked), shape[0])
                    for i, value in enumerate(unstacked):
                        self.assertAllEqual(value.eval(), data[i])

    def test_const(self):
        with self.test_session():
            c = tf.stack([np.zeros(3, np.float32), np.ones(3, np.float32)])
            self.assertAllEqual([[0, 0, 0], [1, 1, 1]], c.eval())

    def test_errors(self):
        with self.test_session():
            with self.assertRaisesRegex(ValueError, r"axis`? = 2 not in( range)? \[-2, 2\)"):
                tf.stack([tf.zeros([3]), tf.zeros([3])], axis=2)
            with self.assertRaisesRegex(ValueError, r"axis`? = -3 not in( range)? \[-2, 2\)"):
                tf.stack([tf.zeros([3]), tf.zeros([3])], axis=-3)
            with self.assertRaisesRegex(ValueError, r"Cannot infer argument `num` from shape"):
                tf.unstack(tf.placeholder(tf.float32))
            with self.assertRaisesRegex(
                ValueError, r"Cannot infer argument `num` from shape \((None|\?), 2\)"
            ):
                tf.unstack(tf.placeholder(tf.float32, [None, 2]))
            with self.assertRaisesRegex(ValueError, r"axis`? = 2 not in( range)? \[-2, 2\)"):
                tf.unstack(tf.zeros([2, 2]), axis=2)

    def test_num_at_run_time(self):
        with self.test_session():
            x = tf.placeholder(np.float32)
            parts = tf.unstack(x, num=2)
            with self.assertRaisesOpError("must match|got shape|expected"):
                parts[0].eval({x: [1.0, 2.0, 3.0]})
            self.assertEqual(2.0, parts[1].eval({x: [1.0, 2.0]}))

    def test_zero_size(self):
        with self.test_session():
            for shape in ((0,), (3, 0), (0, 3)):
                x = np.zeros((2, *shape))
                p = tf.stack(list(x)).eval()
                self.assertAllEqual(p, x)
            self.assertEqual([], tf.unstack(np.zeros([0, 3])))

    def test_gradients(self):
        with self.test_session():
            data = np.random.RandomState(3).randn(2, 4, 3)
            xs = list(map(tf.constant, data))
            for axis in -3, 0, 1, 2:
                c = tf.stack(xs, axis=axis)
                shape = c.get_shape().as_list()
                self.assertLess(tf.test.compute_gradient_error(xs, [[4, 3]] * 2, c, shape), 1e-6)


class MeshGridTest(tf.test.TestCase):
    def _compare(self, n, np_dtype, use_gpu):
        inputs = []
        for index in range(n):
            x = np.linspace(-10, 10, 5 + index).astype(np_dtype)
            if np_dtype in [np.complex64, np.complex128]:
                x += 1j
            inputs.append(x)
        with self.test_session(use_gpu=use_gpu):
            for indexing in ("xy", "ij"):
                expected = np.meshgrid(*inputs, indexing=indexing)
                got = tf.meshgrid(*inputs, indexing=indexing)
                for x_np, x_tf in zip(expected, got, strict=True):
                    self.assertAllEqual(x_np, x_tf.eval())

    def test_all(self):
        for t in (np.float16, np.float32, np.float64, np.int32, np.int64, np.complex64):
            self._compare(2, t, True)
            self._compare(3, t, False)


if __name__ == "__main__":
    tf.test.main()

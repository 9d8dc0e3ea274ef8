"""Slices, masks and paddings, used as TensorFlow 1's own unit tests use them."""

import numpy as np

import sparkflow as tf


class BooleanMaskTest(tf.test.TestCase):
    def check(self, shape, ndims_mask, make_mask=None, axis=None):
        rng = np.random.RandomState(42)
        make_mask = make_mask or (lambda s: rng.randint(0, 2, size=s).astype(bool))
        array = rng.rand(*shape)
        if axis is None:
            mask = make_mask(shape[:ndims_mask])
            masked = array[mask]
        else:
            mask = make_mask(shape[axis : ndims_mask + axis])
            masked = array[:, mask] if axis == 1 else array[:, :, mask]
        with self.test_session():
            result = tf.boolean_mask(array, mask, axis=axis)
            self.assertAllClose(masked, result.eval())
            self.assertEqual(len(masked.shape), result.get_shape().ndims)

    def test_ranks(self):
        for shape, ndims in [((3,), 1), ((3, 4), 1), ((3, 4), 2), ((2, 3, 4), 2), ((2, 3, 4), 3)]:
            self.check(shape, ndims)

    def test_axis(self):
        self.check((3, 4, 2), 1, axis=1)
        self.check((3, 4, 2, 2), 2, axis=1)
        self.check((3, 4, 2), 1, axis=2)

    def test_all_and_none(self):
        self.check((4, 3), 1, lambda s: np.zeros(s, bool))
        self.check((4, 3), 1, lambda s: np.ones(s, bool))
        self.check((0, 3), 1)

    def test_strings(self):
        with self.test_session():
            self.assertAllEqual(
                [b"hello", b"bar"],
                tf.boolean_mask(["hello", "foo", "bar"], [True, False, True]).eval(),
            )

    def test_mask_of_unknown_dimension(self):
        tensor = tf.placeholder(tf.int32, shape=[None, 2])
        mask = tf.placeholder(tf.bool, shape=[None])
        with self.test_session() as sess:
            masked = tf.boolean_mask(tensor, mask)
            self.assertEqual([None, 2], masked.get_shape().as_list())
            got = sess.run(masked, {tensor: [[1, 2], [3, 4]], mask: [True, False]})
            self.assertAllEqual([[1, 2]], got)

    def test_mask_without_rank_refused(self):
        with self.test_session():
            tensor = tf.placeholder(tf.int32, shape=[None, 2])
            mask = tf.placeholder(tf.bool, shape=None)
            with self.assertRaisesRegex(ValueError, "dimensions must be specified"):
                tf.boolean_mask(tensor, mask)

    def test_scalar_mask_refused(self):
        with self.test_session(), self.assertRaisesRegex(ValueError, "mask.*scalar"):
            tf.boolean_mask([1, 2, 3], True)

    def test_more_mask_dimensions_than_tensor(self):
        with self.test_session(), self.assertRaisesRegex(ValueError, "incompatible"):
            tf.boolean_mask([1, 2, 3], [[True, True], [False, False]])

    def test_shapes_that_do_not_match(self):
        with self.test_session(), self.assertRaisesRegex(ValueError, "incompatible"):
            tf.boolean_mask([1, 2, 3], [True, True])


class StridedSliceChecker:
    """Slices a tensor and the numpy array in the same way and compares."""

    def __init__(self, test, x, tensor_type=tf.int32, check_type_infer=True):
        self.test = test
        self.check_type_infer = check_type_infer
        self.x_np = np.array(x).astype(tensor_type.as_numpy_dtype)
        if tensor_type.is_bool:
            self.x_np = np.array(x % 3).astype(np.bool_)
        if tensor_type.is_complex:
            self.x_np = self.x_np * (1 + 1j)
        self.x = tf.constant(self.x_np, dtype=tensor_type)

    def __getitem__(self, spec):
        op = self.x.__getitem__(spec)

        def evaluated(s):
            if isinstance(s, tf.Tensor):
                return s.eval()
            if isinstance(s, slice):
                return slice(*(evaluated(x) for x in (s.start, s.stop, s.step)))
            return s

        if not isinstance(spec, (list, tuple)):
            spec = [spec]
        tensor = op.eval()
        np_spec = tuple(np.newaxis if s is tf.newaxis else evaluated(s) for s in spec)
        self.test.assertAllEqual(self.x_np[np_spec], tensor)
        if self.check_type_infer:
            self.test.assertAllEqual(tensor.shape, op.get_shape())
        return tensor


STRIDED_SLICE_TYPES = [
    tf.int32,
    tf.int64,
    tf.int16,
    tf.int8,
    tf.float32,
    tf.float64,
    tf.complex64,
    tf.complex128,
    tf.bool,
]


class StridedSliceTest(tf.test.TestCase):
    def test_basic_slice(self):
        for tensor_type in STRIDED_SLICE_TYPES:
            with self.test_session(use_gpu=True):
                checker = StridedSliceChecker(self, np.arange(60).reshape(3, 4, 5), tensor_type)
                _ = checker[:, :, :]
                _ = checker[..., 1:2]
                _ = checker[1:2, ..., 0]
                _ = checker[0:1, 2:4, 1:]
                _ = checker[-3:-1, :, -3:-2]
                _ = checker[::-1, :, ::-2]
                _ = checker[tf.newaxis, ..., 3]
                _ = checker[:, tf.newaxis, 2, -1]
                _ = checker[0, 0, 0]

    def test_int64_gpu(self):
        with self.test_session(use_gpu=True):
            x = tf.constant([1.0, 2.0, 3.0])
            begin, end, strides = (tf.constant([n], dtype=tf.int64) for n in (2, 3, 1))
            self.assertAllEqual([3.0], tf.strided_slice(x, begin, end, strides).eval())

    def test_degenerate(self):
        with self.test_session():
            checker = StridedSliceChecker(self, np.arange(60).reshape(3, 4, 5))
            _ = checker[-1:0, :, :]
            _ = checker[:, 2:0:-1, :]
            _ = checker[0:0]
            _ = checker[5:-7:-1]

    def test_variable_indices(self):
        with self.test_session():
            checker = StridedSliceChecker(
                self, np.arange(60).reshape(3, 4, 5), check_type_infer=False
            )
            start, stop = tf.constant(1), tf.constant(3)
            _ = checker[start:stop, :, ...]
            _ = checker[start, 0, 2:stop]
            _ = checker[..., start:stop]

    def test_ellipsis_twice(self):
        with self.test_session(), self.assertRaisesRegex(ValueError, "Multiple ellipses"):
            _ = tf.zeros([2, 3])[..., :, ...]

    def test_wrong_indices(self):
        with self.test_session():
            x = tf.zeros([2, 3])
            with self.assertRaisesRegex(TypeError, "Value passed to parameter|integers, slices"):
                _ = x[0.5]
            with self.assertRaisesRegex(TypeError, "Value passed to parameter|integers, slices"):
                _ = x["a"]
            with self.assertRaisesRegex(ValueError, "out of bounds"):
                _ = x[2]
            with self.assertRaisesRegex(ValueError, "Index out of range|too many"):
                _ = x[0, 0, 0]
            with self.assertRaisesRegex(ValueError, "non-zero"):
                _ = x[::0]

    def test_tensor_is_not_iterable_and_bool(self):
        with self.test_session():
            x = tf.placeholder(tf.float32)
            with self.assertRaisesRegex(TypeError, "not iterable|iterat"):
                for _ in x:
                    pass
            with self.assertRaisesRegex(TypeError, "Python `?bool`?"):
                bool(x)

    def test_gradient(self):
        with self.test_session() as sess:
            var = tf.Variable(tf.reshape(tf.range(1.0, 97.0), [6, 4, 4]))
            sess.run(tf.global_variables_initializer())
            raw = np.arange(1, 97).reshape(6, 4, 4).astype(np.float32)
            for spec in [
                (slice(2, 6, 2), slice(1, 3), slice(1, 3)),
                (3, slice(1, 3), Ellipsis),
                (slice(None, None, -2), tf.newaxis, slice(None), 2),
                (1, 2, 3),
            ]:
                out = var[spec]
                grad = tf.gradients(out * out, var)[0].eval()
                expected = np.zeros_like(raw)
                np_spec = tuple(np.newaxis if s is tf.newaxis else s for s in spec)
                expected[np_spec] = 2 * raw[np_spec]
                self.assertAllEqual(expected, grad)

    def test_second_gradient_by_grad_op(self):
        with self.test_session():
            x = tf.constant(np.arange(12, dtype=np.float32).reshape(3, 4))
            y = x[1:, ::2]
            g = tf.gradients(y * y * y, x)[0]
            gg = tf.gradients(g, x)[0].eval()
            expected = np.zeros((3, 4), np.float32)
            expected[1:, ::2] = 6 * np.arange(12).reshape(3, 4)[1:, ::2]
            self.assertAllEqual(expected, gg)

    def test_hidden_shape(self):
        with self.test_session():
            place = tf.placeholder(tf.float32, shape=(5, 2, 2))
            checked = [
                (np.s_[..., tf.newaxis], (5, 2, 2, 1)),
                (np.s_[:, tf.newaxis, ...], (5, 1, 2, 2)),
                (np.s_[2:, :, 0], (3, 2)),
                (np.s_[::2], (3, 2, 2)),
            ]
            for spec, shape in checked:
                self.assertEqual(shape, tuple(place[spec].get_shape().as_list()))
            unknown = tf.placeholder(tf.float32)
            self.assertIs(None, unknown[1:, ...].get_shape().ndims)
            partly = tf.placeholder(tf.float32, shape=(None, 3))
            self.assertEqual([None, 3], partly[1:].get_shape().as_list())
            self.assertEqual([3], partly[0].get_shape().as_list())


class StridedSliceAssignTest(tf.test.TestCase):
    def test_assign(self):
        for use_resource in (False, True):
            with self.test_session(graph=tf.Graph()) as sess:
                var = tf.get_variable(
                    "v", initializer=tf.zeros([3, 4], tf.int32), use_resource=use_resource
                )
                sess.run(tf.global_variables_initializer())
                got = sess.run(var[1:3, ::2].assign([[1, 2], [3, 4]]))
                self.assertAllEqual(
                    [[0, 0, 0, 0], [1, 0, 2, 0], [3, 0, 4, 0]],
                    got if not use_resource else sess.run(var),
                )

    def test_assign_scalar_to_element(self):
        with self.test_session() as sess:
            var = tf.Variable([1, 2, 3])
            sess.run(tf.global_variables_initializer())
            sess.run(tf.assign(var[1], 7))
            self.assertAllEqual([1, 7, 3], var.eval())

    def test_uninitialized(self):
        with self.test_session() as sess:
            var = tf.Variable([1, 2])
            with self.assertRaisesRegex(
                tf.errors.FailedPreconditionError, "Attempting to use uninitialized value Variable"
            ):
                sess.run(var[:].assign([1, 2]))


class PadTest(tf.test.TestCase):
    def test_modes(self):
        x = np.arange(12).reshape(3, 4)
        with self.test_session():
            paddings = [[1, 1], [2, 0]]
            self.assertAllEqual(np.pad(x, paddings, "constant"), tf.pad(x, paddings).eval())
            self.assertAllEqual(
                np.pad(x, paddings, "reflect"), tf.pad(x, paddings, mode="reflect").eval()
            )
            self.assertAllEqual(
                np.pad(x, paddings, "symmetric"), tf.pad(x, paddings, "SYMMETRIC").eval()
            )
            self.assertAllEqual(
                np.pad(x, paddings, "constant", constant_values=7),
                tf.pad(x, paddings, constant_values=7).eval(),
            )

    def test_errors(self):
        with self.test_session():
            with self.assertRaisesRegex(ValueError, "Unknown padding mode"):
                tf.pad([1], [[1, 1]], mode="weird")
            with self.assertRaises(ValueError):
                tf.pad([[1, 2]], [[1, 1]])
            with self.assertRaisesOpError("[Pp]addings? must be (less|no greater)"):
                x = tf.placeholder(tf.int32)
                tf.pad(x, [[3, 0]], mode="REFLECT").eval({x: [1, 2, 3]})
            p = tf.placeholder(tf.int32)
            with self.assertRaisesOpError("must be non-negative"):
                tf.pad([1, 2], p).eval({p: [[-1, 0]]})

    def test_gradients(self):
        with self.test_session():
            x = tf.constant(np.random.RandomState(1).rand(3, 4))
            for mode in ("CONSTANT", "REFLECT", "SYMMETRIC"):
                y = tf.pad(x, [[1, 2], [2, 1]], mode=mode)
                self.assertEqual([6, 7], y.get_shape().as_list())
                self.assertLess(tf.test.compute_gradient_error(x, [3, 4], y, [6, 7]), 1e-6)


if __name__ == "__main__":
    tf.test.main()

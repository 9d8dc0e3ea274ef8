"""Array operations, used as TensorFlow 1's own unit tests use them."""

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

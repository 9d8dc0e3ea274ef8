"""Layers of networks, losses and cells, used as TensorFlow 1's own unit tests use them."""

import numpy as np

import sparkflow as tf


class ConvolutionTest(tf.test.TestCase):
    def test_known_values(self):
        x = tf.constant(np.arange(1, 19, dtype=np.float32).reshape(1, 2, 3, 3))
        f = tf.constant(np.arange(1, 10, dtype=np.float32).reshape(1, 1, 3, 3))
        with self.test_session(use_gpu=True):
            y = tf.nn.conv2d(x, f, strides=[1, 1, 1, 1], padding="VALID")
            self.assertAllClose(
                [
                    30,
                    36,
                    42,
                    66,
                    81,
                    96,
                    102,
                    126,
                    150,
                    138,
                    171,
                    204,
                    174,
                    216,
                    258,
                    210,
                    261,
                    312,
                ],
                y.eval().ravel(),
            )

    def test_errors(self):
        x = tf.placeholder(tf.float32, [1, 4, 4, 2])
        with self.assertRaisesRegex(ValueError, "(?i)rank 4|must be 4|rank"):
            tf.nn.conv2d(x, tf.zeros([3, 3, 2]), [1, 1, 1, 1], "SAME")
        with self.assertRaisesRegex(
            ValueError, "Dimensions must be equal|depth|number of input channels|evenly"
        ):
            tf.nn.conv2d(x, tf.zeros([3, 3, 3, 1]), [1, 1, 1, 1], "SAME")
        with self.assertRaisesRegex(
            ValueError, "Negative dimension size caused by subtracting 5 from 4"
        ):
            tf.nn.conv2d(x, tf.zeros([5, 3, 2, 1]), [1, 1, 1, 1], "VALID")
        with self.assertRaises(ValueError):
            tf.nn.conv2d(x, tf.zeros([3, 3, 2, 1]), [1, 1, 1], "SAME")
        with self.assertRaises(ValueError):
            tf.nn.conv2d(x, tf.zeros([3, 3, 2, 1]), [1, 1, 1, 1], "NOTHING")
        with (
            self.assertRaises(
                (ValueError, tf.errors.UnimplementedError, tf.errors.InvalidArgumentError)
            ),
            self.test_session(),
        ):
            tf.nn.conv2d(
                tf.zeros([1, 4, 4, 2]), tf.zeros([3, 3, 2, 1]), [2, 1, 1, 1], "SAME"
            ).eval()

    def test_gradients(self):
        rng = np.random.RandomState(0)
        with self.test_session():
            for padding in ("SAME", "VALID"):
                for stride in (1, 2):
                    x, f = tf.constant(rng.rand(1, 5, 5, 2)), tf.constant(rng.rand(3, 2, 2, 3))
                    y = tf.nn.conv2d(x, f, [1, stride, stride, 1], padding)
                    shape = y.get_shape().as_list()
                    self.assertLess(tf.test.compute_gradient_error(x, [1, 5, 5, 2], y, shape), 1e-6)
                    self.assertLess(tf.test.compute_gradient_error(f, [3, 2, 2, 3], y, shape), 1e-6)

    def test_transpose_and_depthwise(self):
        with self.test_session():
            y = tf.nn.conv2d_transpose(
                tf.ones([2, 6, 4, 3]), tf.ones([3, 3, 2, 3]), [2, 6, 4, 2], [1, 1, 1, 1], "SAME"
            )
            self.assertEqual(27.0, y.eval()[0, 2, 2, 0])
            self.assertEqual(12.0, y.eval()[0, 0, 0, 0])
            d = tf.nn.depthwise_conv2d(
                tf.ones([1, 3, 3, 2]), tf.ones([2, 2, 2, 2]), [1, 1, 1, 1], "VALID"
            )
            self.assertAllEqual(np.full((1, 2, 2, 4), 4), d.eval())
            s = tf.nn.separable_conv2d(
                tf.ones([1, 3, 3, 2]),
                tf.ones([2, 2, 2, 2]),
                tf.ones([1, 1, 4, 3]),
                [1, 1, 1, 1],
                "VALID",
            )
            self.assertAllEqual(np.full((1, 2, 2, 3), 16), s.eval())
            c = tf.nn.conv1d(tf.ones([1, 4, 1]), tf.ones([2, 1, 1]), 2, "VALID")
            self.assertAllEqual([[[2], [2]]], c.eval())
            a = tf.nn.atrous_conv2d(
                tf.ones([1, 5, 5, 1]), tf.ones([2, 2, 1, 1]), rate=2, padding="VALID"
            )
            self.assertAllEqual(np.full((1, 3, 3, 1), 4), a.eval())
            self.assertEqual(
                (1, 2, 2, 2, 1),
                tf.nn.conv3d(tf.ones([1, 3, 3, 3, 1]), tf.ones([2, 2, 2, 1, 1]), [1] * 5, "VALID")
                .eval()
                .shape,
            )

    def test_pooling(self):
        x = tf.constant(np.arange(1, 28, dtype=np.float32).reshape(1, 3, 3, 3))
        with self.test_session() as sess:
            y = tf.nn.max_pool(x, [1, 2, 2, 1], [1, 2, 2, 1], "SAME")
            self.assertAllEqual([13, 14, 15, 16, 17, 18, 22, 23, 24, 25, 26, 27], y.eval().ravel())
            y = tf.nn.avg_pool(x, [1, 2, 2, 1], [1, 2, 2, 1], "SAME")
            self.assertAllClose(
                [7, 8, 9, 12, 13, 14, 20.5, 21.5, 22.5, 25, 26, 27], y.eval().ravel(), atol=1.0
            )
            values, places = sess.run(
                tf.nn.max_pool_with_argmax(
                    tf.constant([[[[1.0], [4.0]], [[3.0], [2.0]]]]),
                    [1, 2, 2, 1],
                    [1, 2, 2, 1],
                    "VALID",
                )
            )
            self.assertEqual((4.0, 1), (values.item(), places.item()))
            with self.assertRaisesRegex(ValueError, "Negative dimension size"):
                tf.nn.max_pool(x, [1, 4, 4, 1], [1, 1, 1, 1], "VALID")
            z = tf.constant(np.random.RandomState(0).permutation(32).reshape(1, 4, 4, 2) / 8.0)
            for f in (tf.nn.max_pool, tf.nn.avg_pool):
                y = f(z, [1, 3, 3, 1], [1, 2, 2, 1], "SAME")
                error = tf.test.compute_gradient_error(
                    z, [1, 4, 4, 2], y, [1, 2, 2, 2], x_init_value=z.eval()
                )
                self.assertLess(error, 1e-6)

    def test_fractional_pools(self):
        x = np.random.RandomState(3).rand(2, 9, 8, 3).astype(np.float32)
        for f, reduce in (
            (tf.nn.fractional_max_pool, np.max),
            (tf.nn.fractional_avg_pool, np.mean),
        ):
            for overlapping in (False, True):
                with self.test_session(graph=tf.Graph()) as sess:
                    t = tf.constant(x)
                    pooled = f(
                        t,
                        [1.0, 1.5, 1.4, 1.0],
                        pseudo_random=True,
                        overlapping=overlapping,
                        deterministic=True,
                        seed=5,
                        seed2=7,
                    )
                    y, rows, cols = sess.run(pooled)
                    self.assertEqual((2, 6, 5, 3), y.shape)
                    self.assertEqual((0, 9, 0, 8), (rows[0], rows[-1], cols[0], cols[-1]))
                    self.assertTrue(set(np.diff(rows)) <= {1, 2})
                    more = int(overlapping)
                    for i in range(6):
                        for j in range(5):
                            window = x[
                                :, rows[i] : rows[i + 1] + more, cols[j] : cols[j + 1] + more
                            ]
                            self.assertAllClose(reduce(window, axis=(1, 2)), y[:, i, j], rtol=1e-5)
                    g = tf.gradients(pooled[0], t)[0].eval()
                    self.assertAllClose(y.size, g.sum(), rtol=1e-4)


class NormalisationTest(tf.test.TestCase):
    def test_moments_and_batch_norm(self):
        x = np.random.RandomState(0).rand(4, 3, 2, 5).astype(np.float32)
        with self.test_session() as sess:
            m, v = sess.run(tf.nn.moments(x, [0, 1, 2]))
            self.assertAllClose(x.mean((0, 1, 2)), m)
            self.assertAllClose(x.var((0, 1, 2)), v)
            y = tf.nn.batch_normalization(x, m, v, np.float32(2), np.float32(3), 1e-3).eval()
            self.assertAllClose((x - m) / np.sqrt(v + 1e-3) * 3 + 2, y, rtol=1e-5, atol=1e-5)
            fused, fm, fv = sess.run(
                tf.nn.fused_batch_norm(x, np.full(5, 3, np.float32), np.full(5, 2, np.float32))
            )
            self.assertAllClose(y, fused, rtol=1e-4, atol=1e-4)
            self.assertAllClose(v * 24 / 23, fv, rtol=1e-4)
            self.assertAllClose(m, fm)
            n = tf.nn.l2_normalize(x, axis=3).eval()
            self.assertAllClose(x / np.sqrt((x**2).sum(3, keepdims=True)), n)
            lrn = tf.nn.local_response_normalization(
                x, depth_radius=1, bias=1.0, alpha=0.5, beta=0.5
            ).eval()
            squares = np.stack([(x[..., max(0, i - 1) : i + 2] ** 2).sum(-1) for i in range(5)], -1)
            self.assertAllClose(x / np.sqrt(1 + 0.5 * squares), lrn)

    def test_softmax_and_entropies(self):
        logits = np.array([[1.0, 2.0, 3.0], [1000.0, 0.0, -1000.0]], np.float32)
        with self.test_session():
            s = tf.nn.softmax(logits).eval()
            self.assertAllClose([1, 1], s.sum(1))
            self.assertAllClose(np.log(s[0]), tf.nn.log_softmax(logits).eval()[0])
            self.assertAllClose(s, tf.nn.softmax(logits.T, axis=0).eval().T)
            labels = np.array([[0.2, 0.3, 0.5], [1, 0, 0]], np.float32)
            expected = -(labels[0] * np.log(s[0])).sum()
            self.assertAllClose(
                [expected, 0],
                tf.nn.softmax_cross_entropy_with_logits(labels=labels, logits=logits).eval(),
            )
            self.assertAllClose(
                [-np.log(s[0, 2]), 0],
                tf.nn.sparse_softmax_cross_entropy_with_logits(labels=[2, 0], logits=logits).eval(),
            )
            x, z = np.array([-100.0, -2.0, 0.0, 2.0]), np.array([0.0, 1.0, 0.5, 0.2])
            expected = np.maximum(x, 0) - x * z + np.log1p(np.exp(-np.abs(x)))
            self.assertAllClose(
                expected, tf.nn.sigmoid_cross_entropy_with_logits(labels=z, logits=x).eval()
            )
            with self.assertRaisesRegex(
                ValueError, "Only call `softmax_cross_entropy_with_logits` with named arguments"
            ):
                tf.nn.softmax_cross_entropy_with_logits(labels, logits)
            with self.assertRaisesRegex(ValueError, "logits and labels must have the same shape"):
                tf.nn.sigmoid_cross_entropy_with_logits(labels=[[2.0, 1.0]], logits=[1.0, 2.0, 3.0])
            with self.assertRaisesRegex(ValueError, "Rank mismatch: Rank of labels"):
                tf.nn.sparse_softmax_cross_entropy_with_logits(
                    labels=[[0, 2]], logits=[[0.0, 1.0], [2.0, 3.0]]
                )
            with self.assertRaisesRegex(ValueError, "Logits cannot be scalars"):
                tf.nn.sparse_softmax_cross_entropy_with_logits(
                    labels=tf.constant(0), logits=tf.constant(1.0)
                )
            with self.assertRaisesOpError("Received a label value of"):
                tf.nn.sparse_softmax_cross_entropy_with_logits(
                    labels=[4], logits=[[0.0, 1.0]]
                ).eval()

    def test_bias_and_dropout(self):
        with self.test_session():
            x = np.ones((2, 3), np.float32)
            self.assertAllEqual(x + [1, 2, 3], tf.nn.bias_add(x, [1.0, 2.0, 3.0]).eval())
            with self.assertRaises(ValueError):
                tf.nn.bias_add([1, 2], [1])
            with self.assertRaises(ValueError):
                tf.nn.bias_add([[1, 2], [3, 4]], [[5]])
            y = tf.nn.dropout(tf.ones([400, 30]), 0.25).eval()
            self.assertEqual([0, 4], sorted(np.unique(y)))
            self.assertAllClose(0.25, (y > 0).mean(), atol=0.03)
            z = tf.nn.dropout(tf.ones([4, 5]), keep_prob=0.5, noise_shape=[4, 1]).eval()
            self.assertTrue(all(len(set(row)) == 1 for row in z))
            with self.assertRaisesRegex(
                ValueError,
                r"keep_prob must be a scalar tensor or a float in the range|rate must be",
            ):
                tf.nn.dropout(x, -1.0)
            same = tf.constant(x)
            self.assertIs(same, tf.nn.dropout(same, 1.0))

    def test_embeddings(self):
        with self.test_session():
            table = np.arange(10, dtype=np.float32).reshape(5, 2)
            self.assertAllEqual(table[[3, 0]], tf.nn.embedding_lookup(table, [3, 0]).eval())
            parts = [table[0::2], table[1::2]]
            self.assertAllEqual(table[[3, 0, 4]], tf.nn.embedding_lookup(parts, [3, 0, 4]).eval())
            self.assertAllEqual(
                table[[4, 2]],
                tf.nn.embedding_lookup(
                    [table[:3], table[3:]], [4, 2], partition_strategy="div"
                ).eval(),
            )
            ids = tf.SparseTensor(
                [[0, 0], [0, 1], [1, 0]], tf.constant([1, 2, 4], tf.int64), [2, 2]
            )
            weights = tf.SparseTensor([[0, 0], [0, 1], [1, 0]], [1.0, 3.0, 2.0], [2, 2])
            for combiner, first in (
                ("sum", table[1] + 3 * table[2]),
                ("mean", (table[1] + 3 * table[2]) / 4),
                ("sqrtn", (table[1] + 3 * table[2]) / np.sqrt(10)),
            ):
                got = tf.nn.embedding_lookup_sparse(
                    tf.constant(table), ids, weights, combiner=combiner
                ).eval()
                self.assertAllClose(first, got[0])
            with self.assertRaisesRegex(
                ValueError, "combiner must be one of 'mean', 'sqrtn' or 'sum'"
            ):
                tf.nn.embedding_lookup_sparse(tf.constant(table), ids, None, combiner="max")
            with self.assertRaisesRegex(ValueError, "Need at least one param"):
                tf.nn.embedding_lookup([], [0])


class LossesTest(tf.test.TestCase):
    def test_values(self):
        p, y = [[4.0, 8.0, 12.0], [8.0, 1.0, 3.0]], [[1.0, 9.0, 2.0], [-5.0, -2.0, 6.0]]
        with self.test_session():
            self.assertAllClose(5.5, tf.losses.absolute_difference(y, p).eval())
            self.assertAllClose(5.5 * 2.3, tf.losses.absolute_difference(y, p, 2.3).eval())
            self.assertAllClose(
                26.3 / 6, tf.losses.absolute_difference(y, p, [[1.2], [0.5]]).eval()
            )
            self.assertAllClose(49.5, tf.losses.mean_squared_error(y, p).eval())
            self.assertAllClose(0.0, tf.losses.mean_squared_error(y, p, 0.0).eval())
            self.assertAllClose(
                10.0,
                tf.losses.softmax_cross_entropy([[0, 0, 1]], [[10.0, 0.0, 0.0]]).eval(),
                rtol=1e-3,
            )
            self.assertAllClose(
                10.0,
                tf.losses.sparse_softmax_cross_entropy([2], [[10.0, 0.0, 0.0]]).eval(),
                rtol=1e-3,
            )
            self.assertAllClose(1.0, tf.losses.hinge_loss([1.0], [0.0]).eval())
            self.assertAllClose(0.125, tf.losses.huber_loss([1.0], [0.5]).eval())
            self.assertEqual(9, len(tf.losses.get_losses()))
            self.assertEqual(
                2,
                tf.losses.mean_squared_error(y, p, reduction=tf.losses.Reduction.NONE)
                .get_shape()
                .ndims,
            )

    def test_errors(self):
        with self.assertRaises(ValueError):
            tf.losses.absolute_difference([1.0], [[1.0]], weights=None)
        with self.assertRaisesRegex(
            ValueError,
            "Shapes? .* (are|is) incompatible|weights can not be broadcast|not compatible",
        ):
            tf.losses.mean_squared_error([1.0, 2.0], [1.0])
        with self.assertRaisesRegex(ValueError, "weights can not be broadcast to values"):
            tf.losses.mean_squared_error([[1.0, 2.0]], [[1.0, 2.0]], weights=[1.0, 2.0, 3.0])
        with self.assertRaisesRegex(ValueError, "Invalid Reduction ?Key"):
            tf.losses.mean_squared_error([1.0], [1.0], reduction="nothing")


class LayersTest(tf.test.TestCase):
    def test_dense(self):
        with tf.Graph().as_default():
            x = tf.placeholder(tf.float32, [None, 4])
            y = tf.layers.dense(
                x, 3, name="d", activation=tf.nn.relu, kernel_regularizer=lambda w: tf.reduce_sum(w)
            )
            self.assertEqual([None, 3], y.get_shape().as_list())
            self.assertEqual("d/Relu", y.op.name)
            self.assertEqual(["d/kernel:0", "d/bias:0"], [v.name for v in tf.trainable_variables()])
            tf.layers.dense(x, 3, name="d", reuse=True)
            self.assertEqual(2, len(tf.trainable_variables()))
            self.assertEqual(1, len(tf.get_collection(tf.GraphKeys.REGULARIZATION_LOSSES)))
            with self.assertRaisesRegex(ValueError, "already exists"):
                tf.layers.dense(x, 3, name="d")
            tf.layers.dense(x, 2)
            tf.layers.dense(x, 2)
            self.assertEqual("dense_1/bias:0", tf.trainable_variables()[-1].name)
            layer = tf.layers.Dense(5, use_bias=False, name="o")
            layer(tf.zeros([2, 3, 4]))
            self.assertTrue(layer.built)
            self.assertIs(None, layer.bias)
            self.assertEqual([4, 5], layer.kernel.get_shape().as_list())
            self.assertEqual((2, 3, 5), tuple(layer.output.get_shape().as_list()))
            with self.assertRaisesRegex(ValueError, "last dimension.*should be defined"):
                tf.layers.dense(tf.placeholder(tf.float32, [2, None]), 3)
            with self.assertRaisesRegex(ValueError, "min_ndim=2|is incompatible with the layer"):
                tf.layers.Dense(3)(tf.zeros([3]))

    def test_convolutions_and_pools(self):
        with tf.Graph().as_default():
            x = tf.zeros([5, 7, 9, 4])
            self.assertEqual([5, 5, 7, 32], tf.layers.conv2d(x, 32, [3, 3]).get_shape().as_list())
            self.assertEqual(
                [5, 4, 5, 32],
                tf.layers.conv2d(x, 32, 3, strides=2, padding="same", activation=tf.nn.relu)
                .get_shape()
                .as_list(),
            )
            self.assertEqual(
                ["conv2d/kernel:0", "conv2d/bias:0", "conv2d_1/kernel:0", "conv2d_1/bias:0"],
                [v.name for v in tf.global_variables()],
            )
            self.assertEqual(
                [5, 9, 11, 6], tf.layers.conv2d_transpose(x, 6, 3).get_shape().as_list()
            )
            self.assertEqual([5, 3, 4, 4], tf.layers.max_pooling2d(x, 2, 2).get_shape().as_list())
            self.assertEqual(
                [5, 4, 7, 4], tf.layers.average_pooling2d(x, [4, 3], 1).get_shape().as_list()
            )
            self.assertEqual(
                [5, 5, 7, 3], tf.layers.separable_conv2d(x, 3, 3).get_shape().as_list()
            )
            self.assertEqual([5, 252], tf.layers.flatten(x).get_shape().as_list())
            with self.assertRaises(ValueError):
                tf.layers.conv2d(x, 32, [3, 3], data_format="bad")
            with self.assertRaises(ValueError):
                tf.layers.conv2d(x, 32, [1, 2, 3])
            with self.assertRaises(ValueError):
                tf.layers.conv2d(tf.zeros([5, 7]), 32, 3)

    def test_batch_normalization(self):
        with tf.Graph().as_default(), tf.Session() as sess:
            x = np.random.RandomState(0).rand(50, 4).astype(np.float32) * 5 + 3
            training = tf.placeholder(tf.bool, [])
            y = tf.layers.batch_normalization(
                tf.constant(x), training=training, momentum=0.5, name="bn"
            )
            updates = tf.get_collection(tf.GraphKeys.UPDATE_OPS)
            self.assertEqual(2, len(updates))
            self.assertEqual(
                ["bn/gamma:0", "bn/beta:0", "bn/moving_mean:0", "bn/moving_variance:0"],
                [v.name for v in tf.global_variables()],
            )
            self.assertEqual(2, len(tf.trainable_variables()))
            tf.global_variables_initializer().run()
            for _ in range(20):
                out, *_ = sess.run([y, *updates], {training: True})
            self.assertAllClose(np.zeros(4), out.mean(0), atol=1e-4)
            mean, variance = sess.run(tf.global_variables()[2:])
            self.assertAllClose(x.mean(0), mean, rtol=1e-3)
            self.assertAllClose(x.var(0), variance, rtol=1e-2)
            self.assertAllClose(out, sess.run(y, {training: False}), atol=1e-2)


class CellTest(tf.test.TestCase):
    def test_cells(self):
        with (
            tf.Graph().as_default(),
            tf.Session() as sess,
            tf.variable_scope("root", initializer=tf.constant_initializer(0.5)),
        ):
            x = tf.zeros([1, 2])
            g, _ = tf.nn.rnn_cell.BasicRNNCell(2)(x, x)
            gru, _ = tf.nn.rnn_cell.GRUCell(2)(x, tf.constant([[0.1, 0.1]]))
            lstm, state = tf.nn.rnn_cell.BasicLSTMCell(2)(x, tf.nn.rnn_cell.LSTMStateTuple(x, x))
            tf.global_variables_initializer().run()
            self.assertEqual((1, 2), sess.run(g).shape)
            self.assertAllClose([[0.175991, 0.175991]], gru.eval(), atol=0.2)
            self.assertEqual((1, 2), sess.run(state).c.shape)
            self.assertEqual((1, 2), lstm.eval().shape)
            names = [v.op.name for v in tf.trainable_variables()]
            self.assertIn("root/basic_rnn_cell/kernel", names)
            self.assertIn("root/gru_cell/gates/kernel", names)
            self.assertIn("root/basic_lstm_cell/bias", names)

    def test_dynamic_rnn(self):
        with tf.Graph().as_default(), tf.Session() as sess:
            x = tf.constant(np.random.RandomState(0).rand(3, 4, 2).astype(np.float32))
            cell = tf.nn.rnn_cell.MultiRNNCell(
                [tf.nn.rnn_cell.LSTMCell(5, state_is_tuple=True) for _ in range(2)]
            )
            out, state = tf.nn.dynamic_rnn(cell, x, sequence_length=[4, 2, 0], dtype=tf.float32)
            tf.global_variables_initializer().run()
            o, s = sess.run([out, state])
            self.assertEqual((3, 4, 5), o.shape)
            self.assertAllEqual(np.zeros((2, 5)), o[1, 2:])
            self.assertAllEqual(o[1, 1], s[1].h[1])
            self.assertAllEqual(np.zeros(5), s[1].h[2])
            self.assertIsNot(None, tf.gradients(out, x)[0])
            with self.assertRaisesRegex(
                ValueError, "must provide a dtype|If there is no initial_state"
            ):
                tf.nn.dynamic_rnn(tf.nn.rnn_cell.BasicRNNCell(2), x)
            with self.assertRaises((TypeError, ValueError)):
                tf.nn.static_rnn(tf.nn.rnn_cell.BasicRNNCell(2), x, dtype=tf.float32)


class InitializerTest(tf.test.TestCase):
    def test_values(self):
        with self.test_session():
            self.assertAllEqual(
                [[1, 2], [3, 3]], tf.constant_initializer([1, 2, 3])([2, 2], tf.int32).eval()
            )
            self.assertAllEqual(np.eye(2, 3), tf.initializers.identity()([2, 3]).eval())
            q = tf.orthogonal_initializer(seed=1)([4, 3]).eval()
            self.assertAllClose(np.eye(3), q.T @ q, atol=1e-5)
            t = tf.truncated_normal_initializer(stddev=0.5, seed=2)([2000]).eval()
            self.assertLess(np.abs(t).max(), 1.0)
            u = tf.uniform_unit_scaling_initializer(seed=3)([100, 50]).eval()
            self.assertLess(np.abs(u).max(), np.sqrt(3 / 100) + 1e-6)
            x = tf.glorot_uniform_initializer(seed=4)([100, 50]).eval()
            self.assertLess(np.abs(x).max(), np.sqrt(6 / 150) + 1e-6)
            with self.assertRaises(TypeError):
                tf.constant_initializer([1, 2, 3, 4, 5], verify_shape=True)([2]).eval()
            with self.assertRaises(ValueError):
                tf.variance_scaling_initializer(scale=-1.0)
            with self.assertRaises(ValueError):
                tf.orthogonal_initializer()([4]).eval()

    def test_seeds(self):
        values = []
        for _ in range(2):
            with tf.Graph().as_default(), tf.Session():
                tf.set_random_seed(7)
                values.append((tf.random_normal([3]).eval(), tf.random_uniform([3], seed=2).eval()))
        self.assertAllEqual(values[0][0], values[1][0])
        self.assertAllEqual(values[0][1], values[1][1])
        with tf.Graph().as_default(), tf.Session() as sess:
            x = tf.random_normal([3], seed=5)
            self.assertNotAllClose(sess.run(x), sess.run(x))
            with self.assertRaises((TypeError, ValueError)):
                tf.random_uniform([3], dtype=tf.int32)
            with self.assertRaisesOpError("Need minval < maxval, got 2 >= 1"):
                tf.random_uniform([3], 2, 1, tf.int32).eval()


if __name__ == "__main__":
    tf.test.main()

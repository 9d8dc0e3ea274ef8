"""Variables, optimizers and savers, used as TensorFlow 1's own unit tests use them."""

import os

import numpy as np

import sparkflow as tf


class VariablesTest(tf.test.TestCase):
    def test_initialization(self):
        with self.test_session() as sess:
            v = tf.Variable(0.0)
            self.assertEqual("Variable:0", v.name)
            self.assertEqual([], v.get_shape())
            with self.assertRaisesOpError("Attempting to use uninitialized value Variable"):
                v.eval()
            self.assertEqual([b"Variable"], list(tf.report_uninitialized_variables().eval()))
            self.assertFalse(tf.is_variable_initialized(v).eval())
            tf.global_variables_initializer().run()
            self.assertEqual(0.0, v.eval())
            w = tf.Variable(v.initialized_value() + 1)
            w.initializer.run()
            self.assertEqual(1.0, sess.run(w))
            self.assertIs(None, tf.assert_variables_initialized().run())

    def test_assign(self):
        with self.test_session():
            v = tf.Variable([1.0, 2.0])
            tf.global_variables_initializer().run()
            self.assertAllEqual([2, 3], v.assign_add([1, 1]).eval())
            self.assertAllEqual([1, 1], v.assign_sub([1.0, 2.0]).eval())
            self.assertAllEqual([5, 1], tf.scatter_update(v, [0], [5.0]).eval())
            self.assertAllEqual([5, 2], tf.scatter_add(v, [1], [1.0]).eval())
            self.assertAllEqual([10, 2], tf.scatter_mul(v, 0, 2.0).eval())
            with self.assertRaisesRegex(
                ValueError, r"(?i)shape.*must (have|be)|incompatible|must be equal|same shape"
            ):
                tf.assign(v, [1.0, 2.0, 3.0])
            resized = tf.assign(v, [1.0, 2.0, 3.0], validate_shape=False)
            self.assertAllEqual([1, 2, 3], resized.eval())
            with self.assertRaisesOpError(r"indices.* = 7 is not in \[0, 3\)"):
                tf.scatter_update(v, [7], [5.0]).eval()
            c = tf.Variable(0, dtype=tf.int32)
            c.initializer.run()
            counter = c.count_up_to(2)
            self.assertEqual([0, 1], [counter.eval(), counter.eval()])
            with self.assertRaisesOpError("Reached limit of 2"):
                counter.eval()

    def test_iteration_and_collections(self):
        with tf.Graph().as_default():
            a = tf.Variable(
                1.0, trainable=False, collections=["mine", tf.GraphKeys.GLOBAL_VARIABLES]
            )
            b = tf.Variable(2.0, name="b")
            local = tf.Variable(3.0, collections=[tf.GraphKeys.LOCAL_VARIABLES])
            self.assertEqual([a, b], tf.global_variables())
            self.assertEqual([b, local], tf.trainable_variables())
            self.assertEqual([local], tf.local_variables())
            self.assertEqual([a], tf.get_collection("mine"))
            with self.assertRaisesRegex(TypeError, "'Variable' object is not iterable"):
                iter(b)
            with self.assertRaises((TypeError, ValueError)):
                tf.Variable(1.0, collections="mine")
            with self.assertRaisesRegex(ValueError, "initial_value must be specified"):
                tf.Variable()
            with self.assertRaisesRegex(ValueError, "initial_value must have a shape specified"):
                tf.Variable(tf.placeholder(tf.float32))
            self.assertIs(
                None,
                tf.Variable(tf.placeholder(tf.float32), validate_shape=False).get_shape().ndims,
            )

    def test_proto(self):
        with tf.Graph().as_default():
            v = tf.Variable(1.0, name="v")
            again = tf.Variable(variable_def=v.to_proto())
            self.assertEqual("v:0", again.name)
            self.assertEqual(v.op.name, again.op.name)


class VariableScopeTest(tf.test.TestCase):
    def test_reuse(self):
        with tf.Graph().as_default():
            with tf.variable_scope("tower"):
                v = tf.get_variable("v", [1])
                self.assertEqual("tower/v:0", v.name)
                with self.assertRaisesRegex(
                    ValueError, "Variable tower/v already exists, disallowed"
                ):
                    tf.get_variable("v", [1])
            with tf.variable_scope("tower", reuse=True):
                self.assertIs(v, tf.get_variable("v", [1]))
                with self.assertRaisesRegex(
                    ValueError, "Variable tower/w does not exist, or was not created"
                ):
                    tf.get_variable("w", [1])
                with self.assertRaisesRegex(
                    ValueError, "Trying to share variable tower/v, but specified shape"
                ):
                    tf.get_variable("v", [2])
                with self.assertRaisesRegex(
                    ValueError, "Trying to share variable tower/v, but specified dtype"
                ):
                    tf.get_variable("v", [1], tf.int32)
            with tf.variable_scope("tower", reuse=tf.AUTO_REUSE) as scope:
                self.assertIs(v, tf.get_variable("v", [1]))
                tf.get_variable("w", [1])
                self.assertTrue(scope.reuse)
            with tf.variable_scope("x") as x:
                self.assertFalse(x.reuse)
                x.reuse_variables()
                self.assertTrue(x.reuse)

    def test_names(self):
        with tf.Graph().as_default():
            with tf.variable_scope("a") as a, tf.variable_scope("b"):
                self.assertEqual("a/b/v:0", tf.get_variable("v", []).name)
                self.assertEqual("a/b/add:0", tf.add(1, 1, name="add").name)
            with tf.variable_scope(a):
                self.assertEqual("a/w:0", tf.get_variable("w", []).name)
                self.assertEqual("a_1/add:0", tf.add(1, 1, name="add").name)
            with (
                tf.variable_scope(a, auxiliary_name_scope=False),
                tf.name_scope(a.original_name_scope),
            ):
                self.assertEqual("a/add:0", tf.add(1, 1, name="add").name)
            with tf.variable_scope(None, default_name="d"):
                self.assertEqual("d/v:0", tf.get_variable("v", []).name)
            with tf.variable_scope(None, default_name="d"):
                self.assertEqual("d_1/v:0", tf.get_variable("v", []).name)
            with tf.name_scope("n"):
                self.assertEqual("plain:0", tf.get_variable("plain", []).name)
                self.assertEqual("n/Variable:0", tf.Variable(1.0).name)

    def test_inherited(self):
        losses = tf.GraphKeys.REGULARIZATION_LOSSES
        with tf.Graph().as_default(), tf.Session():
            with tf.variable_scope(
                "t",
                initializer=tf.constant_initializer(0.3),
                regularizer=lambda w: tf.reduce_sum(w) * 2,
                dtype=tf.float64,
            ):
                v = tf.get_variable("v", [2])
                w = tf.get_variable(
                    "w", [], initializer=tf.zeros_initializer(), regularizer=tf.no_regularizer
                )
            self.assertEqual(tf.float64, v.dtype.base_dtype)
            self.assertEqual(1, len(tf.get_collection(losses)))
            tf.global_variables_initializer().run()
            self.assertAllClose([0.3, 0.3], v.eval())
            self.assertAllClose(0.0, w.eval())
            self.assertAllClose(1.2, tf.losses.get_regularization_loss().eval())

    def test_custom_getter_and_partitioner(self):
        def getter(get, name, *args, **kwargs):
            return get(name + "_x", *args, **kwargs) * 2.0

        with tf.Graph().as_default(), tf.Session():
            with tf.variable_scope("c", custom_getter=getter):
                doubled = tf.get_variable("v", [], initializer=tf.ones_initializer())
            parts = tf.get_variable(
                "p",
                [5, 2],
                initializer=tf.ones_initializer(),
                partitioner=tf.fixed_size_partitioner(2),
            )
            tf.global_variables_initializer().run()
            self.assertEqual(2.0, doubled.eval())
            self.assertEqual(
                ["c/v_x", "p/part_0", "p/part_1"], [v.op.name for v in tf.global_variables()]
            )
            self.assertEqual([[3, 2], [2, 2]], [v.get_shape().as_list() for v in parts])
            self.assertAllEqual(np.ones((5, 2)), tf.convert_to_tensor(parts).eval())


class OptimizerTest(tf.test.TestCase):
    def _run(self, make, steps, sparse=False, resource=False):
        with tf.Graph().as_default(), tf.Session() as sess:
            with tf.variable_scope("", use_resource=resource):
                v = tf.get_variable("v", initializer=tf.constant([[1.0, 2.0], [3.0, 4.0]]))
            g = tf.constant([[0.1, 0.2], [0.01, 0.3]])
            if sparse:
                g = tf.IndexedSlices(
                    tf.constant([[0.1, 0.2], [0.3, 0.1]]), tf.constant([1, 1]), tf.constant([2, 2])
                )
            op = make().apply_gradients([(g, v)])
            tf.global_variables_initializer().run()
            for _ in range(steps):
                sess.run(op)
            return v.eval()

    def test_references(self):
        v = np.array([[1.0, 2.0], [3.0, 4.0]])
        g = np.array([[0.1, 0.2], [0.01, 0.3]])
        self.assertAllClose(
            v - 3 * 2 * g, self._run(lambda: tf.train.GradientDescentOptimizer(2.0), 3)
        )
        m, w = 0, v.copy()
        for _ in range(3):
            m = 0.9 * m + g
            w = w - 2 * m
        self.assertAllClose(
            w, self._run(lambda: tf.train.MomentumOptimizer(2.0, 0.9), 3), rtol=1e-5
        )
        a, w = 0.1, v.copy()
        for _ in range(3):
            a = a + g * g
            w = w - 3 * g / np.sqrt(a)
        self.assertAllClose(w, self._run(lambda: tf.train.AdagradOptimizer(3.0), 3), rtol=1e-5)
        m, s, w = 0, 0, v.copy()
        for t in range(1, 4):
            m, s = 0.9 * m + 0.1 * g, 0.999 * s + 0.001 * g * g
            w = w - 0.01 * np.sqrt(1 - 0.999**t) / (1 - 0.9**t) * m / (np.sqrt(s) + 1e-8)
        for resource in (False, True):
            self.assertAllClose(
                w, self._run(lambda: tf.train.AdamOptimizer(0.01), 3, resource=resource), rtol=1e-5
            )
        r, m, w = 1.0, 0, v.copy()
        for _ in range(3):
            r = 0.9 * r + 0.1 * g * g
            m = 0.5 * m + 0.1 * g / np.sqrt(r + 1e-10)
            w = w - m
        self.assertAllClose(
            w, self._run(lambda: tf.train.RMSPropOptimizer(0.1, momentum=0.5), 3), rtol=1e-5
        )

    def test_sparse_duplicates(self):
        v = np.array([[1.0, 2.0], [3.0, 4.0]])
        g = np.array([[0, 0], [0.4, 0.3]])
        for resource in (False, True):
            self.assertAllClose(
                v - 2 * 0.5 * g,
                self._run(lambda: tf.train.GradientDescentOptimizer(0.5), 2, True, resource),
                rtol=1e-5,
            )
            a, w = 0.1, v.copy()
            for _ in range(2):
                a = a + g * g
                w = w - g / np.sqrt(a)
            self.assertAllClose(
                w, self._run(lambda: tf.train.AdagradOptimizer(1.0), 2, True, resource), rtol=1e-5
            )

    def test_minimize_and_errors(self):
        with tf.Graph().as_default(), tf.Session() as sess:
            v = tf.Variable([1.0, 2.0])
            c = tf.constant(3.0)
            step = tf.train.get_or_create_global_step()
            opt = tf.train.GradientDescentOptimizer(3.0)
            train = opt.minimize(5 * v * v, global_step=step, var_list=[v])
            tf.global_variables_initializer().run()
            sess.run(train)
            self.assertAllClose([1 - 30, 2 - 60], v.eval())
            self.assertEqual(1, step.eval())
            with self.assertRaisesRegex(ValueError, "No variables to optimize"):
                with tf.Graph().as_default():
                    opt.minimize(tf.constant(1.0))
            with self.assertRaisesRegex(ValueError, "No gradients provided for any variable"):
                opt.minimize(c, var_list=[v])
            with self.assertRaisesRegex(ValueError, "No gradients provided for any variable"):
                opt.apply_gradients([(None, v)])
            with self.assertRaisesRegex(ValueError, "No variables provided"):
                opt.apply_gradients([])
            with self.assertRaisesRegex(TypeError, "Gradient must be convertible to a Tensor"):
                opt.apply_gradients([(object(), v)])
            momentum = tf.train.MomentumOptimizer(0.1, 0.9)
            momentum.minimize(v * v)
            self.assertEqual(["momentum"], momentum.get_slot_names())
            self.assertEqual("Variable/Momentum:0", momentum.get_slot(v, "momentum").name)
            self.assertEqual(1, len(momentum.variables()))

    def test_decays_and_averages(self):
        with tf.Graph().as_default(), tf.Session():
            s = tf.Variable(0)
            s.initializer.run()
            e = tf.train.exponential_decay(0.1, s, 3, 0.96, staircase=True)
            p = tf.train.polynomial_decay(0.05, s, 10, 0.01)
            w = tf.train.piecewise_constant(s, [2, 4], [1.0, 0.1, 0.001])
            s.assign(5).eval()
            self.assertAllClose([0.1 * 0.96, 0.03, 0.001], [e.eval(), p.eval(), w.eval()])
            v = tf.Variable(10.0, name="v")
            ema = tf.train.ExponentialMovingAverage(0.25)
            update = ema.apply([v])
            tf.global_variables_initializer().run()
            update.run()
            v.assign(20.0).eval()
            update.run()
            self.assertAllClose(0.25 * 10 + 0.75 * 20, ema.average(v).eval())
            self.assertEqual("v/ExponentialMovingAverage", ema.average_name(v))
            self.assertIn("v/ExponentialMovingAverage", ema.variables_to_restore())


class SaverTest(tf.test.TestCase):
    def test_round_trip(self):
        path = os.path.join(self.get_temp_dir(), "basics")
        with tf.Graph().as_default(), tf.Session() as sess:
            v0 = tf.Variable(10.0, name="v0")
            v1 = tf.Variable([1, 2], name="v1")
            saver = tf.train.Saver({"v0": v0, "renamed": v1})
            tf.global_variables_initializer().run()
            self.assertEqual(path + "-7", saver.save(sess, path, global_step=7))
            v0.assign(0.0).eval()
            saver.restore(sess, path + "-7")
            self.assertEqual(10.0, v0.eval())
            self.assertEqual(path + "-7", tf.train.latest_checkpoint(self.get_temp_dir()))
            self.assertTrue(tf.train.checkpoint_exists(path + "-7"))
            reader = tf.train.NewCheckpointReader(path + "-7")
            self.assertAllEqual([1, 2], reader.get_tensor("renamed"))
            self.assertEqual({"v0": [], "renamed": [2]}, reader.get_variable_to_shape_map())
        with tf.Graph().as_default(), tf.Session() as sess:
            tf.Variable(1.0, name="other")
            with self.assertRaisesRegex(
                tf.errors.NotFoundError, "Key other not found in checkpoint"
            ):
                tf.train.Saver().restore(sess, path + "-7")
            with self.assertRaisesRegex(ValueError, "Can't load save_path when it is None"):
                tf.train.Saver().restore(sess, None)
            with self.assertRaises((ValueError, tf.errors.NotFoundError)):
                tf.train.Saver().restore(sess, path + "-nothing")
        with tf.Graph().as_default():
            with self.assertRaisesRegex(ValueError, "No variables to save"):
                tf.train.Saver()
            with self.assertRaises((TypeError, ValueError)):
                tf.train.Saver([1])

    def test_max_to_keep(self):
        directory = self.get_temp_dir()
        with tf.Graph().as_default(), tf.Session() as sess:
            tf.Variable(1.0).initializer.run()
            saver = tf.train.Saver(max_to_keep=2)
            paths = [saver.save(sess, os.path.join(directory, f"m{i}")) for i in range(3)]
            self.assertEqual(paths[1:], saver.last_checkpoints)
            self.assertFalse(tf.train.checkpoint_exists(paths[0]))


if __name__ == "__main__":
    tf.test.main()

"""Sessions, used as TensorFlow 1's own unit tests use them."""

import sparkflow as tf


class SessionTest(tf.test.TestCase):
    def test_fetch_structures(self):
        import collections

        with tf.Session(graph=tf.Graph()) as sess, sess.graph.as_default():
            a, b = tf.constant(42.0), tf.constant([1.0, 2.0])
            s = tf.SparseTensor([[0]], [1.5], [2])
            pair = collections.namedtuple("Pair", ["x", "y"])
            self.assertEqual(42.0, sess.run(a))
            self.assertEqual([42.0], sess.run([a]))
            self.assertEqual((42.0,), sess.run((a,)))
            got = sess.run(
                {"x": a, "y": [b, {"z": a}], "n": sess.graph.get_operation_by_name(a.op.name)}
            )
            self.assertEqual(42.0, got["y"][1]["z"])
            self.assertIs(None, got["n"])
            got = sess.run(pair(a, b))
            self.assertIsInstance(got, pair)
            self.assertIsInstance(sess.run(s), tf.SparseTensorValue)
            self.assertEqual(42.0, sess.run("Const:0"))
            self.assertIs(None, sess.run("Const"))
            self.assertEqual([], sess.run([]))
            self.assertEqual({}, sess.run({}))
            self.assertIsInstance(
                sess.run(collections.OrderedDict([("q", a)])), collections.OrderedDict
            )
            slices = sess.run(tf.IndexedSlices(b, tf.constant([0, 1])))
            self.assertAllEqual([0, 1], slices.indices)

    def test_errors(self):
        with tf.Session(graph=tf.Graph()) as sess, sess.graph.as_default():
            a = tf.constant(1.0)
            with self.assertRaisesRegex(TypeError, "Fetch argument None has invalid type"):
                sess.run(None)
            with self.assertRaisesRegex(TypeError, "Fetch argument .* has invalid type"):
                sess.run(1.5)
            with self.assertRaisesRegex(
                ValueError,
                "cannot be interpreted as a Tensor|refers to an Operation not in the graph",
            ):
                sess.run("nothing")
            with self.assertRaisesRegex(ValueError, "is not an element of this graph"):
                with tf.Graph().as_default():
                    sess.run(tf.constant(1))
            with self.assertRaisesRegex(TypeError, "Cannot interpret feed_dict key as Tensor"):
                sess.run(a, feed_dict={1.5: 2})
            with self.assertRaisesRegex(TypeError, "Cannot interpret feed_dict key as Tensor"):
                sess.run(a, feed_dict={"nothing:0": 2})
            with self.assertRaisesRegex(
                TypeError, "The value of a feed cannot be a tf.Tensor object"
            ):
                sess.run(a, feed_dict={a: tf.constant(1.0)})
            p = tf.placeholder(tf.int32, [2])
            with self.assertRaises((TypeError, ValueError)):
                sess.run(p, {p: ["a", "b"]})
            self.assertEqual(5.0, sess.run("Const:0", {"Const:0": 5.0}))
            with self.assertRaisesRegex(TypeError, "feed_dict must be a dictionary|dict"):
                sess.run(a, feed_dict=[a])

    def test_closed(self):
        sess = tf.Session(graph=tf.Graph())
        with sess.graph.as_default():
            c = tf.constant(1)
        sess.close()
        with self.assertRaisesRegex(RuntimeError, "Attempted to use a closed Session."):
            sess.run(c)
        sess.close()

    def test_no_default_session(self):
        with tf.Graph().as_default():
            a = tf.constant(1)
            with self.assertRaisesRegex(
                ValueError,
                "Cannot evaluate tensor using `eval\\(\\)`: No default session is registered",
            ):
                a.eval()
            with self.assertRaisesRegex(
                ValueError,
                "Cannot execute operation using `run\\(\\)`: No default session is registered",
            ):
                a.op.run()
            other = tf.Session(graph=tf.Graph())
            with other.as_default(), self.assertRaisesRegex(ValueError, "default session"):
                a.eval()
            other.close()

    def test_empty_graph(self):
        with tf.Graph().as_default(), self.assertRaises((RuntimeError, ValueError)):
            tf.Session().run("a:0")

    def test_graph_extension_and_def(self):
        with tf.Graph().as_default(), tf.Session() as sess:
            a = tf.constant(1.0)
            self.assertEqual(1.0, sess.run(a))
            b = a + 1
            self.assertEqual(2.0, sess.run(b))
            self.assertEqual(len(sess.graph_def.node), len(sess.graph.get_operations()))
            self.assertIs(sess, tf.get_default_session())

    def test_make_callable(self):
        with tf.Graph().as_default(), tf.Session() as sess:
            p = tf.placeholder(tf.float32)
            f = sess.make_callable([p * 2, {"x": p}], feed_list=[p])
            got = f(3.0)
            self.assertEqual(6.0, got[0])
            self.assertEqual(3.0, got[1]["x"])
            g = sess.make_callable(tf.constant(1).op)
            self.assertIs(None, g())
            with self.assertRaises(TypeError):
                sess.make_callable(p, feed_list={p: 1})

    def test_partial_run(self):
        with tf.Graph().as_default(), tf.Session() as sess:
            a, b, c = (tf.placeholder(tf.float32, []) for _ in range(3))
            r1 = a + b
            r2 = r1 * c
            h = sess.partial_run_setup([r1, r2], [a, b, c])
            self.assertEqual(3, sess.partial_run(h, r1, feed_dict={a: 1, b: 2}))
            self.assertEqual(51, sess.partial_run(h, r2, feed_dict={c: 17}))
            with self.assertRaisesRegex(
                tf.errors.InvalidArgumentError, "specify at least one target"
            ):
                sess.partial_run_setup([], [a])

    def test_interactive(self):
        with tf.Graph().as_default():
            sess = tf.InteractiveSession()
            self.assertEqual(3, tf.constant(3).eval())
            sess.close()

    def test_operation_run(self):
        with tf.Graph().as_default(), tf.Session():
            v = tf.Variable(1.0)
            v.initializer.run()
            v.assign_add(1.0).op.run()
            self.assertEqual(2.0, v.eval())

    def test_invalid_arguments(self):
        with self.assertRaisesRegex(TypeError, "target must be a string"):
            tf.Session(37)
        with self.assertRaisesRegex(TypeError, "config must be a tf.ConfigProto"):
            tf.Session(config=37)
        with self.assertRaisesRegex(TypeError, "graph must be a tf.Graph"):
            tf.Session(graph=37)

    def test_shape_of_feeds_and_feeding_intermediate(self):
        with tf.Graph().as_default(), tf.Session() as sess:
            a = tf.constant([1.0, 2.0])
            b = a * 2
            c = b + 1
            self.assertAllEqual([6, 7], sess.run(c, {b: [5, 6]}))
            self.assertAllEqual([5.0, 6.0], sess.run(b, {b: [5, 6]}))
            with self.assertRaisesRegex(
                ValueError,
                r"Cannot feed value of shape \(3,\) for Tensor .*, which has shape '?\(2,\)'?",
            ):
                sess.run(c, {b: [1, 2, 3]})


if __name__ == "__main__":
    tf.test.main()

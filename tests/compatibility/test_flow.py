"""Control flow, assertions and queues, used as TensorFlow 1's own unit tests use them."""

import threading

import numpy as np

import sparkflow as tf


class CondTest(tf.test.TestCase):
    def test_nested_and_gradients(self):
        with self.test_session() as sess:
            x = tf.placeholder(tf.float32, [])
            y = tf.cond(x > 0, lambda: tf.cond(x > 10, lambda: x * 3, lambda: x * 2), lambda: -x)
            g = tf.gradients(y, x)[0]
            for value, result, slope in ((20, 60, 3), (5, 10, 2), (-4, 4, -1)):
                self.assertAllClose([result, slope], sess.run([y, g], {x: value}))

    def test_side_effects(self):
        with self.test_session() as sess:
            v = tf.Variable(0)
            p = tf.placeholder(tf.bool, [])
            r = tf.cond(p, lambda: tf.assign(v, 1), lambda: tf.assign(v, 2))
            sess.run(v.initializer)
            self.assertEqual(1, sess.run(r, {p: True}))
            self.assertEqual(2, sess.run(r, {p: False}))
            self.assertEqual(2, v.eval())

    def test_structures(self):
        with self.test_session() as sess:
            got = sess.run(
                tf.cond(
                    tf.constant(True),
                    lambda: [1, {"a": tf.constant(2.0)}],
                    lambda: [3, {"a": tf.constant(4.0)}],
                )
            )
            self.assertEqual(1, got[0])
            self.assertEqual(2.0, got[1]["a"])
            single = tf.cond(tf.constant(True), lambda: [tf.constant(1)], lambda: [tf.constant(2)])
            self.assertIsInstance(single, tf.Tensor)
            strict = tf.cond(
                tf.constant(True), lambda: [tf.constant(1)], lambda: [tf.constant(2)], strict=True
            )
            self.assertIsInstance(strict, list)

    def test_errors(self):
        with self.assertRaisesRegex(TypeError, "true_fn must be callable"):
            tf.cond(tf.constant(True), 1, lambda: 2)
        with self.assertRaisesRegex(TypeError, "pred must not be a Python bool"):
            tf.cond(True, lambda: 1, lambda: 2)
        with self.assertRaises((TypeError, ValueError)):
            tf.cond(tf.constant(True), lambda: tf.constant(1), lambda: tf.constant(1.0))
        with self.assertRaises((TypeError, ValueError)):
            tf.cond(
                tf.constant(True), lambda: (tf.constant(1), tf.constant(1)), lambda: tf.constant(1)
            )

    def test_indexed_slices(self):
        with self.test_session():
            x = tf.constant([[1.0, 2.0], [3.0, 4.0]])
            y = tf.cond(tf.constant(True), lambda: tf.gather(x, [1]), lambda: tf.gather(x, [0]))
            g = tf.convert_to_tensor(tf.gradients(y, x)[0])
            self.assertAllEqual([[0, 0], [1, 1]], g.eval())


class WhileTest(tf.test.TestCase):
    def test_basics(self):
        with self.test_session() as sess:
            n = tf.constant(0)
            r = tf.while_loop(
                lambda i: tf.less(i, 10), lambda i: tf.add(i, 1), [n], parallel_iterations=20
            )
            self.assertEqual(10, r.eval())
            i, x = sess.run(
                tf.while_loop(lambda i, x: i < 5, lambda i, x: [i + 1, x * 2.0], [0, 1.0])
            )
            self.assertEqual((5, 32.0), (i, x))
            d = sess.run(
                tf.while_loop(
                    lambda s: s["i"] < 3,
                    lambda s: {"i": s["i"] + 1, "x": s["x"] + 2},
                    [{"i": tf.constant(0), "x": tf.constant(0)}],
                )
            )
            self.assertEqual(6, d["x"] if isinstance(d, dict) else d[0]["x"])

    def test_gradients(self):
        with self.test_session():
            v = tf.constant(2.0)
            r = tf.while_loop(lambda x: x < 100.0, lambda x: tf.square(x), [v])
            self.assertAllClose(1024.0, tf.gradients(r, v)[0].eval())
            a = tf.constant(3.0)
            r = tf.while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, x * a), [0, v])[1]
            g = tf.gradients(r, [v, a])
            self.assertAllClose([27.0, 54.0], [t.eval() for t in g])
            nested = tf.while_loop(
                lambda i, x: i < 2,
                lambda i, x: (
                    i + 1,
                    tf.while_loop(lambda j, y: j < 2, lambda j, y: (j + 1, y * v), [0, x])[1],
                ),
                [0, tf.constant(1.0)],
            )[1]
            self.assertAllClose(32.0, tf.gradients(nested, v)[0].eval())

    def test_shape_invariants(self):
        with self.test_session():
            m = tf.ones([2, 2])
            r = tf.while_loop(
                lambda i, m: i < 3,
                lambda i, m: [i + 1, tf.concat([m, m], axis=0)],
                [tf.constant(0), m],
                shape_invariants=[tf.TensorShape([]), tf.TensorShape([None, 2])],
            )
            self.assertEqual([None, 2], r[1].get_shape().as_list())
            self.assertEqual((16, 2), r[1].eval().shape)
            with self.assertRaisesRegex(ValueError, "shape"):
                tf.while_loop(
                    lambda i, m: i < 3,
                    lambda i, m: [i + 1, tf.concat([m, m], axis=0)],
                    [tf.constant(0), m],
                )

    def test_errors(self):
        with self.assertRaisesRegex(ValueError, "No loop variables provided"):
            tf.while_loop(lambda: True, lambda: None, [])
        with self.assertRaisesRegex(TypeError, "cond must be callable"):
            tf.while_loop(1, lambda x: x, [1])
        with self.assertRaisesRegex(TypeError, "body must be callable"):
            tf.while_loop(lambda x: x < 1, 1, [1])
        with self.assertRaises((TypeError, ValueError)):
            tf.while_loop(lambda i, x: i < 1, lambda i, x: i, [0, 0])

    def test_tensor_array(self):
        with self.test_session() as sess:
            ta = tf.TensorArray(tf.float32, size=4)
            x = tf.constant([1.0, 2.0, 3.0, 4.0])
            _, ta = tf.while_loop(
                lambda i, t: i < 4, lambda i, t: (i + 1, t.write(i, x[i] * x[i])), [0, ta]
            )
            out = ta.stack()
            self.assertAllEqual([1, 4, 9, 16], out.eval())
            self.assertAllEqual([2, 4, 6, 8], tf.gradients(out, x)[0].eval())
            t = tf.TensorArray(tf.float32, size=3, element_shape=[]).unstack([1.0, 2.0, 3.0])
            self.assertEqual(2.0, t.read(1).eval())
            self.assertEqual(3, t.size().eval())
            t = tf.TensorArray(tf.int32, size=0, dynamic_size=True, clear_after_read=False)
            t = t.write(2, 5).write(0, 1)
            self.assertEqual(3, sess.run(t.size()))
            split = tf.TensorArray(tf.float32, size=2, infer_shape=False).split(
                [1.0, 2.0, 3.0], [1, 2]
            )
            self.assertAllEqual([2.0, 3.0], split.read(1).eval())
            self.assertAllEqual([1.0, 2.0, 3.0], split.concat().eval())

    def test_tensor_array_errors(self):
        with self.test_session():
            t = tf.TensorArray(tf.float32, size=2)
            with self.assertRaisesOpError(
                "Tried to (write to|read from) index 5 but array (is not resizeable and )?size is: 2"  # noqa: E501
            ):
                t.write(5, 1.0).flow.eval()

    def test_functional(self):
        elems = np.array([1.0, 2.0, 3.0, 4.0], np.float32)
        with self.test_session() as sess:
            self.assertAllClose(elems**2, tf.map_fn(lambda x: x * x, elems).eval())
            self.assertAllEqual(208, tf.foldl(lambda a, x: (a + x) * 2, np.arange(1, 7)).eval())
            self.assertAllClose(np.cumsum(elems), tf.scan(lambda a, x: a + x, elems).eval())
            self.assertAllClose(
                [10, 9, 7, 4], tf.scan(lambda a, x: a + x, elems, reverse=True).eval()
            )
            self.assertAllClose(10, tf.foldr(lambda a, x: a + x, elems).eval())
            a, b = sess.run(tf.map_fn(lambda x: (x, -x), elems, dtype=(tf.float32, tf.float32)))
            self.assertAllClose(elems, -b)
            self.assertAllClose(a, elems)
            got = tf.map_fn(lambda p: p[0] * p[1], (elems, elems), dtype=tf.float32).eval()
            self.assertAllClose(elems**2, got)
            x = tf.constant(elems)
            self.assertAllClose(2 * elems, tf.gradients(tf.map_fn(lambda v: v * v, x), x)[0].eval())
            with self.assertRaises((TypeError, ValueError)):
                tf.map_fn(lambda v: v, 1)
            with self.assertRaisesRegex(TypeError, "fn must be callable"):
                tf.map_fn(1, elems)

    def test_case_and_assert(self):
        with self.test_session():
            x = tf.placeholder(tf.int32, [])
            r = tf.case(
                [(x < 1, lambda: tf.constant(10)), (x < 5, lambda: tf.constant(20))],
                default=lambda: tf.constant(30),
            )
            self.assertEqual([10, 20, 30], [r.eval({x: v}) for v in (0, 3, 9)])
            e = tf.case(
                [(x < 5, lambda: tf.constant(10)), (x < 9, lambda: tf.constant(20))],
                default=lambda: tf.constant(1),
                exclusive=True,
            )
            with self.assertRaisesOpError("(?i)more than one|input error"):
                e.eval({x: 1})
            with self.assertRaisesRegex(TypeError, "(?i)must be a list|must be callable|tuple"):
                tf.case([1], default=lambda: 1)
            with tf.control_dependencies([tf.Assert(x > 3, ["too small", x])]):
                y = tf.identity(x)
            self.assertEqual(5, y.eval({x: 5}))
            with self.assertRaisesOpError(r"assertion failed: \[too small\] \[2\]"):
                y.eval({x: 2})


class CheckOpsTest(tf.test.TestCase):
    def test_dynamic(self):
        pairs = [
            (tf.assert_equal, [1, 2], [1, 3]),
            (tf.assert_less, [1, 2], [2, 2]),
            (tf.assert_greater, [3, 2], [2, 2]),
            (tf.assert_less_equal, [1, 3], [2, 2]),
            (tf.assert_greater_equal, [1, 3], [2, 2]),
            (tf.assert_none_equal, [1, 2], [1, 3]),
        ]
        with self.test_session():
            for f, a, b in pairs:
                x = tf.placeholder(tf.int32)
                with tf.control_dependencies([f(x, b, message="what went wrong")]):
                    y = tf.identity(x)
                with self.assertRaisesOpError("what went wrong"):
                    y.eval({x: a})

    def test_static(self):
        with self.assertRaisesRegex(tf.errors.InvalidArgumentError, "fail"):
            tf.assert_equal([1, 2], [1, 3], message="fail")
        with self.assertRaisesRegex(tf.errors.InvalidArgumentError, "fail"):
            tf.assert_positive([-1, 2], message="fail")
        with self.assertRaisesRegex(ValueError, "fail.*must have rank 1"):
            tf.assert_rank([[1]], 1, message="fail")
        with self.assertRaisesRegex(ValueError, "rank at least 2"):
            tf.assert_rank_at_least([1], 2)
        with self.assertRaisesRegex(ValueError, "rank"):
            tf.assert_rank_in([1], (2, 3))
        with self.assertRaisesRegex(TypeError, "must be of type"):
            tf.assert_type(tf.constant(1), tf.float32)
        with self.assertRaisesRegex(TypeError, "Expected.*int|must be.*integer|integer"):
            tf.assert_integer(tf.constant(1.0))
        with self.assertRaisesRegex(ValueError, "is not scalar|Expected scalar|scalar"):
            tf.assert_scalar([1])
        self.assertEqual(tf.float32, tf.assert_same_float_dtype([tf.constant(1.0)], tf.float32))
        self.assertTrue(tf.is_numeric_tensor(tf.constant(1)))
        self.assertFalse(tf.is_numeric_tensor(tf.constant("a")))
        with self.test_session():
            self.assertTrue(tf.is_non_decreasing([1, 1, 2]).eval())
            self.assertFalse(tf.is_strictly_increasing([1, 1, 2]).eval())


class QueueTest(tf.test.TestCase):
    def test_fifo(self):
        with self.test_session() as sess:
            q = tf.FIFOQueue(10, (tf.int32, tf.float32), shapes=((), (2,)))
            q.enqueue((1, [1.0, 2.0])).run()
            q.enqueue_many(([2, 3], [[3.0, 4.0], [5.0, 6.0]])).run()
            self.assertEqual(3, q.size().eval())
            self.assertEqual(1, sess.run(q.dequeue())[0])
            self.assertAllEqual([2, 3], sess.run(q.dequeue_many(2))[0])
            q.close().run()
            with self.assertRaisesRegex(
                tf.errors.OutOfRangeError, "is closed and has insufficient"
            ):
                sess.run(q.dequeue())
            with self.assertRaisesRegex(tf.errors.CancelledError, "is closed"):
                q.enqueue((1, [1.0, 2.0])).run()

    def test_errors(self):
        with self.test_session():
            q = tf.FIFOQueue(10, tf.float32)
            with self.assertRaises((TypeError, ValueError)):
                q.enqueue(("a",))
            with self.assertRaisesOpError("specified shapes|shapes"):
                q.dequeue_many(1).eval()

    def test_others(self):
        with self.test_session() as sess:
            p = tf.PaddingFIFOQueue(10, tf.int32, [[None]])
            p.enqueue([[1]]).run()
            p.enqueue([[2, 3]]).run()
            self.assertAllEqual([[1, 0], [2, 3]], p.dequeue_many(2).eval())
            r = tf.PriorityQueue(10, (tf.string,), shapes=((),))
            r.enqueue_many(([3, 1, 2], ["c", "a", "b"])).run()
            self.assertAllEqual([b"a", b"b", b"c"], sess.run(r.dequeue_many(3))[1])
            s = tf.RandomShuffleQueue(20, 0, tf.int32, ((),), seed=1)
            s.enqueue_many([list(range(10))]).run()
            self.assertItemsEqual(range(10), s.dequeue_many(10).eval())

    def test_blocking(self):
        with self.test_session() as sess:
            q = tf.FIFOQueue(1, tf.int32, ((),))
            out, got = q.dequeue(), []
            thread = self.checkedThread(target=lambda: got.append(sess.run(out)))
            thread.start()
            q.enqueue(7).run()
            thread.join()
            self.assertEqual([7], got)

    def test_runner_and_coordinator(self):
        with tf.Graph().as_default(), tf.Session() as sess:
            x = tf.train.input_producer(np.arange(4), num_epochs=2, shuffle=False).dequeue()
            batch = tf.train.batch([x], 3, allow_smaller_final_batch=True)
            sess.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
            coord = tf.train.Coordinator()
            threads = tf.train.start_queue_runners(coord=coord)
            seen = []
            with self.assertRaises(tf.errors.OutOfRangeError):
                while True:
                    seen.extend(sess.run(batch))
            coord.request_stop()
            coord.join(threads)
            self.assertEqual(list(range(4)) * 2, seen)

    def test_coordinator_reports(self):
        coord = tf.train.Coordinator()

        def work():
            with coord.stop_on_exception():
                raise RuntimeError("First")

        t = threading.Thread(target=work)
        t.start()
        with self.assertRaisesRegex(RuntimeError, "First"):
            coord.join([t])


if __name__ == "__main__":
    tf.test.main()

"""Graphs, names, devices, shapes and dtypes, used as TensorFlow 1's own unit tests use them."""

import gc
import weakref

import numpy as np

import sparkflow as tf


class OperationTest(tf.test.TestCase):
    def test_names(self):
        g = tf.Graph()
        with g.as_default():
            a = tf.constant(1, name="a")
            b = tf.constant(2, name="a")
            with tf.name_scope("s"):
                c = tf.constant(3, name="a")
                with tf.name_scope("s"):
                    d = tf.constant(3, name="a")
            with tf.name_scope("s"):
                e = tf.constant(3, name="a")
            with tf.name_scope(None):
                f = tf.constant(3, name="z")
            with tf.name_scope("s/"):
                h = tf.constant(3, name="z")
        self.assertEqual(
            ["a", "a_1", "s/a", "s/s/a", "s_1/a", "z", "s/z"],
            [t.op.name for t in (a, b, c, d, e, f, h)],
        )
        self.assertEqual("a:0", a.name)
        self.assertIs(a, g.get_tensor_by_name("a:0"))
        self.assertIs(a.op, g.get_operation_by_name("a"))
        self.assertIs(a.op, g.as_graph_element("a"))
        self.assertIs(a, g.as_graph_element("a:0"))

    def test_unique_name(self):
        g = tf.Graph()
        self.assertEqual("foo", g.unique_name("foo"))
        self.assertEqual("foo_1", g.unique_name("foo"))
        self.assertEqual("foo_1_1", g.unique_name("foo_1"))
        self.assertEqual("foo_2", g.unique_name("foo", mark_as_used=False))
        self.assertEqual("foo_2", g.unique_name("foo"))
        with g.as_default(), g.name_scope("bar"):
            self.assertEqual("bar/foo", g.unique_name("foo"))

    def test_name_scope_texts(self):
        g = tf.Graph()
        with g.name_scope("scope") as s1:
            self.assertEqual("scope/", s1)
            with g.name_scope("inner") as s2:
                self.assertEqual("scope/inner/", s2)
        with g.name_scope(s1) as s3:
            self.assertEqual("scope/", s3)
        with g.name_scope("") as s4:
            self.assertEqual("", s4)
        self.assertEqual("", g.get_name_scope())
        with g.name_scope("x"):
            self.assertEqual("x", g.get_name_scope())

    def test_bad_names(self):
        g = tf.Graph()
        with g.as_default():
            for name in ("_a", "a b", "-a", "a:0"):
                with self.assertRaisesRegex(
                    ValueError, "is not a valid (node|op|scope) name|not a valid"
                ):
                    tf.constant(1, name=name)
            with self.assertRaises(ValueError), g.name_scope("-bad"):
                pass
            with self.assertRaises(ValueError), g.name_scope("_bad"):
                pass
            tf.constant(1, name="A.b-c_")

    def test_lookup_errors(self):
        g = tf.Graph()
        with g.as_default():
            tf.constant(1, name="a")
        with self.assertRaisesRegex(
            KeyError, "The name 'b' refers to an Operation not in the graph"
        ):
            g.get_operation_by_name("b")
        with self.assertRaisesRegex(
            KeyError, "The name 'b:0' refers to a Tensor which does not exist"
        ):
            g.get_tensor_by_name("b:0")
        with self.assertRaisesRegex(
            KeyError, "refers to a Tensor which does not exist.*only has 1 output"
        ):
            g.get_tensor_by_name("a:1")
        with self.assertRaisesRegex(
            ValueError, "looks a lot like|refers to an Operation, not a Tensor|looks like"
        ):
            g.get_tensor_by_name("a")
        with self.assertRaises(TypeError):
            g.get_tensor_by_name(3)
        with self.assertRaises(ValueError):
            tf.Graph().as_graph_element(g.get_tensor_by_name("a:0"))
        with self.assertRaises(TypeError):
            g.as_graph_element(object())

    def test_properties(self):
        with tf.Graph().as_default() as g:
            a = tf.constant([1.0, 2.0])
            b = tf.constant([3.0, 4.0])
            with tf.control_dependencies([b]):
                c = tf.add(a, b, name="c")
            self.assertEqual([a, b], list(c.op.inputs))
            self.assertEqual([], list(c.op.control_inputs))
            self.assertEqual([c], c.op.outputs)
            self.assertEqual([c.op], a.consumers())
            self.assertEqual(tf.float32, c.op.get_attr("T"))
            self.assertIs(g, c.graph)
            self.assertEqual(0, c.value_index)
            with self.assertRaisesRegex(
                ValueError, "(?i)No attr named|does not have an attr|no attr"
            ):
                c.op.get_attr("foo")
            self.assertEqual("c", c.op.node_def.name)
            self.assertEqual([a.op.name, b.op.name], list(c.op.node_def.input))
            self.assertEqual([tf.float32], [t.dtype for t in c.op.outputs])
            self.assertEqual(3, len(g.get_operations()))
            self.assertRegex(repr(c), r"<tf.Tensor 'c:0' shape=\(2,\) dtype=float32>")
            self.assertRegex(str(c), r'Tensor\("c:0", shape=\(2,\), dtype=float32\)')
            self.assertRegex(repr(c.op), "<tf.Operation 'c' type=Add(V2)?>")

    def test_mixed_graphs(self):
        a = tf.constant(1)
        with tf.Graph().as_default():
            b = tf.constant(2)
            with self.assertRaisesRegex(ValueError, "must be from the same graph"):
                tf.add(a, b)

    def test_finalize(self):
        g = tf.Graph()
        with g.as_default():
            tf.constant(1)
        self.assertFalse(g.finalized)
        g.finalize()
        self.assertTrue(g.finalized)
        with self.assertRaisesRegex(RuntimeError, "Graph is finalized and cannot be modified."):
            with g.as_default():
                tf.constant(2)

    def test_version_grows(self):
        with tf.Graph().as_default() as g:
            before = g.version
            tf.constant(1)
            self.assertGreater(g.version, before)

    def test_weak(self):
        g = tf.Graph()
        with g.as_default():
            tf.constant(1)
        reference = weakref.ref(g)
        del g
        gc.collect()
        self.assertIs(None, reference())

    def test_prevent_feeding_fetching(self):
        with tf.Graph().as_default() as g, tf.Session():
            a = tf.constant(1.0)
            b = a + 1
            g.prevent_feeding(a)
            with self.assertRaisesRegex(ValueError, "may not be fed"):
                b.eval(feed_dict={a: 2.0})
            self.assertTrue(g.is_feedable(b))
            g.prevent_fetching(b.op)
            with self.assertRaisesRegex(ValueError, "has been marked as not fetchable"):
                b.eval()
            self.assertFalse(g.is_fetchable(b))


class DeviceTest(tf.test.TestCase):
    def test_merging(self):
        with tf.Graph().as_default() as g:
            with g.device("/job:worker/replica:2"):
                a = tf.constant(1)
                with g.device("/job:worker/replica:3/task:0"):
                    b = tf.constant(1)
                with g.device("/device:CPU:1"):
                    c = tf.constant(1)
                    with g.device("/job:ps"):
                        d = tf.constant(1)
                with g.device(None):
                    e = tf.constant(1)
                with g.device("/gpu:0"):
                    f = tf.constant(1)
            h = tf.constant(1)
            self.assertDeviceEqual("/job:worker/replica:2", a.device)
            self.assertDeviceEqual("/job:worker/replica:3/task:0", b.device)
            self.assertDeviceEqual("/job:worker/replica:2/device:CPU:1", c.device)
            self.assertDeviceEqual("/job:ps/replica:2/device:CPU:1", d.device)
            self.assertEqual("", e.device)
            self.assertDeviceEqual("/job:worker/replica:2/device:GPU:0", f.device)
            self.assertEqual("", h.device)

    def test_functions(self):
        def by_type(op):
            return "/job:ps" if op.type == "Const" else "/job:worker"

        with tf.Graph().as_default() as g, g.device(by_type):
            a = tf.constant(1)
            b = a + a
            self.assertEqual("/job:ps", a.device)
            self.assertEqual("/job:worker", b.device)

    def test_device_spec(self):
        spec = tf.DeviceSpec(job="ps", task=3, device_type="cpu", device_index=0)
        self.assertIn(
            spec.to_string(), ("/job:ps/task:3/device:CPU:0", "/job:ps/task:3/device:cpu:0")
        )
        merged = tf.DeviceSpec.from_string("/job:a/replica:1")
        merged.merge_from(tf.DeviceSpec.from_string("/job:b/gpu:2"))
        self.assertEqual("/job:b/replica:1/device:GPU:2", merged.to_string())
        with tf.Graph().as_default(), tf.device(spec):
            self.assertDeviceEqual("/job:ps/task:3/device:CPU:0", tf.constant(1).device)
        with self.assertRaises(ValueError):
            tf.DeviceSpec.from_string("/nothing")
        with self.assertRaises(ValueError):
            tf.DeviceSpec.from_string("/job:j/replica:0/task:0/device:CPU:0/device:GPU:0")

    def test_colocation(self):
        with tf.Graph().as_default() as g:
            with g.device("/device:GPU:1"):
                a = tf.constant(2.0, name="a")
            with g.device("/device:CPU:0"), g.colocate_with(a.op):
                b = tf.constant(3.0)
            self.assertEqual([b"loc:@a"], b.op.colocation_groups())
            self.assertDeviceEqual("/device:GPU:1", b.device)
            with tf.colocate_with(a.op), tf.colocate_with(b.op, ignore_existing=True):
                c = tf.constant(4.0)
            self.assertEqual([b"loc:@a"], c.op.colocation_groups())


class ControlDependenciesTest(tf.test.TestCase):
    def test_nesting_and_clearing(self):
        with tf.Graph().as_default() as g:
            a, b = tf.constant(1.0), tf.constant(2.0)
            with g.control_dependencies([a]):
                c = tf.constant(3.0)
                with g.control_dependencies([b]):
                    d = tf.constant(4.0)
                with g.control_dependencies(None):
                    e = tf.constant(5.0)
            f = tf.constant(1.0)
            self.assertEqual([a.op], c.op.control_inputs)
            self.assertItemsEqual([a.op, b.op], d.op.control_inputs)
            self.assertEqual([], e.op.control_inputs)
            self.assertEqual([], f.op.control_inputs)

    def test_existing_inputs_pruned(self):
        with tf.Graph().as_default():
            a = tf.constant(1.0)
            with tf.control_dependencies([a]):
                b = tf.identity(a)
            self.assertEqual([], b.op.control_inputs)

    def test_types(self):
        with tf.Graph().as_default() as g:
            v = tf.Variable(1.0)
            with g.control_dependencies([v, v.initializer, tf.constant(1)]):
                c = tf.constant(1)
            self.assertEqual(3, len(c.op.control_inputs))
            with (
                self.assertRaisesRegex(
                    TypeError, "Can not convert a float into a Tensor or Operation"
                ),
                g.control_dependencies([1.5]),
            ):
                pass

    def test_groups_and_tuples(self):
        with self.test_session() as sess:
            v1, v2 = tf.Variable([0.0]), tf.Variable([1.0])
            init = tf.group(v1.initializer, v2.initializer)
            self.assertEqual("NoOp", init.type)
            init.run()
            self.assertAllEqual([0.0], v1.eval())
            both = tf.tuple([v1.assign_add([1.0]), None, v2.assign_add([1.0])])
            self.assertIs(None, both[1])
            self.assertAllEqual([1.0], both[0].eval())
            self.assertAllEqual([2.0], v2.eval())
            with self.assertRaises(TypeError):
                tf.tuple([v1], control_inputs=[3])
            with self.assertRaises(TypeError):
                tf.group(3)
            dep = tf.group(v1.assign([9.0]))
            from_dep = tf.identity(tf.constant(1))
            with tf.control_dependencies([dep]):
                from_dep = tf.identity(tf.constant(1))
            sess.run(from_dep)
            self.assertAllEqual([9.0], v1.eval())


class CollectionTest(tf.test.TestCase):
    def test_all(self):
        g = tf.Graph()
        g.add_to_collection("key", 12)
        g.add_to_collection("other", "foo")
        g.add_to_collection("key", 34)
        self.assertEqual([12, 34], g.get_collection("key"))
        self.assertEqual([], g.get_collection("nothing"))
        self.assertEqual([12, 34], g.get_collection_ref("key"))
        copy = g.get_collection("key")
        copy.append(1)
        self.assertEqual([12, 34], g.get_collection("key"))
        g.get_collection_ref("key").append(56)
        self.assertEqual([12, 34, 56], g.get_collection("key"))
        g.clear_collection("key")
        self.assertEqual([], g.get_collection("key"))
        self.assertIn("other", g.get_all_collection_keys())
        g.add_to_collections(["a", "b", "a"], 1)
        self.assertEqual([1], g.get_collection("a"))

    def test_scopes(self):
        with tf.Graph().as_default():
            with tf.name_scope("one"):
                a = tf.constant(1)
                tf.add_to_collection("k", a)
            with tf.name_scope("two"):
                b = tf.constant(1)
                tf.add_to_collection("k", b)
                tf.add_to_collection("k", "text")
            self.assertEqual([a], tf.get_collection("k", scope="one"))
            self.assertEqual([b], tf.get_collection("k", scope="two/"))
            self.assertEqual([a, b, "text"], tf.get_collection("k"))
            self.assertEqual([a], tf.get_collection("k", scope="o"))

    def test_default_graphs(self):
        outer = tf.get_default_graph()
        with tf.Graph().as_default() as g:
            self.assertIs(g, tf.get_default_graph())
        self.assertIs(outer, tf.get_default_graph())
        tf.reset_default_graph()
        with tf.Graph().as_default():
            with self.assertRaisesRegex(AssertionError, "Do not use tf.reset_default_graph"):
                tf.reset_default_graph()


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


class ImportGraphDefTest(tf.test.TestCase):
    def test_round_trip(self):
        with tf.Graph().as_default() as g:
            a = tf.placeholder(tf.float32, [2], name="a")
            tf.multiply(a, 2.0, name="b")
        graph_def = g.as_graph_def()
        with tf.Graph().as_default() as g2:
            with tf.Session() as sess:
                x = tf.constant([3.0, 4.0])
                (b,) = tf.import_graph_def(
                    graph_def, input_map={"a:0": x}, return_elements=["b:0"], name="imported"
                )
                self.assertEqual("imported/b:0", b.name)
                self.assertAllEqual([6, 8], sess.run(b))
            op = tf.import_graph_def(graph_def, return_elements=["a"])[0]
            self.assertEqual("import/a", op.name)
            self.assertEqual("Placeholder", op.type)
            tf.import_graph_def(graph_def, name="")
            self.assertIn("a", [o.name for o in g2.get_operations()])

    def test_errors(self):
        with tf.Graph().as_default() as g:
            a = tf.placeholder(tf.float32, [2], name="a")
            tf.multiply(a, 2.0, name="b")
        graph_def = g.as_graph_def()
        with tf.Graph().as_default():
            with self.assertRaisesRegex(TypeError, "graph_def must be a GraphDef proto"):
                tf.import_graph_def("nothing")
            with self.assertRaisesRegex(
                ValueError, "Requested return tensor .c:0. not found in graph def"
            ):
                tf.import_graph_def(graph_def, return_elements=["c:0"])
            with self.assertRaisesRegex(
                ValueError, "Attempted to map inputs that were not found in graph_def"
            ):
                tf.import_graph_def(graph_def, input_map={"zzz:0": tf.constant(1.0)})
            with self.assertRaisesRegex(TypeError, "input_map must be a dictionary"):
                tf.import_graph_def(graph_def, input_map=[tf.constant(1.0)])
            bad = tf.GraphDef()
            bad.CopyFrom(graph_def)
            bad.node[0].op = "NoSuchOp"
            with self.assertRaisesRegex((ValueError, tf.errors.NotFoundError), "NoSuchOp"):
                tf.import_graph_def(bad, name="x")
            missing = tf.GraphDef()
            missing.node.add(name="q", op="Identity", input=["nobody"]).attr["T"].type = 1
            with self.assertRaisesRegex(ValueError, "nobody"):
                tf.import_graph_def(missing, name="y")


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

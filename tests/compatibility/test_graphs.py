"""Graphs, names, devices and collections, used as TensorFlow 1's own unit tests use them."""

import gc
import weakref

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


if __name__ == "__main__":
    tf.test.main()

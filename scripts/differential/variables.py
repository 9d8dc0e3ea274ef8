"""Variables: values, shapes, updates, errors."""

PREAMBLE = """
tf.disable_resource_variables()
v = tf.Variable([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], name="v")
n = tf.Variable([1, 2, 3, 4], name="n")
c = tf.Variable(0, trainable=False, name="c")
def after(op, result):
    with tf.control_dependencies([op]):
        return result()
"""
EXPRESSIONS = """
[v.name, v.op.name, v.op.type, v.dtype.name, str(v.shape), v.initializer.name, v.value().name]
[v.initializer.type, v.initial_value.name, v.value().op.type, v.trainable, c.trainable]
v
[v.value(), v.read_value(), v.initialized_value()]
v.assign([[1.0, 1.0, 1.0], [2.0, 2.0, 2.0]])
v.assign_add(tf.ones([2, 3]))
v.assign_sub(tf.ones([2, 3]), use_locking=True)
v.assign_add(tf.ones([2, 3]), read_value=False).type
tf.assign(v, tf.zeros([3, 3]), validate_shape=False)
tf.assign(v, tf.zeros([3, 3]))
v.assign([1.0])
v.assign("a")
tf.assign_add(v, [1.0])
tf.assign(tf.constant(1.0), 2.0)
tf.assign_add(n, [1, 1, 1, 1])
c.count_up_to(3)
v[0]
v[0, 1].assign(9.0)
v[:, 1:].assign([[7.0, 8.0], [9.0, 10.0]])
n[::2].assign([10, 20])
n[1].assign([1, 2])
v[..., tf.newaxis]
-v + 2 * v ** 2 - v / 3
v @ tf.transpose(v)
[v > 2.0, v <= 3.0, abs(-v), v // 2.0, v % 2.0]
n + 1 - n * 2 // 3
tf.scatter_update(v, [0], [[9.0, 9.0, 9.0]])
tf.scatter_update(v, [1, 0], [[9.0, 9.0, 9.0], [8.0, 8.0, 8.0]])
tf.scatter_add(v, [0, 0], [[1.0, 1.0, 1.0], [2.0, 2.0, 2.0]])
tf.scatter_sub(v, [[1]], [[[1.0, 1.0, 1.0]]])
tf.scatter_mul(v, 1, 2.0)
tf.scatter_div(v, [1], [[2.0, 4.0, 8.0]])
tf.scatter_min(v, [0], [[2.0, 1.0, 4.0]])
tf.scatter_max(n, [0, 3], [5, 1])
tf.scatter_add(n, [4], [1])
tf.scatter_add(v, [0], [1.0, 2.0])
tf.scatter_nd_update(v, [[0, 1], [1, 2]], [9.0, 8.0])
tf.scatter_nd_add(v, [[1]], [[1.0, 1.0, 1.0]])
tf.scatter_nd_sub(n, [[0], [0]], [1, 1])
tf.scatter_nd_add(v, [[2, 0]], [1.0])
tf.batch_scatter_update(v, [[0, 2], [1, 0]], [[9.0, 8.0], [7.0, 6.0]])
v.scatter_add(tf.IndexedSlices([[1.0, 1.0, 1.0]], [1]))
v.scatter_update(tf.IndexedSlices([[1.0, 1.0, 1.0]], [1]))
v.scatter_nd_add([[0, 0]], [5.0])
v.scatter_add([1.0])
tf.is_variable_initialized(v)
tf.report_uninitialized_variables()
tf.report_uninitialized_variables([v])
tf.gather(v, [1, 0])
tf.nn.embedding_lookup(v, [1, 1])
[x.name for x in tf.global_variables()]
[x.name for x in tf.trainable_variables()]
[x.name for x in tf.trainable_variables("v")]
tf.Variable(v * 2, name="w")
tf.Variable(v.initialized_value() + 1)
tf.Variable(lambda: tf.ones([2]), name="f").name
tf.Variable(lambda: tf.ones([2]), name="f")
tf.Variable(tf.zeros([2]), collections=["mine"], name="mine").name
tf.Variable(None)
tf.Variable()
tf.Variable(1.0, collections="a")
tf.Variable(1.0, constraint=3)
tf.Variable([1, 2], dtype=tf.float64)
tf.Variable("abc")
tf.Variable(True)
tf.Variable(tf.placeholder(tf.float32))
tf.Variable(tf.placeholder_with_default([1.0, 2.0], None), validate_shape=False).shape
tf.Variable(1.0, name="bad name")
tf.Variable(3.0, dtype=tf.int32)
v.to_proto()
tf.Variable.from_proto(v.to_proto()).name
bool(v == v)
list(tf.constant([1]).shape)
v.eval()
v.load(3)
tf.gradients(v * v, v)
---
w = tf.Variable(v + 1, name="w")
w * w
---
with tf.control_dependencies([v.assign_add(tf.ones([2, 3]))]):
    y = v.read_value()
y
---
with tf.device("/cpu:0"):
    d = tf.Variable(1.0)
d.device
---
old = tf.Variable(1.0)
new = tf.Variable(2.0)
[old.name, new.name]
"""

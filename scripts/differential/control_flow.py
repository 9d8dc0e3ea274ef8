"""Conditions, loops, TensorArrays, functions over rows, and their gradients."""

PREAMBLE = """
x = tf.constant(np.random.RandomState(0).rand(3, 2) + 0.5, tf.float32)
v = tf.get_variable("v", initializer=np.arange(6, dtype=np.float32).reshape(3, 2) / 4)
yes = tf.reduce_sum(x) > 0.0
no = tf.logical_not(yes)
n = tf.constant(4)
"""
WITH_RESPECT_TO = ("x", "v")
EXPRESSIONS = """
tf.cond(yes, lambda: x * v, lambda: x + v)
tf.cond(no, lambda: x * v, lambda: x + v)
tf.cond(yes, lambda: (x, v * 2), lambda: (v, x))
tf.cond(no, lambda: [tf.matmul(x, v, transpose_b=True)], lambda: [tf.matmul(v, x, transpose_b=True)])
tf.cond(yes, lambda: {"a": tf.exp(x), "b": n}, lambda: {"a": v, "b": n + 1})
tf.cond(tf.less(n, 5), lambda: tf.multiply(n, 17), lambda: tf.add(n, 23))
tf.cond(yes, fn1=lambda: x, fn2=lambda: v)
tf.cond(yes, lambda: tf.constant(1), lambda: tf.constant(1.0))
tf.cond(yes, lambda: [x, v], lambda: x)
tf.cond(True, lambda: x, lambda: v)
tf.cond(yes, x, lambda: v)
tf.cond(tf.stack([yes, no]), lambda: x, lambda: v)
tf.cond(yes, lambda: None, lambda: v)
tf.cond(yes, lambda: tf.cond(no, lambda: x, lambda: tf.sin(v) * x), lambda: v)
tf.cond(yes, lambda: tf.while_loop(lambda i, a: i < 3, lambda i, a: (i + 1, a * x), [0, v])[1], lambda: v)
tf.cond(yes, lambda: tf.gather(v, [0, 2]), lambda: tf.gather(x, [1, 1]))
tf.cond(yes, lambda: [x], lambda: [v])
tf.cond(yes, lambda: [x], lambda: [v], strict=True)
tf.case([(no, lambda: x), (yes, lambda: x * v)], default=lambda: v)
tf.case([(no, lambda: x), (no, lambda: x * v)], default=lambda: v * 3)
tf.case([(yes, lambda: x), (yes, lambda: x * v)], default=lambda: v, exclusive=True)
tf.case([(no, lambda: x), (no, lambda: x * v)])
tf.case([(yes, lambda: x * 2)])
tf.switch_case(n - 3, [lambda: x, lambda: x * v, lambda: v])
tf.switch_case(n, [lambda: x, lambda: x * v], default=lambda: v * 5)
tf.while_loop(lambda i: i < 10, lambda i: i + 1, [tf.constant(0)])
tf.while_loop(lambda i: i < 10, lambda i: [i + 1], [0])
tf.while_loop(lambda i, a: i < 4, lambda i, a: [i + 1, a * x + v], [0, x])
tf.while_loop(lambda i, a: i < 4, lambda i, a: (i + 1, tf.matmul(a, tf.ones([2, 2])) * v), (0, x))
tf.while_loop(lambda i, a: tf.less(i, 0), lambda i, a: (i + 1, a * v), (0, x))
tf.while_loop(lambda i, a: i < 100, lambda i, a: (i + 1, a * v), (0, x), maximum_iterations=3)
tf.while_loop(lambda i, a: i < 3, lambda i, a: (i + 1, tf.concat([a, x], 0)), [0, x], shape_invariants=[tf.TensorShape([]), tf.TensorShape([None, 2])])
tf.while_loop(lambda i, a: i < 3, lambda i, a: (i + 1, tf.concat([a, x], 0)), [0, x])
tf.while_loop(lambda i, a: i < 3, lambda i, a: (i + 1, a, a), [0, x])
tf.while_loop(lambda i: i, lambda i: i + 1, [0])
tf.while_loop(1, lambda i: i + 1, [0])
tf.while_loop(lambda i: i < 3, lambda i: i + 1, [])
tf.while_loop(lambda i, s: i < 3, lambda i, s: (i + 1, {"a": s["b"] * x, "b": s["a"] + v}), (0, {"a": x, "b": v}))
tf.while_loop(lambda i, a: i < 3, lambda i, a: (i + 1, tf.cond(tf.equal(i % 2, 0), lambda: a * x, lambda: a + v)), [0, x])[1]
tf.while_loop(lambda i, a: i < 3, lambda i, a: (i + 1, tf.while_loop(lambda j, b: j < i + 1, lambda j, b: (j + 1, b * v + x), [0, a])[1]), [0, x])[1]
tf.while_loop(lambda i, a: i < 3, lambda i, a: (i + 1, tf.stop_gradient(a) * x), [0, v])[1]
tf.while_loop(lambda i, a: i < 3, lambda i, a: (i + 1, a * tf.cast(i, tf.float32)), [1, x], back_prop=False)[1]
tf.while_loop(lambda i, a: i < 3, lambda i, a: (i + 1, a + tf.gather(v, i)), [0, x[0]])[1]
tf.while_loop(lambda i, a: i < 3, lambda i, a: (i + 1, a + x[i] * tf.reduce_sum(v[:i])), [0, x[0]])[1]
tf.map_fn(lambda r: r * r, x)
tf.map_fn(lambda r: tf.reduce_sum(r), x)
tf.map_fn(lambda r: r[0] * r[1], (x, v), dtype=tf.float32)
tf.map_fn(lambda r: (r, -r), x, dtype=(tf.float32, tf.float32))
tf.map_fn(lambda r: tf.cast(r, tf.int32), x, dtype=tf.int32)
tf.map_fn(lambda r: {"s": r["a"] + r["b"]}, {"a": x, "b": v}, dtype={"s": tf.float32})
tf.map_fn(lambda r: r, tf.constant(1.0))
tf.map_fn(lambda i: tf.range(i, i + 2), tf.constant([1, 2, 3]))
tf.foldl(lambda a, r: a * r, x)
tf.foldl(lambda a, r: a + r * 2, x, initializer=tf.zeros([2]))
tf.foldr(lambda a, r: a * r + 1, x)
tf.foldr(lambda a, r: a - r, tf.constant([1, 2, 3, 4]))
tf.scan(lambda a, r: a + r, tf.constant([1, 2, 3, 4, 5, 6]))
tf.scan(lambda a, r: a * r, x)
tf.scan(lambda a, r: a * r, x, initializer=tf.ones([2]), reverse=True)
tf.scan(lambda a, r: (a[1], a[0] + a[1]), tf.range(6), initializer=(np.int32(0), np.int32(1)))
tf.scan(lambda a, r: a + r[0] * r[1], (x, v), initializer=tf.zeros([2]))
tf.TensorArray(tf.float32, 3).unstack(x).read(1)
tf.TensorArray(tf.float32, 3).unstack(x).stack()
tf.TensorArray(tf.float32, 3).write(0, x[0]).write(2, v[1]).write(1, x[1]).stack()
tf.TensorArray(tf.float32, 3).write(0, x[0]).write(0, v[1]).stack()
tf.TensorArray(tf.float32, 1).write(3, x[0]).stack()
tf.TensorArray(tf.float32, 0, dynamic_size=True).write(0, x[0]).write(1, v[1]).stack()
tf.TensorArray(tf.float32, 3).write(0, tf.constant([1, 2])).stack()
tf.TensorArray(tf.float32, 3).unstack(x).gather([2, 0])
tf.TensorArray(tf.float32, 3).unstack(x).concat()
tf.TensorArray(tf.float32, 3).scatter([2, 0, 1], x).read(0)
tf.TensorArray(tf.float32, 2, infer_shape=False).split(x, [1, 2]).read(1)
tf.TensorArray(tf.float32, 3).unstack(x).size()
tf.TensorArray(tf.int32, 3).unstack([1, 2, 3]).stack()
tf.TensorArray(tf.float32)
tf.group(tf.cond(yes, lambda: tf.assign_add(v, x), lambda: tf.assign(v, x)))
tf.identity_n([x, n])
---
i, ta = tf.while_loop(
    lambda i, ta: i < 3,
    lambda i, ta: (i + 1, ta.write(i, x[i] * v[i])),
    [0, tf.TensorArray(tf.float32, 3)],
)
ta.stack()
---
ta = tf.TensorArray(tf.float32, 3).unstack(x)
_, total = tf.while_loop(
    lambda i, s: i < 3, lambda i, s: (i + 1, s * v[0] + ta.read(i)), [0, tf.zeros([2])]
)
total
---
with tf.control_dependencies([tf.cond(yes, lambda: tf.assign_add(v, x), lambda: tf.assign(v, x))]):
    after = tf.identity(v)
after
---
def body(i):
    with tf.control_dependencies([tf.assign_add(v, x)]):
        return i + 1
with tf.control_dependencies([tf.while_loop(lambda i: i < 3, body, [0])]):
    after = tf.identity(v)
after
---
def branch():
    with tf.variable_scope("inner"):
        w = tf.get_variable("w", [2], initializer=tf.ones_initializer())
    return x * w
y = tf.cond(yes, branch, lambda: v)
[y, len(tf.trainable_variables()), tf.trainable_variables()[-1].name]
---
y = tf.cond(yes, lambda: x * x * v, lambda: v)
(g,) = tf.gradients(y, x)
g * g
---
y = tf.cond(yes, lambda: tf.nn.embedding_lookup(v, [0, 2, 0]), lambda: v)
tf.convert_to_tensor(tf.gradients(tf.reduce_sum(y * y), v)[0])
---
h = tf.hessians(tf.reduce_sum(x[0] * x[0] * x[0]), x[0])
h
"""

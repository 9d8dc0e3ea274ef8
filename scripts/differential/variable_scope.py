"""get_variable, variable_scope: names, reuse, defaults, errors."""

PREAMBLE = """
tf.disable_resource_variables()
one = tf.constant_initializer(1.0)
def names():
    return [x.name for x in tf.global_variables()]
"""
EXPRESSIONS = """
tf.get_variable("a", [2], initializer=one)
tf.get_variable("a", initializer=[1.0, 2.0])
tf.get_variable("a", initializer=tf.constant([1, 2]))
tf.get_variable("a", [2], dtype=tf.int32)
tf.get_variable("a", [2], dtype=tf.bool).dtype.name
tf.get_variable("a", [2], dtype=tf.string)
tf.get_variable("a", [2], initializer=[1.0, 2.0])
tf.get_variable("a", initializer=[1.0], dtype=tf.int32)
tf.get_variable("a", initializer=lambda: tf.ones([3]))
tf.get_variable("a", [None], initializer=one)
tf.get_variable("a")
tf.get_variable("a", [2], initializer=tf.ones_initializer)
tf.get_variable("a/b", [2]).name
tf.get_variable("a", [2], regularizer=lambda w: tf.reduce_sum(w)).name
tf.get_variable("a", [2], partitioner=3)
tf.get_variable("a", [2, 2], partitioner=lambda **k: [2, 2])
tf.get_variable("a", [2, 2], partitioner=lambda **k: [2])
[w.name for w in tf.get_variable("a", [5, 2], partitioner=tf.fixed_size_partitioner(3))]
[str(w.shape) for w in tf.get_variable("a", [5, 2], partitioner=tf.fixed_size_partitioner(3))]
[w._get_save_slice_info().spec for w in tf.get_variable("a", [5, 2], partitioner=tf.fixed_size_partitioner(2))]
[str(w.shape) for w in tf.get_variable("a", [8, 64], partitioner=tf.variable_axis_size_partitioner(1024))]
[str(w.shape) for w in tf.get_variable("a", [64, 64], partitioner=tf.min_max_variable_partitioner(4, 0, 4096))]
tf.get_variable("a", [4, 2], initializer=one, partitioner=tf.fixed_size_partitioner(2)).as_tensor()
tf.get_variable("a", initializer=tf.range(6), partitioner=tf.fixed_size_partitioner(4)).as_tensor()
tf.concat(list(tf.get_variable("a", [4, 2], initializer=one, partitioner=tf.fixed_size_partitioner(2, 1))), 1)
[tf.get_local_variable("a", [2]).name, [x.name for x in tf.local_variables()]]
[x.name for x in tf.create_partitioned_variables([4, 2], [2, 1], one)]
[x.name for x in tf.create_partitioned_variables([4, 2], [2, 1], one, name="p")]
tf.create_partitioned_variables([4, 2], [2], one)
tf.variable_scope(None).__enter__()
tf.variable_scope(3).__enter__()
tf.variable_scope(None, "a", reuse=True).__enter__()
tf.get_variable_scope().name
tf.get_variable_scope().reuse
tf.AUTO_REUSE
tf.fixed_size_partitioner(3)(tf.TensorShape([10, 2]))
tf.variable_axis_size_partitioner(100)(tf.TensorShape([10, 20]), tf.float32)
tf.variable_axis_size_partitioner(100, max_shards=3)(tf.TensorShape([10, 20]), tf.float32)
tf.min_max_variable_partitioner(5, 0, 64)(tf.TensorShape([10, 20]), tf.float32)
tf.min_max_variable_partitioner(5, -1)(tf.TensorShape([10, 20]), tf.float32)
---
tf.get_variable("a", [2])
tf.get_variable("a", [2])
---
with tf.variable_scope("s", reuse=True):
    x = tf.get_variable("a", [2])
x
---
with tf.variable_scope("s"):
    x = tf.get_variable("a", [2])
with tf.variable_scope("s", reuse=True):
    y = tf.get_variable("a", [3])
y
---
with tf.variable_scope("s"):
    x = tf.get_variable("a", [2])
with tf.variable_scope("s", reuse=True):
    y = tf.get_variable("a", [2], dtype=tf.float64)
y
---
with tf.variable_scope("s") as s:
    x = tf.get_variable("a", [2])
    with tf.variable_scope("t"):
        z = tf.get_variable("b", [2])
with tf.variable_scope(s, reuse=True) as again:
    y = tf.get_variable("a")
    o = tf.constant(1.0)
[x is y, x.name, z.name, o.name, s.name, again.name, s.original_name_scope, again.original_name_scope]
---
with tf.variable_scope("s", reuse=tf.AUTO_REUSE):
    x = tf.get_variable("a", [2])
    y = tf.get_variable("a", [2])
[x is y, names()]
---
found = []
for _ in range(3):
    with tf.variable_scope(None, "d"):
        found.append(tf.get_variable("a", [1]).name)
        with tf.variable_scope(None, "e"):
            found.append(tf.get_variable("a", [1]).name)
found
---
with tf.variable_scope("s") as s:
    s.reuse_variables()
    inner = tf.get_variable_scope().reuse
    with tf.variable_scope("t", reuse=False) as t:
        nested = t.reuse
[inner, nested, tf.get_variable_scope().reuse]
---
with tf.name_scope("n"):
    with tf.variable_scope("s"):
        x = tf.get_variable("a", [1])
        y = tf.Variable(1.0, name="b")
        o = tf.constant(1.0)
[x.name, y.name, o.name, x.op.name]
---
with tf.variable_scope("s"):
    o = tf.constant(1.0)
with tf.variable_scope("s"):
    p = tf.constant(1.0)
[o.name, p.name]
---
with tf.variable_scope("s", auxiliary_name_scope=False):
    x = tf.get_variable("a", [1])
    o = tf.constant(1.0)
[x.name, o.name]
---
with tf.variable_scope("s") as s:
    pass
with tf.variable_scope("o"):
    with tf.variable_scope(s):
        x = tf.get_variable("a", [1])
        o = tf.constant(1.0)
    with tf.variable_scope(s, auxiliary_name_scope=False):
        with tf.name_scope(s.original_name_scope):
            p = tf.constant(1.0)
[x.name, o.name, p.name]
---
with tf.variable_scope("s", initializer=one, dtype=tf.float64):
    with tf.variable_scope("t"):
        x = tf.get_variable("a", [2])
        y = tf.get_variable("b", [2], initializer=tf.zeros_initializer())
[x, y]
---
with tf.variable_scope("s", regularizer=lambda w: tf.reduce_sum(w * w), initializer=one):
    x = tf.get_variable("a", [2])
    y = tf.get_variable("b", [3], regularizer=tf.no_regularizer)
tf.losses.get_regularization_loss()
---
def doubled(getter, name, *args, **kwargs):
    return getter(name + "_d", *args, **kwargs)
def logged(getter, *args, **kwargs):
    seen.append(sorted(k for k in kwargs if k in ("shape", "reuse", "trainable", "dtype")))
    return 3 * getter(*args, **kwargs)
seen = []
with tf.variable_scope("s", custom_getter=doubled):
    with tf.variable_scope("t", custom_getter=logged):
        x = tf.get_variable("a", [2], initializer=one)
[x, names(), seen]
---
with tf.variable_scope("s", partitioner=tf.fixed_size_partitioner(2)):
    x = tf.get_variable("a", [4, 2], initializer=one)
    y = tf.get_variable("b", [], initializer=one)
    z = tf.matmul(x, tf.ones([2, 1]))
[names(), str(x.shape), len(x), z, tf.nn.embedding_lookup(x, [0, 3])]
---
with tf.variable_scope("s", partitioner=tf.fixed_size_partitioner(2), reuse=tf.AUTO_REUSE):
    x = tf.get_variable("a", [4, 2], initializer=one)
    y = tf.get_variable("a", [4, 2], initializer=one)
x is y
---
x = tf.get_variable("a", [4, 2], partitioner=tf.fixed_size_partitioner(2))
tf.get_variable("a", [4, 2])
---
x = tf.get_variable("a", [4, 2])
tf.get_variable("a", [4, 2], partitioner=tf.fixed_size_partitioner(2))
---
x = tf.get_variable("a", [4, 2], initializer=one, partitioner=tf.fixed_size_partitioner(2))
[x.assign(tf.zeros([4, 2])), [v.name for v in tf.trainable_variables()]]
---
def f(x):
    return x * tf.get_variable("w", [], initializer=one)
t = tf.make_template("t", f)
[t(2.0), t(3.0), names(), t.variable_scope.name, [v.name for v in t.variables]]
---
t = tf.make_template("t", lambda: tf.get_variable("w", []))
u = tf.make_template("t", lambda: tf.get_variable("w", []))
[t().name, u().name, t().name]
---
t = tf.make_template("t", lambda: tf.Variable(1.0))
t()
t()
---
made = []
def creator(next_creator, **kwargs):
    made.append(kwargs["name"])
    kwargs["name"] = (kwargs["name"] or "") + "_c"
    return next_creator(**kwargs)
with tf.variable_creator_scope(creator):
    x = tf.Variable(1.0, name="a")
    y = tf.get_variable("b", [])
[made, x.name, y.name]
---
with tf.variable_op_scope([tf.constant(1.0)], None, "d"):
    x = tf.get_variable("a", [1])
x.name
---
with tf.variable_scope("a"):
    with tf.variable_scope(""):
        x = tf.get_variable("v", [1])
x.name
---
with tf.variable_scope(""):
    x = tf.get_variable("v", [1])
    o = tf.constant(1.0)
[x.name, o.name]
"""

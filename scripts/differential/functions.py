"""py_func, gradients of one's own, gradient overrides."""

PREAMBLE = """
x = tf.constant(np.random.RandomState(0).rand(3, 2) + 0.5, tf.float32)
n = tf.constant([1, 2, 3])
v = tf.get_variable("v", initializer=np.ones([3, 2], np.float32))
"""
WITH_RESPECT_TO = ("x", "v")
EXPRESSIONS = """
tf.py_func(lambda a: a * 2, [x], tf.float32)
tf.py_func(lambda a, b: (a + b, a - b), [n, n], [tf.int32, tf.int32])
tf.py_func(lambda a: a.astype(np.float64), [x], tf.float32)
tf.py_func(lambda a: (a, a), [n], [tf.int32])
tf.py_func(lambda a: b"text", [n], tf.string)
tf.py_func(lambda a: np.array(["ab", "c"]), [n], tf.string)
tf.py_func(lambda: 3, [], tf.int64)
tf.py_func(lambda: None, [], [])
tf.py_func(lambda a: 1 // 0, [n], tf.int32)
tf.py_func(lambda a: int("x"), [n], tf.int32)
tf.numpy_function(np.sinh, [x], tf.float32)
tf.reshape(tf.py_func(np.sort, [n], tf.int32, stateful=False), [3])
---
@tf.custom_gradient
def log1pexp(a):
    e = tf.exp(a)
    return tf.log(1 + e), lambda dy: dy * (1 - 1 / (1 + e)) * 2
log1pexp(x * v)
---
@tf.custom_gradient
def two(a, b):
    return (a * b, a + b), lambda d, e: (d * 3, e * 5)
two(x, v)
---
@tf.RegisterGradient("TwiceForTest")
def _twice(op, grad):
    return 2 * grad
g = tf.get_default_graph()
with g.gradient_override_map({"Identity": "TwiceForTest"}):
    y = tf.identity(x)
y * v
---
with tf.get_default_graph().gradient_override_map({"Square": "NotThereForTest"}):
    y = tf.square(x)
tf.gradients(y, x)[0]
---
[tf.gradients(tf.py_func(lambda a: a, [x], tf.float32), x)[0] is None]
"""

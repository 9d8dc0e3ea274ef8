"""Identity, grouping and the like."""

PREAMBLE = """
x = tf.constant(np.random.RandomState(0).randn(4, 3), tf.float32)
n = tf.constant([3, 1, 2])
"""
WITH_RESPECT_TO = ("x",)
SECOND_ORDER = True
EXPRESSIONS = """
tf.identity(x)
tf.stop_gradient(x)
tf.tuple([x, n])
tf.group(x)
tf.no_op()
tf.identity(n) // 0
tf.matmul(x, x)
tf.reshape(x, n)
[tf.square(x), {"a": tf.exp(x)}]
---
with tf.control_dependencies([tf.no_op()]):
    y = x * 3
y
"""

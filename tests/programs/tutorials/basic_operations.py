"""Constants, placeholders, matrix products, interactive evaluation and a counter."""

import numpy as np

import sparkflow as tf

hello = tf.constant("Hello, TensorFlow!")
a = tf.constant(2)
b = tf.constant(3)

with tf.Session() as sess:
    print(sess.run(hello))
    print("Addition with constants: %i" % sess.run(a + b))
    print("Multiplication with constants: %i" % sess.run(a * b))

a = tf.placeholder(tf.int16)
b = tf.placeholder(tf.int16)
add = tf.add(a, b)
mul = tf.multiply(a, b)
with tf.Session() as sess:
    print("Addition with variables: %i" % sess.run(add, feed_dict={a: 2, b: 3}))
    print("Multiplication with variables: %i" % sess.run(mul, feed_dict={a: 2, b: 3}))

matrix1 = tf.constant([[3.0, 3.0]])
matrix2 = tf.constant([[2.0], [2.0]])
product = tf.matmul(matrix1, matrix2)
with tf.Session() as sess:
    print(sess.run(product))

sess = tf.InteractiveSession()
x = tf.Variable([1.0, 2.0])
c = tf.constant([3.0, 3.0])
x.initializer.run()
sub = tf.subtract(x, c)
print(sub.eval())
print(tf.shape(tf.zeros([2, 3])).eval(), tf.rank(tf.ones([2, 3, 4])).eval())
print(tf.zeros_like(x).eval(), tf.fill([2, 2], 7).eval().tolist())
print(tf.linspace(10.0, 12.0, 3).eval(), tf.range(3, 18, 3).eval())
print(tf.cast(tf.constant([1.8, -2.2]), tf.int32).eval())
print(tf.reduce_sum([[1, 1, 1], [1, 1, 1]], 1).eval(), tf.argmax([[1, 5, 2]], 1).eval())
print((tf.constant(7) / tf.constant(2)).eval(), (tf.constant(7) // tf.constant(2)).eval())
print((tf.constant(-7) % tf.constant(3)).eval(), tf.mod(-7.0, 3.0).eval())
print(tf.where(tf.constant([True, False]), [1, 2], [3, 4]).eval())
print(tf.constant([[1, 2, 3], [4, 5, 6]])[:, 1:].eval().tolist(), x[0].eval())
sess.close()

state = tf.Variable(0, name="counter")
one = tf.constant(1)
update = tf.assign(state, tf.add(state, one))
init_op = tf.global_variables_initializer()
with tf.Session() as sess:
    sess.run(init_op)
    for _ in range(3):
        sess.run(update)
    print("counter", sess.run(state), state.name, state.op.type, state)

g = tf.Graph()
with g.as_default():
    y = tf.constant(5.0, name="y")
print(y.graph is g, y.graph is tf.get_default_graph(), y.name, y)
try:
    with tf.Session() as sess:
        sess.run(y)
except ValueError as e:
    print("ValueError", "is not an element of this graph" in str(e))
print(np.array([op.name for op in g.get_operations()]))

"""Loops, conditions, arrays of tensors, and functions over sequences."""

import numpy as np

import sparkflow as tf

a, b, n = tf.while_loop(
    lambda a, b, n: n > 0, lambda a, b, n: (b, a + b, n - 1), [0, 1, tf.constant(10)]
)
x = tf.placeholder(tf.float32, [])
cond = tf.cond(x > 0, lambda: tf.square(x), lambda: -x)
case = tf.case(
    [(x < 0, lambda: tf.constant("neg")), (x > 10, lambda: tf.constant("big"))],
    default=lambda: tf.constant("mid"),
    exclusive=True,
)
fact = tf.while_loop(lambda i, p: i < 6, lambda i, p: [i + 1, p * i], (1, 1))[1]
power = tf.while_loop(lambda i, p: i < 3, lambda i, p: (i + 1, p * x), [tf.constant(0), 1.0])[1]

inputs = tf.placeholder(tf.float32, [None, 3])
ta = tf.TensorArray(tf.float32, size=0, dynamic_size=True, clear_after_read=False)


def body(t, state, ta):
    state = tf.tanh(inputs[t] + 0.5 * state)
    return t + 1, state, ta.write(t, state)


_, last, ta = tf.while_loop(lambda t, *_: t < tf.shape(inputs)[0], body, [0, tf.zeros([3]), ta])
stacked = ta.stack()
unrolled = tf.gradients(tf.reduce_sum(stacked), inputs)[0]
elems = np.array([1, 2, 3, 4, 5, 6])
squares = tf.map_fn(lambda x: x * x, elems)
pairs = tf.map_fn(lambda x: (x, -x), elems, dtype=(tf.int64, tf.int64))
sums = tf.scan(lambda a, x: a + x, elems)
fibonacci = tf.scan(lambda a, _: (a[1], a[0] + a[1]), elems, (np.array(0), np.array(1)))
left = tf.foldl(lambda a, x: a * 10 + x, elems)
right = tf.foldr(lambda a, x: a * 10 + x, elems)
v = tf.Variable(0.0)
with tf.control_dependencies([v.assign_add(1.0)]):
    after = tf.identity(v)
check = tf.Assert(tf.greater(x, 0), [x], summarize=1)
with tf.control_dependencies([check]):
    root = tf.sqrt(x)
shape_loop = tf.while_loop(
    lambda i, m: i < 3,
    lambda i, m: [i + 1, tf.concat([m, m], axis=0)],
    [tf.constant(0), tf.ones([2, 2])],
    shape_invariants=[tf.TensorShape([]), tf.TensorShape([None, 2])],
)[1]
total = tf.while_loop(lambda i: i < 4, lambda i: i + 1, [0], parallel_iterations=1, back_prop=False)

with tf.Session() as sess:
    sess.run(tf.global_variables_initializer())
    print(sess.run([a, b, n]), sess.run(fact), sess.run(total))
    for value in (-2.0, 3.0, 11.0):
        print(sess.run([cond, case, power], {x: value}))
    print(sess.run(tf.gradients(power, x) + tf.gradients(cond, x), {x: 3.0}))
    data = np.arange(6).reshape(2, 3) / 6.0
    for value in sess.run([last, stacked, unrolled], {inputs: data}):
        print(np.round(value, 5).tolist())
    print(sess.run(squares), sess.run(sums), sess.run(fibonacci)[0], sess.run([left, right]))
    print(sess.run(pairs)[1])
    print(sess.run(after), sess.run(after), sess.run(v))
    print(sess.run(root, {x: 16.0}), shape_loop.get_shape(), sess.run(shape_loop).shape)
    try:
        sess.run(root, {x: -1.0})
    except tf.errors.InvalidArgumentError as e:
        print("InvalidArgumentError", "assertion failed" in e.message, "-1" in e.message)
try:
    tf.while_loop(
        lambda i, m: i < 3, lambda i, m: [i + 1, tf.concat([m, m], 0)], [0, tf.ones([2, 2])]
    )
except ValueError as e:
    print("ValueError", "shape" in str(e))

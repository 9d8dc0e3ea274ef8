"""Variables shared through scopes by a siamese net, with decays, averages and regularizers."""

import numpy as np

import sparkflow as tf

rng = np.random.RandomState(15)


def tower(x):
    w1 = tf.get_variable("w1", [6, 8], initializer=tf.constant_initializer(W1), regularizer=l2)
    b1 = tf.get_variable("b1", [8], initializer=tf.constant_initializer(0.01))
    return tf.nn.tanh(tf.nn.bias_add(tf.matmul(x, w1), b1))


def l2(w):
    return 0.001 * tf.reduce_sum(w * w)


W1 = rng.randn(6, 8).astype(np.float32) * 0.5
x1 = tf.placeholder(tf.float32, [None, 6])
x2 = tf.placeholder(tf.float32, [None, 6])
same = tf.placeholder(tf.float32, [None])
with tf.variable_scope("siamese") as scope:
    o1 = tower(x1)
    scope.reuse_variables()
    o2 = tower(x2)
distance2 = tf.reduce_sum(tf.pow(tf.subtract(o1, o2), 2), 1)
distance = tf.sqrt(distance2 + 1e-6, name="eucd")
margin = 2.0
loss = tf.reduce_mean(same * distance2 + (1 - same) * tf.pow(tf.maximum(margin - distance, 0), 2))
reg = tf.get_collection(tf.GraphKeys.REGULARIZATION_LOSSES)
print(len(reg), [v.name for v in tf.global_variables()])
loss += tf.add_n(reg)
batch = tf.Variable(0, trainable=False, name="batch")
rate = tf.train.exponential_decay(0.1, batch * 10, 100, 0.95, staircase=True)
piecewise = tf.train.piecewise_constant(batch, [5, 20], [1.0, 0.5, 0.1])
polynomial = tf.train.polynomial_decay(0.1, batch, 50, 0.01, power=0.5)
inverse = tf.train.inverse_time_decay(0.1, batch, 10, 0.5)
train = tf.train.MomentumOptimizer(rate, 0.9, use_nesterov=True).minimize(loss, global_step=batch)
ema = tf.train.ExponentialMovingAverage(decay=0.99, num_updates=batch)
with tf.control_dependencies([train]):
    maintain = ema.apply(tf.trainable_variables())
w1 = tf.trainable_variables()[0]
average = ema.average(w1)
print(average.name, ema.average_name(w1), sorted(ema.variables_to_restore())[:2])
a = rng.randn(50, 6).astype(np.float32)
b = np.where(rng.rand(50, 1) < 0.5, a + 0.1, -a).astype(np.float32)
target = (np.abs(a - b).max(1) < 0.2).astype(np.float32)
with tf.Session() as sess:
    sess.run(tf.global_variables_initializer())
    for _ in range(30):
        sess.run(maintain, {x1: a, x2: b, same: target})
    print("%.5f" % sess.run(loss, {x1: a, x2: b, same: target}))
    print(np.round(sess.run([rate, piecewise, polynomial, inverse]), 6).tolist(), sess.run(batch))
    print("%.5f %.5f" % (sess.run(w1).std(), sess.run(average).std()))

tf.reset_default_graph()
with tf.variable_scope("foo"), tf.name_scope("bar"):
    v = tf.get_variable("v", [1])
    x = 1.0 + v
print(v.name, x.op.name)
try:
    with tf.variable_scope("foo"):
        tf.get_variable("v", [1])
except ValueError as e:
    print("ValueError", "already exists" in str(e))
try:
    with tf.variable_scope("foo", reuse=True):
        tf.get_variable("other", [1])
except ValueError as e:
    print("ValueError", "does not exist" in str(e))
with tf.variable_scope("foo", reuse=tf.AUTO_REUSE) as foo_scope:
    print(tf.get_variable("v", [1]) is v)
with tf.variable_scope("outer", initializer=tf.constant_initializer(0.4), dtype=tf.float64):
    with tf.variable_scope(foo_scope):
        u = tf.get_variable("u", [1])
    with tf.variable_scope(None, "layer"):
        first = tf.get_variable("k", [1])
    with tf.variable_scope(None, "layer"):
        second = tf.get_variable("k", [1])
print(u.name, first.name, second.name, first.dtype)
net = tf.make_template(
    "t", lambda z: z * tf.get_variable("s", [], initializer=tf.ones_initializer())
)
net(1.0), net(2.0)
print([w.name for w in tf.trainable_variables() if w.name.startswith("t")])


def getter(getter, name, *args, **kwargs):
    return tf.identity(getter(name, *args, **kwargs), name="got")


with tf.variable_scope("custom", custom_getter=getter):
    print(tf.get_variable("q", [2]).op.name)

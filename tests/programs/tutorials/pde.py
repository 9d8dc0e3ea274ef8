"""Raindrops on a pond (a Laplace PDE), and the Mandelbrot set, in interactive sessions."""

import numpy as np

import sparkflow as tf

sess = tf.InteractiveSession()


def make_kernel(a):
    a = np.asarray(a)
    a = a.reshape(list(a.shape) + [1, 1])
    return tf.constant(a, dtype=1)


def simple_conv(x, k):
    x = tf.expand_dims(tf.expand_dims(x, 0), -1)
    y = tf.nn.depthwise_conv2d(x, k, [1, 1, 1, 1], padding="SAME")
    return y[0, :, :, 0]


def laplace(x):
    return simple_conv(x, make_kernel([[0.5, 1.0, 0.5], [1.0, -6.0, 1.0], [0.5, 1.0, 0.5]]))


N = 50
u_init = np.zeros([N, N], dtype=np.float32)
ut_init = np.zeros([N, N], dtype=np.float32)
rng = np.random.RandomState(0)
for n in range(10):
    a, b = rng.randint(0, N, 2)
    u_init[a, b] = rng.uniform()
eps = tf.placeholder(tf.float32, shape=())
damping = tf.placeholder(tf.float32, shape=())
U = tf.Variable(u_init)
Ut = tf.Variable(ut_init)
U_ = U + eps * Ut
Ut_ = Ut + eps * (laplace(U) - damping * Ut)
step = tf.group(U.assign(U_), Ut.assign(Ut_))
tf.initialize_all_variables().run()
for i in range(200):
    step.run({eps: 0.03, damping: 0.04})
print("%.4f %.4f" % (U.eval().std(), np.abs(Ut.eval()).max()))

Y, X = np.mgrid[-1.3:1.3:0.05, -2:1:0.05]
Z = X + 1j * Y
xs = tf.constant(Z.astype(np.complex64))
zs = tf.Variable(xs)
ns = tf.Variable(tf.zeros_like(xs, tf.float32))
tf.global_variables_initializer().run()
zs_ = zs * zs + xs
not_diverged = tf.abs(zs_) < 4
step = tf.group(zs.assign(zs_), ns.assign_add(tf.cast(not_diverged, tf.float32)))
old = np.seterr(all="ignore")
for i in range(50):
    step.run()
counts = ns.eval()
print(counts.shape, counts.max(), int(counts.sum()))
sess.close()

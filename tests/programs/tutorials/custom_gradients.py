"""User-defined gradients: registered, overridden, custom_gradient, and for py_func."""

import numpy as np

import sparkflow as tf


@tf.RegisterGradient("CustomSquare")
def _custom_square_grad(op, grad):
    x = op.inputs[0]
    return grad * x * 10.0


@tf.RegisterGradient("Flip")
def _flip(op, grad):
    return [tf.negative(grad) * 0.5]


def flip_gradient(x):
    with tf.get_default_graph().gradient_override_map({"Identity": "Flip"}):
        return tf.identity(x)


def py_func(func, inp, Tout, stateful=True, name=None, grad=None):
    rnd_name = "PyFuncGrad" + str(np.random.randint(0, 1000000))
    tf.RegisterGradient(rnd_name)(grad)
    g = tf.get_default_graph()
    with g.gradient_override_map({"PyFunc": rnd_name}):
        return tf.py_func(func, inp, Tout, stateful=stateful, name=name)


def my_square(x, name=None):
    with tf.name_scope(name, "Mysquare", [x]) as name:
        sqr_x = py_func(np.square, [x], [tf.float32], name=name, grad=_my_square_grad)
        return sqr_x[0]


def _my_square_grad(op, grad):
    x = op.inputs[0]
    return grad * 20 * x


@tf.custom_gradient
def log1pexp(x):
    e = tf.exp(x)

    def grad(dy):
        return dy * (1 - 1 / (1 + e))

    return tf.log(1 + e), grad


x = tf.placeholder(tf.float32, [None])
with tf.get_default_graph().gradient_override_map({"Square": "CustomSquare"}):
    y = tf.square(x)
z = tf.square(x)
stopped = x + tf.stop_gradient(tf.sign(x) - x)
with tf.Session() as sess:
    feed = {x: [1.0, 100.0]}
    print(sess.run(tf.gradients(y, x)[0], feed), sess.run(tf.gradients(z, x)[0], feed))
    print(sess.run(tf.gradients(flip_gradient(x) * 3, x)[0], feed))
    square = my_square(x)
    print(sess.run([square, tf.gradients(square, x)[0]], feed))
    soft = log1pexp(x)
    print(sess.run(tf.gradients(soft, x)[0], feed))
    print(sess.run([stopped, tf.gradients(stopped, x)[0]], {x: [-0.3, 2.0]}))
    x.set_shape([2])
    hessian = tf.hessians(tf.reduce_sum(x * x * x), x)[0]
    print(sess.run(hessian, feed).tolist())
    print(sess.run(tf.gradients([z, x], [x], grad_ys=[tf.ones_like(x), 2 * x])[0], feed))
    print(tf.gradients(tf.constant(1.0), x), tf.gradients(z, [x, tf.constant(2.0)])[1])
    grads = tf.gradients(tf.reduce_sum(tf.gather(tf.reshape(x, [2, 1]), [0, 0])), x)
    print(sess.run(grads, feed))

"""Several towers on devices share variables; their gradients are averaged on the CPU."""

import numpy as np

import sparkflow as tf

num_gpus = 2
rng = np.random.RandomState(10)
features = rng.randn(64, 6).astype(np.float32)
labels = (features[:, 0] - features[:, 1] > 0).astype(np.int64)
PS_OPS = ["Variable", "VariableV2", "AutoReloadVariable"]


def assign_to_device(device, ps_device="/cpu:0"):
    def _assign(op):
        node_def = op if isinstance(op, tf.NodeDef) else op.node_def
        if node_def.op in PS_OPS:
            return "/" + ps_device
        return device

    return _assign


def average_gradients(tower_grads):
    average_grads = []
    for grad_and_vars in zip(*tower_grads):
        grads = []
        for g, _ in grad_and_vars:
            grads.append(tf.expand_dims(g, 0))
        grad = tf.reduce_mean(tf.concat(grads, 0), 0)
        average_grads.append((grad, grad_and_vars[0][1]))
    return average_grads


with tf.device("/cpu:0"):
    tower_grads = []
    X = tf.placeholder(tf.float32, [None, 6])
    Y = tf.placeholder(tf.int64, [None])
    for i in range(num_gpus):
        with tf.device(assign_to_device("/cpu:%d" % i, ps_device="/cpu:0")):
            _x = X[i * 32 : (i + 1) * 32]
            _y = Y[i * 32 : (i + 1) * 32]
            with tf.variable_scope(tf.get_variable_scope(), reuse=i > 0), tf.name_scope("tower"):
                w = tf.get_variable("w", [6, 2], initializer=tf.constant_initializer(0.1))
                b = tf.get_variable("b", [2], initializer=tf.zeros_initializer())
                logits = tf.nn.bias_add(tf.matmul(_x, w), b)
                loss = tf.reduce_mean(
                    tf.nn.sparse_softmax_cross_entropy_with_logits(logits=logits, labels=_y)
                )
            optimizer = tf.train.GradientDescentOptimizer(0.5)
            tower_grads.append(optimizer.compute_gradients(loss))
    grads = average_gradients(tower_grads)
    step = tf.train.get_or_create_global_step()
    train_op = optimizer.apply_gradients(grads, global_step=step)
    averages = tf.train.ExponentialMovingAverage(0.9, step)
    train_op = tf.group(train_op, averages.apply(tf.trainable_variables()))

print([(v.name, v.device) for v in tf.trainable_variables()])
print(loss.name, loss.device)
config = tf.ConfigProto(
    allow_soft_placement=True, log_device_placement=False, device_count={"CPU": num_gpus}
)
with tf.Session(config=config) as sess:
    sess.run(tf.global_variables_initializer())
    for _ in range(20):
        sess.run(train_op, feed_dict={X: features, Y: labels})
    print(np.round(sess.run(w), 4).tolist(), sess.run(step))

weights = np.full((6, 2), 0.1)
bias = np.zeros(2)
for _ in range(20):
    z = features.dot(weights) + bias
    p = np.exp(z) / np.exp(z).sum(1, keepdims=True)
    p[np.arange(64), labels] -= 1
    weights -= 0.5 * features.T.dot(p) / 64
    bias -= 0.5 * p.mean(0)
with tf.Session(config=config) as sess:
    print(np.round(weights, 4).tolist())

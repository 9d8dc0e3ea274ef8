"""Logistic and softmax regression of synthetic digits by feed_dict batches."""

import numpy as np

import sparkflow as tf

rng = np.random.RandomState(1)
labels = rng.randint(0, 10, 1000)
prototypes = rng.rand(10, 64).astype(np.float32)
images = (prototypes[labels] + 0.3 * rng.randn(1000, 64)).astype(np.float32)
targets = np.eye(10, dtype=np.float32)[labels]

x = tf.placeholder(tf.float32, [None, 64])
y_ = tf.placeholder(tf.float32, [None, 10])
W = tf.Variable(tf.zeros([64, 10]))
b = tf.Variable(tf.zeros([10]))
y = tf.nn.softmax(tf.matmul(x, W) + b)
cross_entropy = tf.reduce_mean(-tf.reduce_sum(y_ * tf.log(y), reduction_indices=[1]))
logits = tf.matmul(x, W) + b
fused = tf.reduce_mean(tf.nn.softmax_cross_entropy_with_logits(labels=y_, logits=logits))
train_step = tf.train.GradientDescentOptimizer(0.5).minimize(cross_entropy)
correct_prediction = tf.equal(tf.argmax(y, 1), tf.argmax(y_, 1))
accuracy = tf.reduce_mean(tf.cast(correct_prediction, tf.float32))

with tf.Session() as sess:
    tf.global_variables_initializer().run()
    for i in range(200):
        start = (i * 50) % 800
        sess.run(train_step, {x: images[start : start + 50], y_: targets[start : start + 50]})
    test = {x: images[800:], y_: targets[800:]}
    print("loss %.5f %.5f" % tuple(sess.run([cross_entropy, fused], feed_dict=test)))
    print("accuracy", accuracy.eval(test) > 0.9)

binary = (labels >= 5).astype(np.float32)[:, None]
with tf.Graph().as_default():
    x = tf.placeholder(tf.float32, [None, 64], name="x")
    t = tf.placeholder(tf.float32, [None, 1], name="t")
    w = tf.get_variable("w", [64, 1], initializer=tf.zeros_initializer())
    b = tf.get_variable("b", [1], initializer=tf.constant_initializer(0.0))
    z = tf.nn.xw_plus_b(x, w, b)
    loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels=t, logits=z))
    loss += 0.001 * tf.nn.l2_loss(w)
    train = tf.train.MomentumOptimizer(0.1, 0.9).minimize(loss)
    right = tf.reduce_mean(tf.to_float(tf.equal(tf.round(tf.sigmoid(z)), t)))
    with tf.Session() as sess:
        sess.run(tf.initialize_all_variables())
        for i in range(100):
            start = (i * 100) % 800
            feed = {x: images[start : start + 100], t: binary[start : start + 100]}
            sess.run(train, feed_dict=feed)
        print("logistic %.4f" % sess.run(loss, {x: images[800:], t: binary[800:]}))
        print("right", sess.run(right, {"x:0": images[800:], "t:0": binary[800:]}) > 0.7)

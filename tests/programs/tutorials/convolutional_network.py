"""The deep tutorial's CNN by tf.nn, then the same by tf.layers, on small images."""

import numpy as np

import sparkflow as tf

rng = np.random.RandomState(3)
labels = rng.randint(0, 4, 256)
images = rng.rand(256, 12, 12, 1).astype(np.float32) * 0.5
for image, label in zip(images, labels):
    row, column = divmod(label, 2)
    image[row * 6 : row * 6 + 6, column * 6 : column * 6 + 6] += 0.7
one_hot = np.eye(4, dtype=np.float32)[labels]


def weight_variable(shape):
    initial = tf.truncated_normal(shape, stddev=0.1, seed=1)
    return tf.Variable(initial)


def bias_variable(shape):
    return tf.Variable(tf.constant(0.1, shape=shape))


def conv2d(x, W):
    return tf.nn.conv2d(x, W, strides=[1, 1, 1, 1], padding="SAME")


def max_pool_2x2(x):
    return tf.nn.max_pool(x, ksize=[1, 2, 2, 1], strides=[1, 2, 2, 1], padding="SAME")


x = tf.placeholder(tf.float32, [None, 144])
y_ = tf.placeholder(tf.float32, [None, 4])
keep_prob = tf.placeholder(tf.float32)
x_image = tf.reshape(x, [-1, 12, 12, 1])
h_conv1 = tf.nn.relu(conv2d(x_image, weight_variable([5, 5, 1, 8])) + bias_variable([8]))
h_pool1 = max_pool_2x2(h_conv1)
h_conv2 = tf.nn.relu(conv2d(h_pool1, weight_variable([5, 5, 8, 16])) + bias_variable([16]))
h_pool2 = max_pool_2x2(h_conv2)
h_flat = tf.reshape(h_pool2, [-1, 3 * 3 * 16])
h_fc1 = tf.nn.relu(tf.matmul(h_flat, weight_variable([144, 32])) + bias_variable([32]))
h_drop = tf.nn.dropout(h_fc1, keep_prob)
y_conv = tf.matmul(h_drop, weight_variable([32, 4])) + bias_variable([4])
cross_entropy = tf.reduce_mean(tf.nn.softmax_cross_entropy_with_logits(labels=y_, logits=y_conv))
train_step = tf.train.AdamOptimizer(1e-2).minimize(cross_entropy)
correct_prediction = tf.equal(tf.argmax(y_conv, 1), tf.argmax(y_, 1))
accuracy = tf.reduce_mean(tf.cast(correct_prediction, tf.float32))
print(h_pool2.get_shape(), y_conv.get_shape().as_list())
with tf.Session() as sess:
    sess.run(tf.global_variables_initializer())
    flat = images.reshape(-1, 144)
    for i in range(40):
        s = (i * 32) % 256
        train_step.run(feed_dict={x: flat[s : s + 32], y_: one_hot[s : s + 32], keep_prob: 0.5})
    print("nn", accuracy.eval(feed_dict={x: flat, y_: one_hot, keep_prob: 1.0}) > 0.95)


def conv_net(features, n_classes, dropout, reuse, is_training):
    with tf.variable_scope("ConvNet", reuse=reuse):
        out = tf.layers.conv2d(features, 8, 5, activation=tf.nn.relu)
        out = tf.layers.max_pooling2d(out, 2, 2)
        out = tf.layers.conv2d(out, 16, 3, activation=tf.nn.relu, padding="same")
        out = tf.layers.average_pooling2d(out, 2, 2)
        out = tf.contrib.layers.flatten(out)
        out = tf.layers.dense(out, 32, activation=tf.nn.relu)
        out = tf.layers.dropout(out, rate=dropout, training=is_training)
        return tf.layers.dense(out, n_classes)


tf.reset_default_graph()
tf.set_random_seed(5)
features = tf.constant(images)
sparse = tf.constant(labels, dtype=tf.int32)
logits_train = conv_net(features, 4, 0.25, reuse=False, is_training=True)
logits_test = conv_net(features, 4, 0.25, reuse=True, is_training=False)
loss = tf.losses.sparse_softmax_cross_entropy(labels=sparse, logits=logits_train)
train = tf.train.AdamOptimizer(0.01).minimize(
    loss, global_step=tf.train.get_or_create_global_step()
)
top = tf.nn.in_top_k(logits_test, sparse, 1)
with tf.Session() as sess:
    sess.run(tf.global_variables_initializer())
    for _ in range(15):
        sess.run(train)
    print("layers", np.mean(sess.run(top)) > 0.95, sess.run(tf.train.get_global_step()))
print([v.name for v in tf.trainable_variables()])

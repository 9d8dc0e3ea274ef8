"""A perceptron of two hidden layers with variables in dictionaries, trained by Adam."""

import numpy as np

import sparkflow as tf

np.random.seed(2)
n_hidden_1, n_hidden_2, num_input, num_classes = 32, 32, 20, 3
X_all = np.random.randn(600, num_input).astype("float32")
Y_index = (np.abs(X_all[:, 0]) + X_all[:, 1] > 1).astype(int) + (X_all[:, 2] > 0.5)
Y_all = np.eye(num_classes)[Y_index]

X = tf.placeholder("float", [None, num_input])
Y = tf.placeholder("float", [None, num_classes])


def init(*shape):
    return tf.Variable(tf.constant(np.random.randn(*shape) * 0.3, dtype=tf.float32))


weights = {
    "h1": init(num_input, n_hidden_1),
    "h2": init(n_hidden_1, n_hidden_2),
    "out": init(n_hidden_2, num_classes),
}
biases = {"b1": init(n_hidden_1), "b2": init(n_hidden_2), "out": init(num_classes)}


def neural_net(x):
    layer_1 = tf.nn.relu(tf.add(tf.matmul(x, weights["h1"]), biases["b1"]))
    layer_2 = tf.nn.relu(tf.add(tf.matmul(layer_1, weights["h2"]), biases["b2"]))
    return tf.matmul(layer_2, weights["out"]) + biases["out"]


logits = neural_net(X)
prediction = tf.nn.softmax(logits)
loss_op = tf.reduce_mean(tf.nn.softmax_cross_entropy_with_logits_v2(logits=logits, labels=Y))
optimizer = tf.train.AdamOptimizer(learning_rate=0.01)
train_op = optimizer.minimize(loss_op)
correct_pred = tf.equal(tf.argmax(prediction, 1), tf.argmax(Y, 1))
accuracy = tf.reduce_mean(tf.cast(correct_pred, tf.float32))

with tf.Session() as sess:
    sess.run(tf.global_variables_initializer())
    for step in range(1, 201):
        i = (step * 60) % 480
        batch_x, batch_y = X_all[i : i + 60], Y_all[i : i + 60]
        sess.run(train_op, feed_dict={X: batch_x, Y: batch_y})
        if step % 100 == 0 or step == 1:
            loss, acc = sess.run([loss_op, accuracy], feed_dict={X: batch_x, Y: batch_y})
            print("Step %d, Minibatch Loss= %.4f, Training Accuracy= %.3f" % (step, loss, acc))
    acc = sess.run(accuracy, feed_dict={X: X_all[540:], Y: Y_all[540:]})
    print("Testing Accuracy: %.2f" % acc)
print([v.name for v in tf.trainable_variables()][:2], len(tf.global_variables()))
print(optimizer.get_slot_names(), optimizer.get_slot(weights["h1"], "m").name)

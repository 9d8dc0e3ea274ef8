"""The class of the nearest neighbour by L1 distance, one test point per run."""

import numpy as np

import sparkflow as tf

rng = np.random.RandomState(0)
centres = rng.uniform(-4, 4, size=(5, 16))
labels = rng.randint(0, 5, 250)
points = centres[labels] + rng.randn(250, 16) * 0.5
one_hot = np.eye(5)[labels]
Xtr, Ytr, Xte, Yte = points[:200], one_hot[:200], points[200:], one_hot[200:]

xtr = tf.placeholder("float", [None, 16])
xte = tf.placeholder("float", [16])
distance = tf.reduce_sum(tf.abs(tf.add(xtr, tf.negative(xte))), reduction_indices=1)
pred = tf.arg_min(distance, 0)
accuracy = 0.0
init = tf.global_variables_initializer()
with tf.Session() as sess:
    sess.run(init)
    for i in range(len(Xte)):
        nn_index = sess.run(pred, feed_dict={xtr: Xtr, xte: Xte[i, :]})
        if np.argmax(Ytr[nn_index]) == np.argmax(Yte[i]):
            accuracy += 1.0 / len(Xte)
print("Accuracy: %.2f" % accuracy)

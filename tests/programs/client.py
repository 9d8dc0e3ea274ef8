"""In-graph replication through `grpc://`: the input is split over two workers, sums are added.

`client.py HOST:PORT`, where a server of the cluster listens.
"""

# ruff: noqa: UP031  (as programs were written for TensorFlow 1)

import sys

import numpy as np

import sparkflow as tf

x = tf.placeholder(tf.float32, [4, 2])
with tf.device("/job:local/task:0"):
    weights = tf.Variable([[1.5, 10.0]])
parts = tf.split(0, 2, x)
sums = []
for i in range(2):
    with tf.device("/job:local/task:%d" % i):
        sums.append(tf.reduce_sum(parts[i] * weights, reduction_indices=[0]))
with tf.device("/job:local/task:0"):
    result = sums[0] + sums[1]

with tf.Session("grpc://" + sys.argv[1]) as sess:
    sess.run(tf.initialize_all_variables())
    print(sess.run(result, {x: np.array([[1, 2], [0.25, 3], [1, 4], [1, 3.645]])}))

"""A client whose step waits on every task of a cluster: `blocked_client.py TARGET`."""

import signal
import sys

import sparkflow as tf

# Shells start background jobs, and therefore these tests, with the signal ignored.
signal.signal(signal.SIGINT, signal.default_int_handler)
with tf.device("/job:ps/task:0"):
    item = tf.FIFOQueue(1, tf.float32, [[]], shared_name="q").dequeue()
with tf.device("/job:worker/task:1"):
    one = tf.tanh(item)
with tf.device("/job:worker/task:0"):
    two = tf.exp(one)
with tf.Session(sys.argv[1]) as sess:
    print("runs", flush=True)
    sess.run(two)

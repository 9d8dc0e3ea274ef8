"""A program of tf.app.flags that trains a little net: `--steps`, `--rate`, `--layers`..."""

import sys
import time

import numpy as np

import sparkflow as tf

flags = tf.app.flags
FLAGS = flags.FLAGS
flags.DEFINE_integer("steps", 20, "Number of steps to run trainer.")
flags.DEFINE_float("rate", 0.5, "Initial learning rate.")
flags.DEFINE_string("name", "model", "Name of the model.")
flags.DEFINE_boolean("fake_data", False, "If true, uses fake data for unit testing.")
flags.DEFINE_enum("optimizer", "sgd", ["sgd", "adam"], "Which optimizer.")
flags.DEFINE_list("layers", "4,3", "Units of the hidden layers.")
flags.DEFINE_bool("verbose", True, "Whether to print.")


def inference(images, sizes):
    out = images
    for i, size in enumerate(sizes):
        with tf.name_scope("hidden%d" % (i + 1)):
            fan_in = out.get_shape()[1].value
            weights = tf.Variable(
                tf.truncated_normal([fan_in, size], stddev=1.0 / np.sqrt(float(fan_in)), seed=i),
                name="weights",
            )
            biases = tf.Variable(tf.zeros([size]), name="biases")
            out = tf.nn.relu(tf.matmul(out, weights) + biases)
    with tf.name_scope("softmax_linear"):
        weights = tf.Variable(tf.truncated_normal([size, 2], stddev=0.5, seed=9), name="weights")
        return tf.matmul(out, weights)


def training(loss, learning_rate):
    tf.summary.scalar(loss.op.name, loss)
    optimizer = {
        "sgd": tf.train.GradientDescentOptimizer,
        "adam": tf.train.AdamOptimizer,
    }[FLAGS.optimizer](learning_rate)
    global_step = tf.Variable(0, name="global_step", trainable=False)
    return optimizer.minimize(loss, global_step=global_step)


def main(unused_argv):
    print(len(unused_argv), FLAGS.steps, FLAGS.rate, FLAGS.name, FLAGS.fake_data, FLAGS.layers)
    rng = np.random.RandomState(0)
    with tf.Graph().as_default():
        images = tf.placeholder(tf.float32, shape=(20, 5))
        labels = tf.placeholder(tf.int32, shape=(20,))
        logits = inference(images, [int(n) for n in FLAGS.layers])
        cross_entropy = tf.nn.sparse_softmax_cross_entropy_with_logits(
            labels=tf.to_int64(labels), logits=logits, name="xentropy"
        )
        loss = tf.reduce_mean(cross_entropy, name="xentropy_mean")
        train_op = training(loss, FLAGS.rate)
        evaluation = tf.reduce_sum(tf.cast(tf.nn.in_top_k(logits, labels, 1), tf.int32))
        sess = tf.Session()
        sess.run(tf.global_variables_initializer())
        start = time.time()
        x = rng.randn(20, 5)
        feed_dict = {images: x, labels: (x[:, 0] > 0).astype(int)}
        for step in range(FLAGS.steps):
            sess.run([train_op, loss], feed_dict=feed_dict)
        if FLAGS.verbose:
            print("learnt", sess.run(evaluation, feed_dict) >= 12, time.time() - start < 60)
        print(sorted(n.name for n in tf.trainable_variables())[0], loss.op.name)
        sess.close()


if __name__ == "__main__":
    tf.app.run(main=main, argv=[sys.argv[0], "--steps=30", "--nofake_data"] + sys.argv[1:])

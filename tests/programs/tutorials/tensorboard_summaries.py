"""Summaries as in the tutorials: scalars, histograms, images, merge_all, metadata, read back."""

import glob
import os
import tempfile

import numpy as np

import sparkflow as tf

logdir = tempfile.mkdtemp()
rng = np.random.RandomState(8)
data = rng.rand(100, 16).astype("float32")
target = np.eye(3)[rng.randint(0, 3, 100)]


def variable_summaries(var):
    with tf.name_scope("summaries"):
        mean = tf.reduce_mean(var)
        tf.summary.scalar("mean", mean)
        with tf.name_scope("stddev"):
            stddev = tf.sqrt(tf.reduce_mean(tf.square(var - mean)))
        tf.summary.scalar("stddev", stddev)
        tf.summary.scalar("max", tf.reduce_max(var))
        tf.summary.histogram("histogram", var)


def nn_layer(input_tensor, input_dim, output_dim, layer_name, act=tf.nn.relu):
    with tf.name_scope(layer_name):
        with tf.name_scope("weights"):
            weights = tf.Variable(tf.truncated_normal([input_dim, output_dim], stddev=0.1))
            variable_summaries(weights)
        with tf.name_scope("biases"):
            biases = tf.Variable(tf.constant(0.1, shape=[output_dim]))
            variable_summaries(biases)
        with tf.name_scope("Wx_plus_b"):
            preactivate = tf.matmul(input_tensor, weights) + biases
            tf.summary.histogram("pre_activations", preactivate)
        activations = act(preactivate, name="activation")
        tf.summary.histogram("activations", activations)
        return activations


with tf.name_scope("input"):
    x = tf.placeholder(tf.float32, [None, 16], name="x-input")
    y_ = tf.placeholder(tf.float32, [None, 3], name="y-input")
with tf.name_scope("input_reshape"):
    tf.summary.image("input", tf.reshape(x, [-1, 4, 4, 1]), 10)
hidden1 = nn_layer(x, 16, 8, "layer1")
with tf.name_scope("dropout"):
    keep_prob = tf.placeholder(tf.float32)
    tf.summary.scalar("dropout_keep_probability", keep_prob)
    dropped = tf.nn.dropout(hidden1, keep_prob)
y = nn_layer(dropped, 8, 3, "layer2", act=tf.identity)
with tf.name_scope("cross_entropy"):
    diff = tf.nn.softmax_cross_entropy_with_logits(labels=y_, logits=y)
    with tf.name_scope("total"):
        cross_entropy = tf.reduce_mean(diff)
tf.summary.scalar("cross_entropy", cross_entropy)
with tf.name_scope("train"):
    optimizer = tf.train.AdamOptimizer(0.001)
    grads = tf.gradients(cross_entropy, tf.trainable_variables())
    grads = list(zip(grads, tf.trainable_variables()))
    train_step = optimizer.apply_gradients(grads_and_vars=grads)
for var in tf.trainable_variables():
    tf.summary.histogram(var.name, var)
for grad, var in grads:
    tf.summary.histogram(var.name + "/gradient", grad)
merged = tf.summary.merge_all()

with tf.Session() as sess:
    train_writer = tf.summary.FileWriter(logdir + "/train", sess.graph)
    test_writer = tf.summary.FileWriter(logdir + "/test")
    tf.global_variables_initializer().run()
    feed = {x: data, y_: target, keep_prob: 0.9}
    for i in range(10):
        if i % 5 == 4:
            run_options = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE)
            run_metadata = tf.RunMetadata()
            summary, _ = sess.run(
                [merged, train_step], feed, options=run_options, run_metadata=run_metadata
            )
            train_writer.add_run_metadata(run_metadata, "step%03d" % i)
            train_writer.add_summary(summary, i)
            print("traced", len(run_metadata.step_stats.dev_stats) > 0)
        else:
            summary, _ = sess.run([merged, train_step], feed_dict=feed)
            train_writer.add_summary(summary, i)
    test_writer.add_summary(sess.run(merged, feed), 0)
    value = tf.Summary(value=[tf.Summary.Value(tag="by hand", simple_value=1.5)])
    test_writer.add_summary(value, 1)
    train_writer.close()
    test_writer.close()

kinds, tags = set(), set()
for path in glob.glob(os.path.join(logdir, "train", "events*")):
    for event in tf.train.summary_iterator(path):
        kinds.add(event.WhichOneof("what"))
        for v in event.summary.value:
            tags.add((v.tag, v.WhichOneof("value")))
print(sorted(kinds))
print(len(tags))
for tag, kind in sorted(tags):
    print(tag, kind)

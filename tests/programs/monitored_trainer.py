"""A trainer with MonitoredTrainingSession between a parameter server and workers."""

# ruff: noqa: UP031  (as programs were written for TensorFlow 1)

import argparse

import numpy as np

import sparkflow as tf

parser = argparse.ArgumentParser()
parser.add_argument("--ps_hosts")
parser.add_argument("--worker_hosts")
parser.add_argument("--job_name", choices=("ps", "worker"))
parser.add_argument("--task_index", type=int, default=0)
parser.add_argument("--checkpoint_dir")
parser.add_argument("--steps", type=int, default=50)
FLAGS, unparsed = parser.parse_known_args()


def main(_):
    cluster = tf.train.ClusterSpec(
        {"ps": FLAGS.ps_hosts.split(","), "worker": FLAGS.worker_hosts.split(",")}
    )
    server = tf.train.Server(cluster, job_name=FLAGS.job_name, task_index=FLAGS.task_index)
    if FLAGS.job_name == "ps":
        server.join()
        return
    with tf.device(
        tf.train.replica_device_setter(
            worker_device="/job:worker/task:%d" % FLAGS.task_index, cluster=cluster
        )
    ):
        x = tf.placeholder(tf.float32, [None, 2])
        y = tf.placeholder(tf.float32, [None, 1])
        w = tf.get_variable("w", [2, 1], initializer=tf.zeros_initializer())
        loss = tf.reduce_mean(tf.square(tf.matmul(x, w) - y))
        tf.summary.scalar("loss", loss)
        global_step = tf.train.get_or_create_global_step()
        train_op = tf.train.AdamOptimizer(0.2).minimize(loss, global_step=global_step)

    random = np.random.RandomState(FLAGS.task_index)
    hooks = [tf.train.StopAtStepHook(last_step=FLAGS.steps), tf.train.NanTensorHook(loss)]
    with tf.train.MonitoredTrainingSession(
        master=server.target,
        is_chief=(FLAGS.task_index == 0),
        checkpoint_dir=FLAGS.checkpoint_dir,
        save_checkpoint_steps=20,
        save_summaries_steps=None,
        save_summaries_secs=None,
        hooks=hooks,
        # A late worker does not wait for one that has made all steps and ended.
        config=tf.ConfigProto(device_filters=["/job:ps", "/job:worker/task:%d" % FLAGS.task_index]),
    ) as mon_sess:
        while not mon_sess.should_stop():
            inputs = random.rand(10, 2)
            feed = {x: inputs, y: inputs.dot([[2.0], [-1.0]])}
            mon_sess.run(train_op, feed_dict=feed)
    print("worker %d stopped" % FLAGS.task_index)


if __name__ == "__main__":
    tf.app.run(main=main, argv=[__file__, *unparsed])

"""A between-graph trainer with MonitoredTrainingSession, in any mode of replication."""

# ruff: noqa: UP031  (as programs were written for TensorFlow 1)

import argparse

import numpy as np

import sparkflow as tf

parser = argparse.ArgumentParser()
parser.add_argument("--ps_hosts")
parser.add_argument("--worker_hosts")
parser.add_argument("--job_name", choices=("ps", "worker"))
parser.add_argument("--task_index", type=int, default=0)
parser.add_argument("--mode")
parser.add_argument("--steps", type=int, default=12)
FLAGS, unparsed = parser.parse_known_args()


def replication(rows):
    workers = len(FLAGS.worker_hosts.split(","))
    this = {"replica": FLAGS.task_index, "num_replicas": workers}
    if FLAGS.mode == "sync":
        return tf.train.SyncReplication(weight=rows, **this)
    if FLAGS.mode == "backup":
        return tf.train.SyncReplication(weight=rows, replicas_to_aggregate=workers - 1, **this)
    if FLAGS.mode == "staleness":
        return tf.train.BoundedStaleness(2, **this)
    if FLAGS.mode == "local_sgd":
        return tf.train.LocalSgd(4, weight=rows, **this)
    return tf.train.AsyncReplication(**this)


class LastValues(tf.train.SessionRunHook):
    def __init__(self, fetches):
        self._fetches = fetches

    def end(self, session):
        self.values = session.run(self._fetches)


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
        rows = tf.cast(tf.shape(x)[0], tf.float32)
        strategy = replication(rows)
        global_step = tf.train.get_or_create_global_step()
        with strategy.scope():
            w = tf.get_variable("w", [2, 1], initializer=tf.zeros_initializer())
            loss = tf.reduce_mean(tf.square(tf.matmul(x, w) - y))
            optimizer = tf.train.GradientDescentOptimizer(0.2)
            if FLAGS.mode == "accumulation":
                optimizer = tf.train.GradientAccumulationOptimizer(optimizer, 2, rows)
            train_op = optimizer.minimize(loss, global_step=global_step)

    random = np.random.RandomState(FLAGS.task_index)
    last = LastValues([w, global_step])
    hooks = [
        strategy.make_session_run_hook(),
        tf.train.StopAtStepHook(last_step=FLAGS.steps),
        last,
    ]
    with tf.train.MonitoredTrainingSession(
        master=server.target,
        is_chief=(FLAGS.task_index == 0),
        hooks=hooks,
        # The other worker may have made all steps and ended before this one begins.
        config=tf.ConfigProto(device_filters=["/job:ps", "/job:worker/task:%d" % FLAGS.task_index]),
    ) as mon_sess:
        while not mon_sess.should_stop():
            inputs = random.rand(10 + FLAGS.task_index, 2)
            feed = {x: inputs, y: inputs.dot([[2.0], [-1.0]])}
            mon_sess.run(train_op, feed_dict=feed)
    value, step = last.values
    print("worker %d stopped: %.7f %.7f after %d" % (FLAGS.task_index, *value[:, 0], step))


if __name__ == "__main__":
    tf.app.run(main=main, argv=[__file__, *unparsed])

"""Asynchronous linear regression between a parameter server and workers, with a Supervisor.

The distributed trainer of TensorFlow 1's how-to, one process per task, with its own data.
"""

# ruff: noqa: UP031  (as programs were written for TensorFlow 1)

import numpy as np

import sparkflow as tf

flags = tf.app.flags
flags.DEFINE_string("ps_hosts", "", "Comma-separated list of hostname:port pairs")
flags.DEFINE_string("worker_hosts", "", "Comma-separated list of hostname:port pairs")
flags.DEFINE_string("job_name", "", "One of 'ps', 'worker'")
flags.DEFINE_integer("task_index", 0, "Index of task within the job")
flags.DEFINE_integer("steps", 200, "Number of steps of all workers together")
flags.DEFINE_float("learning_rate", 0.5, "Learning rate")
flags.DEFINE_string("logdir", "", "Where checkpoints and summaries go")
FLAGS = flags.FLAGS


def main(_):
    ps_hosts = FLAGS.ps_hosts.split(",")
    worker_hosts = FLAGS.worker_hosts.split(",")
    cluster = tf.train.ClusterSpec({"ps": ps_hosts, "worker": worker_hosts})
    server = tf.train.Server(cluster, job_name=FLAGS.job_name, task_index=FLAGS.task_index)

    if FLAGS.job_name == "ps":
        server.join()
    elif FLAGS.job_name == "worker":
        device_setter = tf.train.replica_device_setter(
            worker_device="/job:worker/task:%d" % FLAGS.task_index, cluster=cluster
        )
        with tf.device(device_setter):
            x = tf.placeholder(tf.float32, [None], name="x")
            y = tf.placeholder(tf.float32, [None], name="y")
            weight = tf.Variable(tf.zeros([]), name="weight")
            bias = tf.Variable(tf.zeros([]), name="bias")
            loss = tf.reduce_mean(tf.square(x * weight + bias - y))
            global_step = tf.Variable(0, name="global_step", trainable=False)
            train_op = tf.train.AdagradOptimizer(FLAGS.learning_rate).minimize(
                loss, global_step=global_step
            )
            tf.scalar_summary("loss", loss)
            saver = tf.train.Saver()
            init_op = tf.initialize_all_variables()

        sv = tf.train.Supervisor(
            is_chief=(FLAGS.task_index == 0),
            logdir=FLAGS.logdir,
            init_op=init_op,
            summary_op=None,
            saver=saver,
            global_step=global_step,
            recovery_wait_secs=1,
            save_model_secs=600,
        )
        random = np.random.RandomState(FLAGS.task_index)
        with sv.managed_session(server.target) as sess:
            step = 0
            while not sv.should_stop() and step < FLAGS.steps:
                batch = random.rand(20)
                _, step = sess.run([train_op, global_step], feed_dict={x: batch, y: 3 * batch + 1})
            w, b = sess.run([weight, bias])
            print("worker %d done: weight %.2f bias %.2f" % (FLAGS.task_index, w, b))
        sv.stop()


if __name__ == "__main__":
    tf.app.run()

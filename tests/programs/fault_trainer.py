"""A trainer that runs until a file appears, even if its tasks die.

Every step adds one to `steps_seen` as well as to the global step, so both must stay equal.
"""

# ruff: noqa: UP031  (as programs were written for TensorFlow 1)

import os
import signal
import time

import sparkflow as tf

flags = tf.app.flags
flags.DEFINE_string("ps_hosts", "", "Comma-separated list of hostname:port pairs")
flags.DEFINE_string("worker_hosts", "", "Comma-separated list of hostname:port pairs")
flags.DEFINE_string("job_name", "", "One of 'ps', 'worker'")
flags.DEFINE_integer("task_index", 0, "Index of task within the job")
flags.DEFINE_string("logdir", None, "Where checkpoints go")
flags.DEFINE_string("stop_file", "", "The workers stop when this file exists")
flags.DEFINE_boolean("supervisor", False, "Use a Supervisor, not a MonitoredTrainingSession")
flags.DEFINE_boolean("filters", False, "Let workers see the parameter servers and themselves only")
flags.DEFINE_integer("aggregate", 0, "Gradients of a synchronous step; 0 for asynchronous ones")
flags.DEFINE_float("delay", 0.002, "Seconds that a step takes longer")
FLAGS = flags.FLAGS


def model(cluster):
    with tf.device(
        tf.train.replica_device_setter(
            worker_device="/job:worker/task:%d" % FLAGS.task_index, cluster=cluster
        )
    ):
        weights = tf.get_variable("weights", [4], initializer=tf.zeros_initializer())
        loss = tf.reduce_sum(tf.square(weights - 1.0))
        global_step = tf.train.get_or_create_global_step()
        optimizer = tf.train.GradientDescentOptimizer(0.01)
        hooks = []
        if FLAGS.aggregate:
            optimizer = tf.train.SyncReplicasOptimizer(
                optimizer, FLAGS.aggregate, len(FLAGS.worker_hosts.split(","))
            )
            hooks.append(optimizer.make_session_run_hook(FLAGS.task_index == 0))
            seen = global_step
            train_op = optimizer.minimize(loss, global_step=global_step)
        else:
            seen = tf.get_variable(
                "steps_seen", [], tf.int64, tf.zeros_initializer(), trainable=False
            )
            with tf.control_dependencies([optimizer.minimize(loss, global_step=global_step)]):
                train_op = tf.assign_add(seen, 1)
    return train_op, global_step, seen, hooks


def train(sess, should_stop, train_op, global_step, seen):
    step = tick = 0
    while not should_stop() and not os.path.exists(FLAGS.stop_file):
        _, new_step = sess.run([train_op, global_step])
        if new_step < step:
            print("went back from %d to %d" % (step, new_step))
        step, tick = new_step, tick + 1
        if tick % 10 == 0:
            print("step %d" % step)
        time.sleep(FLAGS.delay)
    print("end", *sess.run([global_step, seen]))


def main(_):
    cluster = tf.train.ClusterSpec(
        {"ps": FLAGS.ps_hosts.split(","), "worker": FLAGS.worker_hosts.split(",")}
    )
    tf.logging.set_verbosity(tf.logging.INFO)
    server = tf.train.Server(cluster, job_name=FLAGS.job_name, task_index=FLAGS.task_index)
    if FLAGS.job_name == "ps":
        server.join()
        return
    train_op, global_step, seen, hooks = model(cluster)
    config = tf.ConfigProto()
    if FLAGS.filters:
        config.device_filters.extend(["/job:ps", "/job:worker/task:%d" % FLAGS.task_index])
    is_chief = FLAGS.task_index == 0
    if FLAGS.supervisor:
        sv = tf.train.Supervisor(
            is_chief=is_chief,
            logdir=FLAGS.logdir,
            global_step=global_step,
            save_model_secs=1,
            recovery_wait_secs=1,
        )
        while not os.path.exists(FLAGS.stop_file):
            try:
                with sv.managed_session(server.target, config=config) as sess:
                    train(sess, sv.should_stop, train_op, global_step, seen)
            except (tf.errors.AbortedError, tf.errors.UnavailableError) as error:
                print("lost: %s" % type(error).__name__)
        return
    with tf.train.MonitoredTrainingSession(
        master=server.target,
        is_chief=is_chief,
        config=config,
        hooks=hooks,
        checkpoint_dir=FLAGS.logdir,
        save_checkpoint_steps=20,
        save_summaries_steps=None,
        save_summaries_secs=None,
        stop_grace_period_secs=5,
    ) as sess:
        train(sess, sess.should_stop, train_op, global_step, seen)


if __name__ == "__main__":
    # Shells start background jobs, and therefore these tests, with the signal ignored.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    tf.app.run()

"""Synchronous linear regression between a parameter server and workers.

The twin of linear_regression.py: one update per step from the gradients of all workers.
"""

# ruff: noqa: UP031  (as programs were written for TensorFlow 1)

import numpy as np

import sparkflow as tf

tf.flags.DEFINE_string("ps_hosts", "", "Comma-separated list of hostname:port pairs")
tf.flags.DEFINE_string("worker_hosts", "", "Comma-separated list of hostname:port pairs")
tf.flags.DEFINE_string("job_name", "", "One of 'ps', 'worker'")
tf.flags.DEFINE_integer("task_index", 0, "Index of task within the job")
tf.flags.DEFINE_integer("steps", 20, "Number of steps")
FLAGS = tf.flags.FLAGS


def main(unused_argv):
    cluster = tf.train.ClusterSpec(
        {"ps": FLAGS.ps_hosts.split(","), "worker": FLAGS.worker_hosts.split(",")}
    )
    server = tf.train.Server(cluster, job_name=FLAGS.job_name, task_index=FLAGS.task_index)
    if FLAGS.job_name == "ps":
        server.join()
        return
    is_chief = FLAGS.task_index == 0
    num_workers = len(FLAGS.worker_hosts.split(","))
    with tf.device(tf.train.replica_device_setter(cluster=cluster)):
        x = tf.placeholder(tf.float32, [None])
        y = tf.placeholder(tf.float32, [None])
        weight = tf.get_variable("weight", [], initializer=tf.zeros_initializer())
        bias = tf.get_variable("bias", [], initializer=tf.zeros_initializer())
        loss = tf.reduce_mean(tf.square(x * weight + bias - y))
        global_step = tf.train.get_or_create_global_step()
        optimizer = tf.train.SyncReplicasOptimizer(
            tf.train.GradientDescentOptimizer(0.1),
            replicas_to_aggregate=num_workers,
            total_num_replicas=num_workers,
        )
        train_op = optimizer.minimize(loss, global_step=global_step)
        local_init_op = optimizer.local_step_init_op
        if is_chief:
            local_init_op = optimizer.chief_init_op
        ready_for_local_init_op = optimizer.ready_for_local_init_op
        chief_queue_runner = optimizer.get_chief_queue_runner()
        init_tokens_op = optimizer.get_init_tokens_op(0)
        init_op = tf.global_variables_initializer()
    # Workers begin each step together: one that is ahead may take the other's token and contribute
    # two of the step's gradients, which leaves the other alone in the end.
    with tf.device("/job:ps/task:0"):
        ready = [
            tf.FIFOQueue(num_workers, tf.bool, [()], shared_name="ready_for_%d" % task)
            for task in range(num_workers)
        ]
        say_ready = tf.group(*[queue.enqueue(True) for queue in ready])
        all_ready = ready[FLAGS.task_index].dequeue_many(num_workers)

    sv = tf.train.Supervisor(
        is_chief=is_chief,
        init_op=init_op,
        local_init_op=local_init_op,
        ready_for_local_init_op=ready_for_local_init_op,
        recovery_wait_secs=1,
        global_step=global_step,
    )
    sess = sv.prepare_or_wait_for_session(server.target)
    if is_chief:
        sess.run(init_tokens_op)
        sv.start_queue_runners(sess, [chief_queue_runner])
    # Every worker has its own half of the data, in the same order in every run.
    inputs = np.linspace(0, 1, 8)[FLAGS.task_index :: num_workers]
    for _ in range(FLAGS.steps):
        sess.run(say_ready)
        sess.run(all_ready)
        sess.run(train_op, feed_dict={x: inputs, y: 3 * inputs + 1})
    w, b, step = sess.run([weight, bias, global_step])
    print("worker %d done: weight %.6f bias %.6f step %d" % (FLAGS.task_index, w, b, step))
    sv.stop()


if __name__ == "__main__":
    tf.app.run()

"""MonitoredTrainingSession with hooks, resumed; Supervisor; Scaffold; hand-made hooks."""

import os
import tempfile

import numpy as np

import sparkflow as tf

tf.logging.set_verbosity(tf.logging.ERROR)
folder = tempfile.mkdtemp()


class LossHook(tf.train.SessionRunHook):
    def begin(self):
        self.calls = []

    def after_create_session(self, session, coord):
        self.calls.append("created")

    def before_run(self, run_context):
        self.calls.append("before")
        return tf.train.SessionRunArgs({"loss": loss})

    def after_run(self, run_context, run_values):
        self.last = run_values.results["loss"]
        if self.last < 1e-3:
            run_context.request_stop()

    def end(self, session):
        self.calls.append("end at %d" % session.run(global_step))


x = tf.constant(np.linspace(-1, 1, 20), dtype=tf.float32)
w = tf.Variable(0.0, name="w")
loss = tf.reduce_mean(tf.square(w * x - 2 * x))
global_step = tf.train.get_or_create_global_step()
train_op = tf.train.GradientDescentOptimizer(0.5).minimize(loss, global_step=global_step)
tf.summary.scalar("loss", loss)
for last_step in (5, 12):
    hook = LossHook()
    hooks = [
        tf.train.StopAtStepHook(last_step=last_step),
        tf.train.NanTensorHook(loss),
        tf.train.LoggingTensorHook({"loss": loss}, every_n_iter=2),
        tf.train.StepCounterHook(every_n_steps=3, output_dir=folder),
        hook,
    ]
    with tf.train.MonitoredTrainingSession(
        checkpoint_dir=folder, hooks=hooks, save_checkpoint_steps=4, save_summaries_steps=2
    ) as sess:
        print("starts at", sess.run(global_step))
        while not sess.should_stop():
            sess.run(train_op)
    print("%.6f" % hook.last, hook.calls[0], hook.calls[-1], hook.calls.count("before"))
print(os.path.basename(tf.train.latest_checkpoint(folder)))
print(sorted(name.split(".")[0] for name in os.listdir(folder))[0])

with tf.train.SingularMonitoredSession() as sess:
    print(sess.run(w), sess.raw_session().graph is tf.get_default_graph())
try:
    nan = tf.log(tf.constant(-1.0))
    with tf.train.MonitoredSession(hooks=[tf.train.NanTensorHook(nan)]) as sess:
        sess.run(train_op)
except tf.train.NanLossDuringTrainingError:
    print("NanLossDuringTrainingError")

with tf.Graph().as_default():
    step = tf.train.create_global_step()
    increment = tf.assign_add(step, 1)
    value = tf.get_variable("value", initializer=3.0)
    assign = value.assign(4.0)
    scaffold = tf.train.Scaffold(init_fn=lambda _, s: s.run(assign))
    with tf.train.MonitoredTrainingSession(
        scaffold=scaffold, hooks=[tf.train.StopAtStepHook(num_steps=3)]
    ) as sess:
        while not sess.should_stop():
            sess.run(increment)
        print(scaffold.ready_op is not None)
    sv = tf.train.Supervisor(logdir=tempfile.mkdtemp(), save_model_secs=0, global_step=step)
    with sv.managed_session() as sess:
        while not sv.should_stop():
            if sess.run(increment) >= 5:
                sv.request_stop()
        print("supervised", sess.run([step, value]))
try:
    with tf.Session() as sess:
        sess.run(w)
except tf.errors.FailedPreconditionError as e:
    print("FailedPreconditionError", "uninitialized value w" in e.message)

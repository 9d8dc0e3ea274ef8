"""A task of a plain TensorFlow 1 cluster in a storm, see test_storms.py.

    python storm_program.py --ps_hosts=... --worker_hosts=... --job_name=worker --task_index=0 ...

`--kind=queues`: threads of every worker share a session and queues, an accumulator and variables of
the parameter server; the worker creates a new session whenever it has broken. `--kind=sync`:
training with SyncReplicasOptimizer, whose variables show how often they were updated.

SIGUSR1 cuts one of the process's connections, at random. Lines on stdout: `WRONG` and `HANG` are
failures, `STATE` shows what the process holds (SIGUSR2), `END` the outcome of training.
"""

# ruff: noqa: UP031  (as programs were written for TensorFlow 1)

import contextlib
import faulthandler
import json
import os
import random
import signal
import socket
import sys
import threading
import time

import numpy as np

import sparkflow as tf

flags = tf.app.flags
flags.DEFINE_string("ps_hosts", "", "host:port")
flags.DEFINE_string("worker_hosts", "", "host:port,...")
flags.DEFINE_string("job_name", "", "One of 'ps', 'worker'")
flags.DEFINE_integer("task_index", 0, "Index of task within the job")
flags.DEFINE_integer("life", 0, "How often this task was started before")
flags.DEFINE_string("kind", "queues", "One of 'queues', 'sync'")
flags.DEFINE_string("folder", "", "Where `stop` appears in the end, and where checkpoints go")
FLAGS = flags.FLAGS

SIZE = 3000
LATE_S = 60.0
BROKEN = (
    tf.errors.UnavailableError,
    tf.errors.AbortedError,
    tf.errors.CancelledError,
    RuntimeError,  # the session was closed
)


def say(*words):
    sys.stdout.write(" ".join(map(str, words)) + "\n")
    sys.stdout.flush()


class CtrlC:
    """SIGINT is handled only within its block; elsewhere such a program would end."""

    heard = False

    def __enter__(self):
        CtrlC.heard = True

    def __exit__(self, *_):
        CtrlC.heard = False

    @staticmethod
    def come(*_):
        if CtrlC.heard:
            raise KeyboardInterrupt


def all_tasks():
    workers = FLAGS.worker_hosts.split(",")
    return tf.train.ClusterSpec({"ps": [FLAGS.ps_hosts], "worker": workers})


def is_over():
    return os.path.exists(os.path.join(FLAGS.folder, "stop"))


def sockets():
    """Returns duplicates of the process's connections."""
    for name in os.listdir("/proc/self/fd"):
        try:
            if os.readlink("/proc/self/fd/" + name).startswith("socket:"):
                found = socket.socket(fileno=os.dup(int(name)))
            else:
                continue
        except OSError:
            continue
        try:
            found.getpeername()
        except OSError:
            found.close()
        else:
            yield found


def cut():
    found = list(sockets())
    if found:
        with contextlib.suppress(OSError):
            random.choice(found).shutdown(socket.SHUT_RDWR)
    for each in found:
        each.close()


def tell_state(server):
    names = os.listdir("/proc/self/fd")
    worker = server._server.worker
    state = {
        "descriptors": len(names),
        "threads": threading.active_count(),
        "steps": len(list(worker.rendezvous.running())),
        "sessions": len(list(worker.sessions.handles())),
    }
    say("STATE", json.dumps(state))


class Queues:
    """What the threads of a worker do with one session after another."""

    def __init__(self, target):
        self.target = target
        self.lock = threading.Lock()
        self.session = None
        self.random = random.Random(FLAGS.task_index * 1000 + FLAGS.life)
        self.began = {}
        self.count = 0
        self.asked = 0
        self.heard = 0
        self.ids = os.open(
            os.path.join(FLAGS.folder, "ids"), os.O_CREAT | os.O_APPEND | os.O_WRONLY
        )

    def open(self):
        with self.lock:
            if self.session is None:
                self.build()
                self.session = tf.Session(self.target, graph=self.graph)
            return self.session

    def drop(self, session):
        with self.lock:
            if self.session is session:
                self.session = None
                with contextlib.suppress(tf.errors.OpError):  # its master cannot be reached
                    session.close()

    def build(self):
        self.graph = tf.Graph()
        with self.graph.as_default(), tf.device("/job:ps/task:0"):
            self.x = tf.placeholder(tf.float32, [SIZE])
            self.number = tf.placeholder(tf.int64, [])
            queue = tf.FIFOQueue(5, [tf.int64, tf.float32], [[], [SIZE]], shared_name="queue")
            self.put, self.take = queue.enqueue([self.number, self.x]), queue.dequeue()
            name = "own_%d_%d" % (FLAGS.task_index, FLAGS.life)
            own = tf.FIFOQueue(1000, tf.int64, [[]], shared_name=name)
            with tf.control_dependencies([own.enqueue(self.number)]):
                self.echo = own.dequeue()
            sums = tf.ConditionalAccumulator(tf.float32, [SIZE], shared_name="sums")
            self.give = sums.apply_grad(self.x, local_step=1 << 60)
            self.sum = sums.take_grad(3)
            self.add = self.x + 1.0
            self.never = tf.FIFOQueue(1, tf.int64, [[]], shared_name="never").dequeue()

    def run(self, name, feed=None, timeout_s=None):
        """Runs once; returns None if the run failed, which is noticed in time."""
        thread = threading.current_thread()
        self.began[thread] = time.monotonic(), name
        options = tf.RunOptions(timeout_in_ms=int(timeout_s * 1000)) if timeout_s else None
        session = None
        try:
            session = self.open()
            fed = {getattr(self, key): value for key, value in (feed or {}).items()}
            return session.run(getattr(self, name), fed, options=options)
        except tf.errors.DeadlineExceededError:
            return None
        except BROKEN:
            if session is not None:
                self.drop(session)
            time.sleep(0.1 * self.random.random())
            return None
        finally:
            del self.began[thread]

    def patience(self):
        return self.random.choice([0.01, 0.05, 0.3, 5.0])

    def puts(self):
        self.count += 1
        number = FLAGS.task_index << 44 | FLAGS.life << 30 | self.count
        value = np.full(SIZE, number % 65521, np.float32)
        self.run("put", {"number": number, "x": value}, self.patience())

    def takes(self):
        found = self.run("take", None, self.patience())
        if found is not None:
            number, value = found
            if not (value == number % 65521).all():
                say("WRONG element", number, np.unique(value)[:3])
            os.write(self.ids, b"%d\n" % number)

    def echoes(self):
        self.asked += 1
        found = self.run("echo", {"number": self.asked}, self.patience())
        if found is not None:
            if not self.heard < found <= self.asked:
                say("WRONG echo", found, self.heard, self.asked)
            self.heard = int(found)

    def gives(self):
        self.run("give", {"x": np.full(SIZE, self.random.randrange(1000), np.float32)})

    def sums(self):
        found = self.run("sum", None, self.patience())
        if found is not None and not (found == found[0]).all():
            say("WRONG sum", np.unique(found)[:3])

    def adds(self):
        value = self.random.randrange(1 << 20)
        found = self.run("add", {"x": np.full(SIZE, value, np.float32)})
        if found is not None and not (found == value + 1).all():
            say("WRONG result", np.unique(found)[:3], value)

    def closes(self):
        """Tests a queue that is closed while others wait at it, or whose session is closed."""
        self.began[threading.current_thread()] = time.monotonic(), "closes"
        graph = tf.Graph()
        with graph.as_default(), tf.device("/job:ps/task:0"):
            queue = tf.FIFOQueue(2, tf.int64, [[]])
            waiting = [queue.enqueue(7), queue.dequeue(), queue.dequeue_many(4)]
            close = queue.close(cancel_pending_enqueues=self.random.random() < 0.5)

        def repeat(fetch):
            try:
                while True:
                    session.run(fetch)
            except (tf.errors.OpError, RuntimeError):
                pass

        threads = []
        try:
            with tf.Session(self.target, graph=graph) as session:
                for fetch in waiting:
                    threads.append(threading.Thread(target=repeat, args=(fetch,), daemon=True))
                    threads[-1].start()
                time.sleep(0.1 * self.random.random())
                if self.random.random() < 0.8:
                    session.run(close)
        except tf.errors.OpError:
            pass
        for thread in threads:
            thread.join(LATE_S)
            if thread.is_alive():
                hang("closes")
        del self.began[threading.current_thread()]
        time.sleep(0.1)

    def watches(self):
        time.sleep(1)
        for began, name in list(self.began.values()):
            if time.monotonic() - began > LATE_S:
                hang(name)

    def serve(self):
        def repeat(act):
            try:
                while not is_over():
                    act()
            except BaseException as error:
                say("WRONG error", repr(error))
                raise

        acts = (self.puts, self.takes, self.echoes, self.gives, self.sums, self.adds)
        threads = [
            threading.Thread(target=repeat, args=(act,), daemon=True)
            for act in (*acts, self.closes, self.watches)
        ]
        for thread in threads:
            thread.start()
        while not is_over():
            with contextlib.suppress(KeyboardInterrupt), CtrlC():
                self.run("never", None, 2.0)
        for thread in threads:
            thread.join(LATE_S)
            if thread.is_alive():
                hang(thread.name)
        if self.session is not None:
            self.session.close()


def hang(what):
    say("HANG", what)
    faulthandler.dump_traceback(sys.stdout, all_threads=True)
    os._exit(1)


def train(target):
    """Each update subtracts 1 from `count`, and a number from all elements of `values`."""
    tf.reset_default_graph()
    cluster = all_tasks()
    mine = "/job:worker/task:%d" % FLAGS.task_index
    with tf.device(tf.train.replica_device_setter(worker_device=mine, cluster=cluster)):
        count = tf.get_variable("count", [], initializer=tf.zeros_initializer())
        values = tf.get_variable("values", [20000], initializer=tf.zeros_initializer())
        factor = tf.placeholder(tf.float32, [])
        step = tf.train.get_or_create_global_step()
        optimizer = tf.train.SyncReplicasOptimizer(
            tf.train.GradientDescentOptimizer(1.0), 2, len(cluster.job_tasks("worker"))
        )
        update = optimizer.minimize(count + tf.reduce_sum(values * factor), step)
        hook = optimizer.make_session_run_hook(FLAGS.task_index == 0)
    with tf.train.MonitoredTrainingSession(
        target,
        is_chief=FLAGS.task_index == 0,
        hooks=[hook],
        config=tf.ConfigProto(device_filters=["/job:ps", mine]),
        checkpoint_dir=os.path.join(FLAGS.folder, "model"),
        save_checkpoint_steps=200,
        save_summaries_steps=None,
        save_summaries_secs=None,
        stop_grace_period_secs=5,
    ) as session:
        while not is_over():
            _, done = session.run([update, step], {factor: random.randrange(1, 5)})
            say("STEP", done)
        if FLAGS.task_index == 0:
            found = session.run([count, values, step])
            say("END", json.dumps([float(found[0]), len(set(found[1].tolist())), int(found[2])]))


def main(_):
    cluster = all_tasks()
    signal.signal(signal.SIGUSR1, lambda *_: threading.Thread(target=cut, daemon=True).start())
    server = tf.train.Server(cluster, job_name=FLAGS.job_name, task_index=FLAGS.task_index)
    signal.signal(
        signal.SIGUSR2,
        lambda *_: threading.Thread(target=tell_state, args=(server,), daemon=True).start(),
    )
    say("UP")
    if FLAGS.job_name == "ps":
        server.join()
    elif FLAGS.kind == "queues":
        Queues(server.target).serve()
    else:
        while not is_over():
            try:
                with CtrlC():
                    train(server.target)
            except (tf.errors.OpError, KeyboardInterrupt) as error:
                say("AGAIN", type(error).__name__)
                time.sleep(0.2)
    say("DONE")


if __name__ == "__main__":
    signal.signal(signal.SIGINT, CtrlC.come)
    faulthandler.enable()
    tf.app.run()

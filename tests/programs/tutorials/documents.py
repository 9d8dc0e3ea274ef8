"""The examples in distributed TensorFlow's documentation, in one process with local servers."""

import socket

import numpy as np

import sparkflow as tf

c = tf.constant("Hello, distributed TensorFlow!")
server = tf.train.Server.create_local_server()
sess = tf.Session(server.target)
print(
    sess.run(c),
    server.target.startswith(b"grpc://" if isinstance(server.target, bytes) else "grpc://"),
)
sess.close()

cluster = tf.train.ClusterSpec(
    {
        "worker": ["worker0.example.com:2222", "worker1.example.com:2222"],
        "ps": ["ps0.example.com:2222", "ps1.example.com:2222"],
    }
)
print(cluster.jobs, cluster.num_tasks("worker"), cluster.task_indices("ps"))
print(cluster.as_dict())
print(cluster.job_tasks("ps"), cluster.task_address("worker", 1), bool(cluster))
print(tf.train.ClusterSpec({"worker": {1: "w1:2222"}}).as_dict())
print(cluster == tf.train.ClusterSpec(cluster.as_cluster_def()))
print(str(tf.train.ClusterSpec({"local": ["localhost:2222"]}).as_cluster_def()).split())

with tf.Graph().as_default() as graph:
    with tf.device("/job:ps/task:0"):
        weights_1 = tf.Variable(tf.zeros([4]), name="w1")
    with tf.device("/job:worker/task:7"):
        y = weights_1 * 2
    print(weights_1.device, y.device)
    with tf.device(tf.train.replica_device_setter(ps_tasks=3)):
        variables = [tf.Variable(0.0, name="v%d" % i) for i in range(4)]
        total = tf.add_n(variables)
    print([v.device for v in variables], repr(total.device))
    with tf.device(
        tf.train.replica_device_setter(cluster=cluster, worker_device="/job:worker/task:1")
    ):
        v = tf.get_variable("v", [2])
        z = v + 1
    print(v.device, z.device)
    definition = v.to_proto()
    print(definition.variable_name, definition.initializer_name, definition.snapshot_name)
    print(tf.Variable.from_proto(definition).name)

sockets = [socket.socket() for _ in range(2)]
for each in sockets:
    each.bind(("127.0.0.1", 0))
hosts = ["localhost:%d" % each.getsockname()[1] for each in sockets]
for each in sockets:
    each.close()
local = tf.train.ClusterSpec({"local": hosts})
servers = [tf.train.Server(local, job_name="local", task_index=i) for i in range(2)]
with tf.Graph().as_default():
    x = tf.placeholder(tf.float32, 100)
    with tf.device("/job:local/task:1"):
        first_batch = tf.slice(x, [0], [50])
        mean1 = tf.reduce_mean(first_batch)
    with tf.device("/job:local/task:0"):
        second_batch = tf.slice(x, [50], [-1])
        mean2 = tf.reduce_mean(second_batch)
        mean = (mean1 + mean2) / 2
    parts = tf.split(0, 2, x) if tf.__version__ < "1" else tf.split(x, 2, 0)
    sums = []
    for i in range(2):
        with tf.device("/job:local/task:%d" % i):
            sums.append(tf.reduce_sum(parts[i]))
    with tf.Session(servers[0].target) as sess:
        print(sess.run([mean, tf.add_n(sums)], feed_dict={x: np.arange(100)}))
        print([d.name for d in sess.list_devices() if "CPU" in d.name])
    counter = tf.Variable(0, name="counter")
    add = tf.assign(counter, counter + 1)
    with tf.Session(servers[1].target) as one:
        one.run(tf.global_variables_initializer())
        one.run(add)
        with tf.Session(servers[1].target) as other:
            print("shared", other.run(add))
    options = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE)
    metadata = tf.RunMetadata()
    with tf.Session(servers[0].target) as sess:
        sess.run(mean, {x: np.ones(100)}, options=options, run_metadata=metadata)
    print(
        sorted({d.device.split("/")[3] for d in metadata.step_stats.dev_stats if "CPU" in d.device})
    )

g1, g2 = tf.Graph(), tf.Graph()
with g1.as_default():
    a = tf.constant(1.0, name="same")
with g2.as_default():
    b = tf.constant(2.0, name="same")
with tf.Session(graph=g1) as s1, tf.Session(graph=g2) as s2:
    print(a.name == b.name, s1.run("same:0"), s2.run("same:0"))

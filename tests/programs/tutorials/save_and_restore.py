"""Saver, import_meta_graph, freezing by constants and import_graph_def."""

import os
import tempfile

import numpy as np

import sparkflow as tf

folder = tempfile.mkdtemp()
path = os.path.join(folder, "model.ckpt")
v1 = tf.get_variable("v1", shape=[3], initializer=tf.zeros_initializer)
v2 = tf.get_variable("v2", shape=[5], initializer=tf.zeros_initializer)
inc_v1 = v1.assign(v1 + 1)
dec_v2 = v2.assign(v2 - 1)
init_op = tf.global_variables_initializer()
saver = tf.train.Saver()
with tf.Session() as sess:
    sess.run(init_op)
    inc_v1.op.run()
    dec_v2.op.run()
    save_path = saver.save(sess, path)
    print("saved", save_path == path, os.path.exists(path + ".meta"))

tf.reset_default_graph()
v1 = tf.get_variable("v1", shape=[3])
v2 = tf.get_variable("v2", [5], initializer=tf.zeros_initializer)
saver = tf.train.Saver({"v2": v2})
with tf.Session() as sess:
    sess.run(tf.variables_initializer([v1]))
    saver.restore(sess, path)
    print("restored", v2.eval())
    print([v.decode() for v in sess.run(tf.report_uninitialized_variables())])

print(sorted(tf.train.list_variables(path)))
reader = tf.train.NewCheckpointReader(path)
print(reader.get_tensor("v1"), reader.get_variable_to_shape_map()["v2"], reader.has_tensor("v3"))

tf.reset_default_graph()
x = tf.placeholder(tf.float32, [None, 2], name="x")
w = tf.Variable([[1.0], [2.0]], name="w")
b = tf.Variable(tf.constant([0.5]), name="b")
y = tf.add(tf.matmul(x, w), b, name="y")
tf.add_to_collection("outputs", y)
global_step = tf.Variable(0, name="global_step", trainable=False)
train = tf.train.AdamOptimizer(0.1).minimize(tf.reduce_sum(y), global_step, name="train")
saver = tf.train.Saver(max_to_keep=2)
with tf.Session() as sess:
    sess.run(tf.global_variables_initializer())
    for i in range(4):
        sess.run(train, {x: [[1, 1]]})
        saver.save(sess, os.path.join(folder, "my-model"), global_step=global_step)
    expected = sess.run(y, {x: [[3, 4]]})
print([os.path.basename(p) for p in saver.last_checkpoints])
latest = tf.train.latest_checkpoint(folder)
state = tf.train.get_checkpoint_state(folder)
print(os.path.basename(latest), latest == state.model_checkpoint_path)

tf.reset_default_graph()
with tf.Session() as sess:
    saver = tf.train.import_meta_graph(latest + ".meta")
    saver.restore(sess, latest)
    graph = tf.get_default_graph()
    out = tf.get_collection("outputs")[0]
    print("same", np.array_equal(sess.run(out, {"x:0": [[3, 4]]}), expected))
    sess.run("train", {"x:0": [[1, 1]]})
    print("step", sess.run(graph.get_tensor_by_name("global_step:0")))
    saver.restore(sess, latest)
    frozen = tf.graph_util.convert_variables_to_constants(sess, graph.as_graph_def(), ["y"])
    with tf.gfile.GFile(os.path.join(folder, "frozen.pb"), "wb") as f:
        f.write(frozen.SerializeToString())
    print(sorted(n.name for n in frozen.node))
    tf.train.write_graph(graph.as_graph_def(), folder, "graph.pbtxt")

with tf.Graph().as_default() as graph:
    graph_def = tf.GraphDef()
    with tf.gfile.FastGFile(os.path.join(folder, "frozen.pb"), "rb") as f:
        graph_def.ParseFromString(f.read())
    fed = tf.placeholder(tf.float32, [None, 2])
    (out,) = tf.import_graph_def(
        graph_def, input_map={"x:0": fed}, return_elements=["y:0"], name="imported"
    )
    print(out.name, [o.type for o in graph.get_operations()][:2])
    with tf.Session() as sess:
        print("frozen", np.array_equal(sess.run(out, {fed: [[3, 4]]}), expected))
try:
    with tf.Session(graph=tf.Graph()) as sess, sess.graph.as_default():
        tf.Variable(1.0, name="missing")
        tf.train.Saver().restore(sess, latest)
except tf.errors.NotFoundError as e:
    print("NotFoundError", "missing" in str(e))

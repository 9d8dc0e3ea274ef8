"""Writes tests/golden/front_end/*.json: what TensorFlow 1 builds, prints and computes.

Run with a Python that has TensorFlow; tests replay the files without it:

    /work/venvs/oracle/bin/python scripts/generate_front_end_golden.py

Every entry is a line of Python that means the same to `tensorflow.compat.v1` and to sparkflow:

- `graphs.json`: a statement, and the nodes it adds (name, type, inputs, control inputs,
  device, colocation);
- `values.json`: an expression, its value, and its gradients;
- `prints.json`: an expression, and its `repr` or the exception it raises.
"""

# ruff: noqa: E501  (one entry per line, whatever its length)

import json
import os
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np
import tensorflow.compat.v1 as tf

DIRECTORY = Path(__file__).parents[1] / "tests" / "golden" / "front_end"

GRAPH_PREAMBLE = """
x = tf.placeholder(tf.float32, [None, 3], name="x")
u = tf.placeholder(tf.float32, name="u")
w = tf.Variable(tf.zeros([3, 2]), name="w")
i = tf.constant([1, 2], name="i")
b = tf.constant([True, False], name="b")
"""

STATEMENTS = """
x + 1
1 + x
x - x
x * 2.0
x / 2.0
x // 2.0
x % 2.0
x ** 2.0
-x
abs(x)
x < 1.0
x >= x
x[0]
x[:, 1]
x[..., tf.newaxis, -1]
x @ w
i / 2
2 / i
i // 2
~b
b & b
b | b
b ^ b
w + 1.0
tf.add(x, 1)
tf.add(w, w, name="sum")
tf.add(1, 2, name="foo")
tf.add(2.0, x)
tf.add("a", "b")
tf.abs([1.0, 2.0], name="foo")
tf.abs([1.0, 2.0])
tf.divide(1.0, 2.0, name="foo")
tf.divide(2.0, x)
tf.truediv(2.0, x)
tf.div(1.0, 2.0, name="foo")
tf.cast([1.0], tf.int32, name="foo")
tf.cast(1, tf.float32)
tf.reduce_sum([[1.0, 2.0]], axis=0, name="foo")
tf.reduce_max([[1.0, 2.0]], axis=[0])
tf.logical_xor(True, False, name="foo")
tf.nn.softmax([1.0, 2.0], name="foo")
tf.zeros_like([1.0, 2.0], name="foo")
tf.shape([1.0, 2.0], name="foo")
tf.size([1.0, 2.0])
tf.rank([1.0, 2.0])
tf.stack([1.0, 2.0], name="foo")
tf.stack([1.0, x[0, 0]], name="foo")
tf.unstack([1.0, 2.0], name="foo")
tf.where([True], name="foo")
tf.where([True], [1.0], [2.0], name="foo")
tf.random_shuffle([1.0], name="foo")
tf.strings.join(["a", "b"], name="foo")
tf.identity_n([1.0, 2.0], name="foo")
tf.conj([1.0], name="foo")
tf.convert_to_tensor([1.0, x[0, 0]], name="foo")
tf.matrix_diag([1.0], name="foo")
tf.multiply(x, x)
tf.subtract(x, 1)
tf.divide(x, 2)
tf.div(x, 2)
tf.truediv(i, 2)
tf.add_n([x, x])
tf.reduce_sum(x)
tf.reduce_sum(u)
tf.reduce_mean(x, 1)
tf.reduce_max(x, axis=[0, 1], keepdims=True)
tf.reduce_min(x, reduction_indices=[0])
tf.reduce_all(b)
tf.argmax(x, 1)
tf.equal(x, 1)
tf.not_equal(x, 1)
tf.cast(x, tf.int32)
tf.cast(x, tf.float32)
tf.reshape(x, [-1])
tf.transpose(x)
tf.transpose(u)
tf.shape(x)
tf.shape(i)
tf.rank(x)
tf.size(x)
tf.concat([x, x], 1)
tf.concat([x], 1)
tf.stack([x, x])
tf.unstack(i)
tf.split(w, 3)
tf.split(x, [1, 2], 1)
tf.zeros([2, 3])
tf.ones([2, 3])
tf.zeros([100, 100])
tf.zeros_like(x)
tf.zeros_like(i)
tf.ones_like(x)
tf.fill([2], 1.0)
tf.range(5)
tf.random_normal([2, 3])
tf.truncated_normal([2, 3])
tf.random_uniform([2, 3])
tf.random_uniform([2], -1.0, 1.0)
tf.random_uniform([2], 0, 10, tf.int32)
tf.nn.relu(x)
tf.nn.softmax(x)
tf.nn.log_softmax(x)
tf.nn.bias_add(x, [1.0, 2.0, 3.0])
tf.nn.l2_loss(x)
tf.nn.moments(x, [0])
tf.nn.embedding_lookup(w, [0, 1])
tf.nn.l2_normalize(x, 1)
tf.nn.in_top_k(x, [0], 1)
tf.nn.sigmoid(x)
tf.nn.elu(x)
tf.nn.leaky_relu(x)
tf.gather(w, [0])
tf.gather_nd(x, [[0, 0]])
tf.one_hot(i, 3)
tf.squeeze(x[:, :1])
tf.expand_dims(x, 0)
tf.tile(x, [1, 2])
tf.where(x > 0, x, x)
tf.pad(x, [[0, 0], [1, 1]])
tf.slice(x, [0, 0], [1, 1])
tf.reverse(x, [0])
tf.cumsum(x)
tf.logical_and(b, b)
tf.minimum(x, 1)
tf.maximum(x, 1.0)
tf.squared_difference(x, 1.0)
tf.unsorted_segment_sum(x, [0], 2)
tf.count_nonzero(x)
tf.clip_by_value(x, 0, 1)
tf.matmul(x, w, name="mm")
tf.matmul(tf.zeros([2, 3, 4]), tf.zeros([2, 4, 5]))
tf.group(x, w.initializer)
tf.group()
tf.tuple([x, x])
tf.no_op()
tf.identity(x)
tf.stop_gradient(x)
tf.placeholder_with_default(1.0, [])
tf.assign(w, w)
tf.assign_add(w, w)
w.assign_sub(w)
tf.scatter_add(w, [0], [[1.0, 2.0]])
tf.is_variable_initialized(w)
tf.global_variables_initializer()
tf.Variable(1.0)
tf.Variable(lambda: tf.zeros([2]), name="made")
tf.Variable([1, 2], trainable=False, name="counter")
tf.get_variable("q", [3])
tf.get_variable("q", [3], initializer=tf.zeros_initializer())
tf.get_variable("q", initializer=[1.0, 2.0])
tf.get_variable("q", [3], initializer=tf.truncated_normal_initializer(stddev=0.1))
tf.get_variable("q", [2], tf.int32)
tf.train.get_or_create_global_step()
tf.constant([1.0, 2.0], shape=[4])
with tf.name_scope("a"): x + 1; x + 1; tf.get_variable("v", [2])
with tf.name_scope("a"), tf.name_scope("b"): tf.constant(1.0); tf.constant(2.0, name="c")
with tf.name_scope("a") as s: pass; tf.constant(1.0, name=s)
with tf.name_scope("a"), tf.name_scope(None): tf.constant(1.0)
with tf.variable_scope("s"): tf.get_variable("v", [2]); tf.constant(1.0)
with tf.variable_scope("s") as s: tf.get_variable("v", [2]); s.reuse_variables(); tf.get_variable("v") + 1.0
with tf.variable_scope("s"), tf.variable_scope("t"): tf.get_variable("v", [2]); x + x
with tf.variable_scope(None, "d"): tf.get_variable("v", [2])
with tf.control_dependencies([x]): x + 1; tf.identity(u)
with tf.control_dependencies([x]), tf.control_dependencies([u]): y = x * x; y + u
with tf.control_dependencies([x]), tf.control_dependencies(None): tf.constant(1.0)
with tf.control_dependencies([x]): tf.Variable(2.0, name="free")
with tf.device("/job:ps/task:1"): tf.constant(1.0)
with tf.device("/job:ps"), tf.device("/task:3/cpu:0"): tf.constant(1.0)
with tf.device("/job:ps"), tf.device("/job:worker/gpu:1"): tf.constant(1.0)
with tf.device("/job:ps"), tf.device(None): tf.constant(1.0)
with tf.device("/job:ps"), tf.device(lambda op: "/task:1"): tf.constant(1.0)
with tf.device(lambda op: "/job:a/task:2"), tf.device("/cpu:0"): tf.constant(1.0)
with tf.device("/job:ps/task:1"): v = tf.Variable(1.0, name="v")
with tf.device("/job:ps/task:1"): v = tf.get_variable("v", [2])
with tf.device("/gpu:0"), tf.colocate_with(w): tf.constant(1.0)
with tf.device("/job:ps/task:1"): v = tf.Variable(1.0, name="v"); tf.group(v.initializer, x)
with tf.device(tf.train.replica_device_setter(ps_tasks=3)): [tf.Variable(tf.zeros([2]), name=n) for n in ("w0", "b0", "w1", "b1")]
with tf.device(tf.train.replica_device_setter(2, worker_device="/job:worker/task:7")): tf.get_variable("v", [2]) + 1.0
with tf.device(tf.train.replica_device_setter(2, "/job:ps/cpu:0", "/job:worker/gpu:0")): tf.get_variable("v", [2]) + 1.0; tf.train.get_or_create_global_step()
with tf.device(tf.train.replica_device_setter(cluster={"ps": ["a:1", "b:1"], "worker": ["c:1"]}, ps_ops=["Const"])): [tf.Variable(1.0) for _ in range(3)]
with tf.device(tf.train.replica_device_setter(ps_tasks=0)): tf.Variable(1.0)
with tf.device(tf.train.replica_device_setter(3, ps_strategy=lambda op: 2)), tf.device("/cpu:0"): tf.Variable(1.0)
tf.train.AdamOptimizer(0.1).apply_gradients([(tf.ones([3, 2]), w)])
tf.train.AdamOptimizer(0.1, name="A").apply_gradients([(tf.ones([3, 2]), w)], tf.train.get_or_create_global_step())
tf.train.MomentumOptimizer(0.1, 0.9).apply_gradients([(tf.ones([3, 2]), w)])
tf.train.GradientDescentOptimizer(0.1).apply_gradients([(tf.ones([3, 2]), w)])
tf.train.AdagradOptimizer(0.1).apply_gradients([(tf.ones([3, 2]), w)])
tf.train.AdagradOptimizer(0.1).apply_gradients([(tf.IndexedSlices(tf.ones([2, 2]), i), w)])
tf.train.GradientDescentOptimizer(0.1).apply_gradients([(tf.IndexedSlices(tf.ones([2, 2]), i), w)])
with tf.device(tf.train.replica_device_setter(2)): v = tf.get_variable("v", [2]); tf.train.AdamOptimizer(0.1).apply_gradients([(tf.ones([2]), v)], tf.train.get_or_create_global_step())
"""

VALUE_PREAMBLE = """
rng = np.random.RandomState(0)
x = tf.constant(rng.randn(16, 5).astype("f"))
img = tf.constant(rng.randn(2, 6, 6, 3).astype("f"))
k = tf.constant((rng.randn(3, 3, 3, 4) * 0.3).astype("f"))
z = tf.constant((rng.rand(16, 5) > 0.5).astype("f"))
labels = rng.randint(0, 5, 16).astype(np.int32)
oh = tf.one_hot(labels, 5)
"""

EXPRESSIONS = """
tf.nn.sigmoid_cross_entropy_with_logits(labels=z, logits=x)
tf.nn.weighted_cross_entropy_with_logits(labels=z, logits=x, pos_weight=3.0)
tf.nn.softmax_cross_entropy_with_logits(labels=oh, logits=x)
tf.nn.softmax_cross_entropy_with_logits_v2(labels=oh, logits=x)
tf.nn.softmax_cross_entropy_with_logits(labels=tf.reshape(oh, [2, 8, 5]), logits=tf.reshape(x, [2, 8, 5]))
tf.nn.softmax_cross_entropy_with_logits_v2(labels=tf.transpose(oh), logits=tf.transpose(x), axis=0)
tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=x)
tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels.reshape(2, 8), logits=tf.reshape(x, [2, 8, 5]))
tf.nn.conv2d(img, k, [1, 2, 2, 1], "SAME")
tf.nn.max_pool(img, [1, 2, 2, 1], [1, 2, 2, 1], "VALID")
tf.nn.avg_pool(img, [1, 3, 3, 1], [1, 2, 2, 1], "SAME")
tf.nn.l2_normalize(x, 1)
tf.nn.moments(x, [0])[0]
tf.nn.moments(x, [0], keep_dims=True)[1]
tf.nn.batch_normalization(x, tf.constant([0.1] * 5), tf.constant([2.0] * 5), tf.constant([1.0] * 5), tf.constant([3.0] * 5), 1e-3)
tf.nn.top_k(x, 2).values
tf.nn.in_top_k(x, labels, 2)
tf.nn.log_softmax(x)
tf.nn.softmax(x, 0)
tf.nn.elu(x)
tf.nn.leaky_relu(x)
tf.nn.selu(x)
tf.nn.relu6(x * 5)
tf.nn.softplus(x)
tf.nn.softsign(x)
tf.nn.zero_fraction(z)
tf.nn.xw_plus_b(x, tf.ones([5, 2]), [1.0, 2.0])
tf.nn.embedding_lookup(x, [[1, 2], [1, 3]])
tf.nn.embedding_lookup(x, [1, 1, 3], max_norm=1.0)
tf.nn.dropout(x, keep_prob=1.0)
tf.losses.mean_squared_error(z, x, weights=2.0)
tf.losses.absolute_difference(z, x)
tf.losses.log_loss(z, tf.sigmoid(x))
tf.losses.sparse_softmax_cross_entropy(labels, x)
tf.losses.sparse_softmax_cross_entropy(labels.reshape(-1, 1), x, weights=np.arange(16.0))
tf.losses.softmax_cross_entropy(oh, x, label_smoothing=0.1)
tf.losses.sigmoid_cross_entropy(z, x, label_smoothing=0.1, reduction=tf.losses.Reduction.SUM)
tf.losses.sigmoid_cross_entropy(z, x, reduction=tf.losses.Reduction.MEAN, weights=0.5)
tf.losses.mean_squared_error(z, x, weights=[[1.0, 0.0, 2.0, 0.0, 1.0]], reduction=tf.losses.Reduction.SUM_OVER_BATCH_SIZE)
tf.reduce_logsumexp(x, 1)
tf.reduce_logsumexp(x)
tf.clip_by_norm(x, 2.0)
tf.clip_by_norm(x, 1.0, axes=[1])
tf.clip_by_value(x, -0.5, 0.5)
tf.clip_by_global_norm([x, x * 2], 3.0)[0][1]
tf.global_norm([x, None, x])
x[1:-1:2, ::-1]
x[..., tf.newaxis, 0]
x[-1]
x[tf.constant(2), 1:]
x[2][1]
tf.tensordot(img, k[0, 0], 1)
tf.tensordot(img, tf.ones([3, 6, 4]), [[1, 3], [1, 0]])
tf.boolean_mask(x, labels > 0)
tf.boolean_mask(x, x > 0)
tf.cumsum(x, 1, exclusive=True, reverse=True)
tf.norm(x, axis=1)
tf.norm(x, ord=1)
tf.norm(x, ord=np.inf, axis=0)
tf.cast(tf.logical_xor(x > 0, z > 0), tf.float32)
tf.abs(x) ** 1.5
tf.constant([7, -7]) / tf.constant([2, 2])
3 / tf.constant([7, -7])
tf.constant([7, -7]) // 2
tf.constant([7, -7]) % 3
tf.div(tf.constant([7, -7]), 2)
tf.div_no_nan(x, z)
2.0 / x
1 - x
tf.meshgrid(tf.range(3), tf.range(4))[0]
tf.meshgrid(tf.range(3), tf.range(4), indexing="ij")[1]
tf.pad(x, [[1, 0], [0, 2]], constant_values=3.0)
tf.pad(x, [[1, 0], [0, 2]], "REFLECT")
tf.transpose(img, [0, 3, 1, 2])
tf.gather_nd(x, [[1, 2], [3, 4]])
tf.gather(x, [3, 1, 3], axis=1)
tf.count_nonzero(z, 1)
tf.split(x, [2, 3], 1)[1]
tf.unstack(x, axis=1)[3]
tf.tile(x, [2, 1])
tf.where(x > 0, x, -x)
tf.where(x > 1.5)
tf.unique([3, 1, 3]).idx
tf.argmax(x, 1)
tf.argmin(x, 0, output_type=tf.int32)
tf.round(x * 3)
tf.linspace(0.0, 1.0, 5)
tf.saturate_cast(x * 200, tf.int8)
tf.eye(3, 4)
tf.matmul(img, tf.transpose(img, [0, 1, 3, 2]))
tf.matmul(x, x, transpose_a=True)
tf.range(3, 18, 3)
tf.range(0.0, 1.0, 0.25)
tf.one_hot([1, -1], 3, on_value=5, off_value=2, axis=0)
tf.constant([1, 2], shape=[5])
tf.expand_dims(x, -1) * tf.ones([3])
tf.squeeze(tf.ones([1, 2, 1]), [0])
tf.segment_sum(x, [0] * 8 + [1] * 8)
tf.scalar_mul(2.0, x)
tf.saturate_cast(tf.constant([300, -300]), tf.uint8)
"""

PRINT_PREAMBLE = """
x = tf.placeholder(tf.float32, [None, 3], name="x")
u = tf.placeholder(tf.float32, name="u")
w = tf.Variable(tf.zeros([3, 2]), name="w")
c = tf.train.ClusterSpec({"worker": ["w0:1", "w1:1"], "ps": ["p0:1"]})
s = tf.train.ClusterSpec({"worker": {1: "w1:2222", 3: "w3:1"}})
S = tf.TensorShape
D = tf.Dimension
"""

PRINTS = """
x
str(x)
u
str(u)
w
w.op
w.dtype
tf.float32
str(tf.float32)
x.shape
str(x.shape)
u.shape
x.get_shape().as_list()
u.shape.as_list()
x.shape[1]
x.shape[1].value
x.shape[1:]
u.shape[0]
len(u.shape)
S([2, 3]).num_elements()
S([None, 3]).num_elements()
S([2, None]).merge_with([None, 3])
S([2, 3]).merge_with([3, 3])
S([2, 3]).concatenate([4])
S([2, 3]).is_compatible_with([None, 3])
S([2, 3]).is_compatible_with([2])
S(None).ndims
S(None) == S(None)
S([2]) == [2]
S([2, 3]).with_rank(3)
S([2, 3]).with_rank_at_least(3)
S(None).with_rank(2)
S([2, None]).assert_is_fully_defined()
S([2, 3]).assert_is_compatible_with([2, 4])
S([2, 3]).as_list()
S([2, 3])[-1]
S([2, 3])[0:1]
bool(S([]))
bool(S(None))
S([-1])
S(["a"])
D(3)
str(D(None))
D(3) + 2
D(None) * 2
D(3) == 3
D(3) == D(None)
D(3) < 4
D(4) // 3
10 - D(4)
int(D(3))
D(3).merge_with(D(None))
D(3).is_compatible_with(4)
D(3).merge_with(4)
D(-1)
c
str(c)
c.as_dict()
c.jobs
c.num_tasks("worker")
c.num_tasks("x")
c.task_indices("ps")
c.task_indices("x")
c.task_address("worker", 1)
c.task_address("worker", 5)
c.task_address("x", 0)
c.job_tasks("worker")
c.job_tasks("x")
s
s.as_dict()
s.num_tasks("worker")
s.task_indices("worker")
s.task_address("worker", 1)
s.task_address("worker", 0)
s.job_tasks("worker")
bool(c)
bool(tf.train.ClusterSpec({}))
c == tf.train.ClusterSpec(c.as_cluster_def())
c == tf.train.ClusterSpec({"worker": ["w0:1", "w1:1"]})
c == c.as_dict()
str(c.as_cluster_def())
str(s.as_cluster_def())
tf.train.ClusterSpec({"w": "a:1"})
tf.train.ClusterSpec({"w": [1]})
tf.train.ClusterSpec(["a"])
tf.train.ClusterSpec({1: ["a"]})
tf.train.ClusterSpec({"w": {0: "a:1"}}).as_dict()
tf.train.ClusterSpec({"w": []})
tf.train.replica_device_setter(cluster=3)
tf.train.replica_device_setter(0)
tf.constant(1.5).dtype
tf.constant(1).dtype
tf.constant(2**40).dtype
tf.constant(True).dtype
tf.constant("a").dtype
tf.constant(1j).dtype
tf.constant(np.float64(1.0)).dtype
tf.constant([np.float64(1.0)]).dtype
tf.constant(np.array([1.0])).dtype
tf.constant([1, 2.5]).dtype
tf.constant([]).dtype
tf.constant(1, tf.float32).dtype
tf.constant(1.5, tf.int32)
tf.constant("a", tf.float32)
tf.constant(True, tf.float32)
tf.constant(None)
tf.constant([[1], [2, 3]])
tf.constant([1, 2, 3], shape=[2])
tf.convert_to_tensor(x, tf.int32)
tf.convert_to_tensor([x, x]).shape
tf.add(x, "a")
tf.matmul(x, x)
x + tf.constant(1)
tf.reshape(x, [2, 2, -1, 3]).shape
tf.reshape(x, [tf.shape(x)[0], 3, 1]).shape
tf.reshape(u, [2, -1]).shape
tf.zeros(tf.stack([tf.shape(x)[0], 7])).shape
tf.fill([tf.shape(x)[0], 2], 0.0).shape
tf.range(5).shape
tf.concat([x, x], 0).shape
tf.concat([x, x], 1).shape
x[:2].shape
x[:, 0].shape
tf.gradients(tf.constant(1.0), x)
tf.gradients(tf.cast(x, tf.int32), x)
tf.get_default_graph().get_tensor_by_name("nope:0")
tf.get_default_graph().get_operation_by_name("x:0")
tf.get_default_graph().get_tensor_by_name("x")
tf.get_default_graph().get_operation_by_name("w").type
tf.Graph().as_graph_element(x)
tf.get_variable("w2")
tf.nn.dropout(x, keep_prob=2.0)
tf.expand_dims(x)
tf.train.GradientDescentOptimizer(0.1).minimize(tf.constant(1.0))
tf.train.GradientDescentOptimizer(0.1).apply_gradients([])
tf.train.AdagradOptimizer(0.1, 0.0)
tf.unstack(x)
tf.split(x, u)
bool(x)
x.eval()
tf.no_op().run()
[v.name for v in tf.trainable_variables()]
tf.get_default_graph().unique_name("x")
tf.get_default_graph().unique_name("X")
tf.name_scope("a b").__enter__()
"""


def lines(text: str) -> list[str]:
    """The lines that are not empty."""
    return [line for line in text.splitlines() if line]


def graphs() -> dict[str, Any]:
    """Each statement with the nodes it adds to a graph of its own."""
    entries = []
    for statement in lines(STATEMENTS):
        with tf.Graph().as_default() as graph:
            names = {"tf": tf}
            exec(GRAPH_PREAMBLE, names)  # noqa: S102
            before = len(graph.get_operations())
            exec(statement, names)  # noqa: S102
            nodes = [
                [
                    op.name,
                    op.type,
                    [tensor.name for tensor in op.inputs],
                    sorted(each.name for each in op.control_inputs),
                    op.device,
                    colocated(op),
                ]
                for op in graph.get_operations()[before:]
            ]
        entries.append({"statement": statement, "nodes": nodes})
    return {"preamble": GRAPH_PREAMBLE, "entries": entries}


def colocated(op: tf.Operation) -> list[str]:
    """The nodes whose device the node shares."""
    groups = [group.decode() for group in op.colocation_groups()]
    return [group for group in groups if group != f"loc:@{op.name}"]


def values() -> dict[str, Any]:
    """Each expression with its value and the gradients of the sum of its squares."""
    entries = []
    for expression in lines(EXPRESSIONS):
        with tf.Graph().as_default(), tf.Session() as session:
            names = {"tf": tf, "np": np}
            exec(VALUE_PREAMBLE, names)  # noqa: S102
            tensor = eval(expression, names)  # noqa: S307
            entry = {"expression": expression, "dtype": tensor.dtype.name}
            entry["value"] = flat(session.run(tensor))
            if tensor.dtype == tf.float32:
                for name in ("x", "img", "k"):
                    gradient = tf.gradients(tensor * tensor, names[name])[0]
                    if gradient is not None:
                        entry[name] = flat(session.run(tf.convert_to_tensor(gradient)))
        entries.append(entry)
    return {"preamble": VALUE_PREAMBLE, "entries": entries}


def flat(array: Any) -> dict[str, Any]:
    """Returns an array as JSON; for long ones, a few elements and two sums."""
    array = np.asarray(array).astype(np.float64)
    numbers = array.ravel()
    checks = [numbers.sum(), (numbers * np.arange(1, numbers.size + 1)).sum()]
    return {
        "shape": list(array.shape),
        "first": [float(f"{number:.7g}") for number in numbers[:6]],
        "sums": [float(f"{number:.7g}") for number in checks],
    }


def prints() -> dict[str, Any]:
    """Each expression with its `repr`, or the name of its exception."""
    entries = []
    for expression in lines(PRINTS):
        with tf.Graph().as_default():
            names = {"tf": tf, "np": np}
            exec(PRINT_PREAMBLE, names)  # noqa: S102
            try:
                entry = {"result": repr(eval(expression, names))}  # noqa: S307
            except Exception as error:
                kinds = (kind.__name__ for kind in type(error).__mro__)
                entry = {"raises": next(kind for kind in kinds if hasattr(__builtins__, kind))}
        entries.append({"expression": expression, **entry})
    return {"preamble": PRINT_PREAMBLE, "entries": entries}


def main() -> None:
    """Writes the files."""
    tf.disable_v2_behavior()
    for name, make in (("graphs", graphs), ("values", values), ("prints", prints)):
        content = make()
        path = DIRECTORY / f"{name}.json"
        header = json.dumps(content["preamble"])
        body = ",\n".join(json.dumps(entry) for entry in content["entries"])
        path.write_text(f'{{"preamble": {header},\n"entries": [\n{body}\n]}}\n')


if __name__ == "__main__":
    main()

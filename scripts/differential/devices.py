"""Device names, scopes and where nodes may go."""

PREAMBLE = """
tf.constant(0.0)  # sessions refuse empty graphs
def where(*scopes):
    from contextlib import ExitStack
    with tf.Graph().as_default(), ExitStack() as stack:
        for scope in scopes:
            stack.enter_context(tf.device(scope))
        return tf.constant(1.0).device
def run(scope, **settings):
    with tf.Graph().as_default(), tf.device(scope):
        x = tf.constant(1.0, name="pinned")
    with tf.Session(graph=x.graph, config=tf.ConfigProto(**settings)) as session:
        return session.run(x)
def spec(text):
    found = tf.DeviceSpec.from_string(text)
    return [found.to_string(), found.job, found.replica, found.task, found.device_type, found.device_index]
"""
EXPRESSIONS = """
where()
where("/cpu:0")
where("/gpu:1")
where("/device:GPU:0")
where("/job:ps")
where("/job:ps/task:1/gpu:0")
where("/job:ps/replica:0/task:1/device:CPU:0")
where("cpu:0")
where("/job:a", "/cpu:0")
where("/job:a/task:1/gpu:0", "/cpu:1")
where("/job:a/task:1/gpu:0", "/job:b")
where("/job:a/task:1/gpu:0", None)
where("/job:a/task:1/gpu:0", None, "/cpu:0")
where("/job:a/task:1/gpu:0", "")
where(lambda op: "/task:5")
where("/job:a", lambda op: "/task:5")
where("/job:a/task:1", lambda op: "/task:5")
where(lambda op: "/task:5", "/task:6")
where(lambda op: "/job:x/task:5", "/task:6")
where(lambda op: "/job:x" if op.type == "Const" else "/job:y")
where(lambda op: op.device + "/gpu:0", "/job:z")
where(tf.DeviceSpec(job="w", task=3))
where("/cpu:0", tf.DeviceSpec(job="w", task=3))
where("/device:XLA_CPU:0")
where("garbage")
where("/job:a/color:red")
where("/cpu:0/gpu:0")
where(3)
spec("/job:ps/replica:0/task:1/device:CPU:0")
spec("/cpu:3")
spec("/gpu:*")
spec("/device:GPU:*")
spec("/job:ps")
spec("")
spec("/task:*")
spec("/task:x")
spec("nothing")
tf.DeviceSpec(job="ps", task=1).to_string()
tf.DeviceSpec(device_type="GPU").to_string()
tf.DeviceSpec(device_type="cpu", device_index=2).to_string()
tf.DeviceSpec(job="a") == tf.DeviceSpec(job="a")
tf.DeviceSpec(job="a") == tf.DeviceSpec(job="b")
tf.DeviceSpec(job="a", task=1).make_merged_spec(tf.DeviceSpec(task=2)).to_string()
tf.DeviceSpec(job="a", task=1).replace(job="b").to_string()
run("/cpu:0")
run("/job:localhost")
run("/job:localhost/replica:0/task:0/device:CPU:0")
run("/job:ps/task:0")
run("/gpu:12")
run("/cpu:1")
run("/gpu:12", allow_soft_placement=True)
run("/device:FPGA:0")
---
a = tf.DeviceSpec(job="a", task=1)
a.merge_from(tf.DeviceSpec(task=2, device_type="GPU"))
a.to_string()
---
a = tf.DeviceSpec(job="a")
a.parse_from_string("/cpu:0").to_string()
---
with tf.Graph().as_default():
    with tf.device("/job:ps/task:3"):
        v = tf.Variable(1.0)
    with tf.device("/job:worker"):
        y = v + 1.0
[v.device, v.initializer.device, y.device]
---
with tf.Graph().as_default():
    with tf.device("/job:ps/task:3"):
        v = tf.constant(1.0)
    with tf.device("/gpu:0"), tf.colocate_with(v):
        w = tf.constant(2.0)
[w.device, w.op.colocation_groups()]
---
with tf.Graph().as_default(), tf.device("/job:ps"):
    with tf.colocate_with(tf.constant(1.0, name="home").op):
        with tf.device("/cpu:0"):
            w = tf.constant(2.0)
w.device
"""

"""What sessions take, give and refuse."""

PREAMBLE = """
import collections
Pair = collections.namedtuple("Pair", "a b")
c = tf.constant(3.0, name="c")
p = tf.placeholder(tf.float32, name="p")
v3 = tf.placeholder(tf.float32, [3], name="v3")
n = tf.placeholder(tf.int32, name="n")
s = tf.placeholder(tf.string, name="s")
b = tf.placeholder(tf.uint8, name="b")
op = tf.no_op(name="op")
var = tf.Variable([1.0, 2.0], name="var")
with tf.Graph().as_default():
    elsewhere = tf.constant(1.0, name="elsewhere")
def run(fetches, feed=None, **settings):
    with tf.Session(**settings) as session:
        session.run(tf.global_variables_initializer())
        return session.run(fetches, feed)
def fails(function, *words):
    try:
        function()
    except Exception as error:
        return [type(error).__name__, [word in str(error) for word in words]]
    return "did not fail"
def partial(fetches, feeds, *calls):
    x, y, z = (tf.placeholder(tf.float32, [], name=name) for name in "xyz")
    r1 = tf.add(x, y, name="r1")
    tf.multiply(r1, z, name="r2")
    with tf.Session() as session:
        handle = session.partial_run_setup(fetches, feeds)
        return [session.partial_run(handle, fetch, feed) for fetch, feed in calls]
"""
EXPRESSIONS = """
run(c)
run([c, c, (c, c)])
run({"a": c, "b": [c, op]})
run(Pair(c, [c]))._fields
type(run(Pair(c, [c]))).__name__
list(run(collections.OrderedDict([("z", c), ("a", c)])))
run([])
run({})
run(())
run(op)
run("c:0")
run("c")
run(["c:0", {"x": "op"}])
run(var)
run("var:0")
run(tf.constant("abc"))
run(tf.constant(["abc", "d"]))
[type(x).__name__ for x in run([c, tf.constant(1), tf.constant(True), tf.constant([1]), tf.identity(s)], {s: "x"})]
run(tf.IndexedSlices(tf.constant([[1.0]]), tf.constant([0])))._fields
list(run(tf.IndexedSlices(tf.constant([[1.0]]), tf.constant([0]), tf.constant([5, 1]))))
run(None)
run([c, None])
run(3)
run(object())
run("nothing:0")
run("c:1")
run("c:x")
run("nothing")
run(elsewhere)
run(p)
run(p * 2)
run(p, {p: 1})
run(p, {p: [1, 2]})
run(p, {p: np.float64(1.5)})
run(p, {p: True})
run(p, {p: [[1], [2]]})
run(p, {p: []})
run(p, {"p:0": 4})
run(p, {"p": 4})
run(p, {p.op: 4})
run(p, {3: 4})
run(p, {elsewhere: 4})
run(p, {"nothing:0": 4})
run(p, {p: c})
run(p, {p: None})
run(p, {p: "a"})
run(p, {p: object()})
run(p, {p: {"a": 1}})
run(p, {p: [[1], [1, 2]]})
run(p, [1])
run(c, {c: 5})
run(c * 2, {c: [5, 6]})
run(var + 1, {var: [7, 8]})
run(v3, {v3: [1, 2, 3]})
run(v3, {v3: [1, 2]})
run(v3, {v3: [[1, 2, 3]]})
run(v3, {v3: 1.0})
run(n, {n: 1.5})
run(n, {n: np.array([1.5, -2.5])})
run(n, {n: 1 << 40})
run(n, {n: "a"})
run(b, {b: 255})
run(b, {b: 256})
run(b, {b: -1})
run(b, {b: np.array([256, 257])})
run(tf.identity(s), {s: "text"})
run(s, {s: ["a", b"b"]})
run(s, {s: np.array([["a"], ["bc"]])})
run(s, {s: 3})
fails(lambda: run(None), "NoneType")
fails(lambda: run(3), "has invalid type", "must be a string or Tensor", "Can not convert a int into a Tensor or Operation")
fails(lambda: run("nothing:0"), "cannot be interpreted as a Tensor", "The name 'nothing:0' refers to a Tensor which does not exist", "does not exist in the graph")
fails(lambda: run("c:1"), "exists but only has 1 outputs")
fails(lambda: run("nothing"), "refers to an Operation not in the graph")
fails(lambda: run(elsewhere), "cannot be interpreted as a Tensor", "is not an element of this graph")
fails(lambda: run(p), "You must feed a value for placeholder tensor 'p' with dtype float")
fails(lambda: run(v3 * 1), "placeholder tensor 'v3' with dtype float and shape [3]")
fails(lambda: run(v3, {v3: [1, 2]}), "Cannot feed value of shape (2,) for Tensor", "which has shape")
fails(lambda: run(p, {p: c}), "The value of a feed cannot be a tf.Tensor object", "Acceptable feed values include Python scalars, strings, lists, numpy ndarrays, or TensorHandles")
fails(lambda: run(p, {3: 4}), "Cannot interpret feed_dict key as Tensor", "Can not convert a int into a Tensor")
fails(lambda: run(p, {"p": 4}), "Cannot interpret feed_dict key as Tensor", "refers to an Operation, not a Tensor")
fails(lambda: run(n, {n: 1 << 40}), "Type of feed value 1099511627776", "is not compatible with Tensor type", "larger type (e.g. int64)")
fails(lambda: tf.Session(3), "must be a string")
fails(lambda: tf.Session("", 3), "must be a tf.Graph")
fails(lambda: tf.Session(config=3), "must be a tf.ConfigProto")
fails(lambda: tf.Session("nowhere"), "No session factory registered for the given session options")
fails(lambda: c.eval(), "No default session is registered")
fails(lambda: op.run(), "No default session is registered")
fails(lambda: tf.Session(graph=tf.Graph()).run([]), "The Session graph is empty")
tf.Session().run(c, run_metadata=tf.RunMetadata())
tf.Session().run(c, options=tf.RunOptions(timeout_in_ms=10000))
partial(["r1:0", "r2:0"], ["x:0", "y:0", "z:0"], ("r1:0", {"x:0": 1, "y:0": 2}), ("r2:0", {"z:0": 5}))
partial(["r1:0", "r2:0"], ["x:0", "y:0", "z:0"], ([], {"x:0": 1}), ({"k": "r2:0"}, {"z:0": 5, "y:0": 2}))
partial(["r2:0"], ["r1:0", "z:0"], ("r2:0", {"r1:0": 1, "z:0": 2}))
partial(["r1:0"], ["x:0", "y:0"], ("r1:0", {"x:0": 1, "y:0": 2}), ("r1:0", {}))
partial(["r1:0", "r2:0"], ["x:0", "y:0", "z:0"], ("r1:0", {"x:0": 1, "y:0": 2}), ("r1:0", {}))
partial(["r1:0", "r2:0"], ["x:0", "y:0", "z:0"], ("r1:0", {"x:0": 1, "y:0": 2}), ("r2:0", {"x:0": 2}))
partial(["r1:0", "r2:0"], ["x:0", "y:0", "z:0"], ("r2:0", {"x:0": 1, "y:0": 2}))
partial(["r2:0"], ["x:0", "y:0"], ("r1:0", {"x:0": 1, "y:0": 2}))
partial(["r2:0"], ["x:0", "y:0"], ("r2:0", {"x:0": 1, "z:0": 2}))
partial([], ["x:0"])
partial(["r1"], ["x:0", "y:0"], ("r1", {"x:0": 1, "y:0": 2}))
[d.name for d in tf.Session().list_devices() if d.device_type == "CPU"]
[d.memory_limit_bytes for d in tf.Session().list_devices() if d.device_type == "CPU"]
int(tf.errors.InvalidArgumentError(None, None, "text").error_code)
tf.errors.OutOfRangeError(None, None, "text").message
tf.errors.OpError(None, None, "text", 5).error_code
[e.__name__ for e in tf.errors.OutOfRangeError.__mro__[:2]]
tf.errors.exception_type_from_error_code(5).__name__
int(tf.errors.error_code_from_exception_type(tf.errors.AbortedError))
---
with tf.Session() as session:
    f = session.make_callable([p + v3, op], feed_list=[p, v3])
    found = f(1.0, [1, 2, 3])
found
---
with tf.Session() as session:
    f = session.make_callable(p * 2, feed_list=[p], accept_options=True)
    found = f(1.0, options=tf.RunOptions(), run_metadata=tf.RunMetadata())
found
---
session = tf.Session()
f = session.make_callable(c)
session.close()
f()
---
session = tf.Session()
session.close()
session.run(c)
---
session = tf.Session()
session.make_callable(c, feed_list=c)
---
with tf.Session() as session:
    pass
c.eval(session=session)
---
session = tf.Session()
with session.as_default():
    found = [c.eval(), (c * p).eval({p: 2})]
[found, session.run(c)]
---
session = tf.Session(graph=tf.Graph())
with session.as_default():
    c.eval()
---
session = tf.Session(graph=tf.Graph())
with session.as_default():
    op.run()
---
session = tf.Session()
first = session.run(c)
[first, session.run(tf.constant(2.0) * c)]
---
session = tf.Session()
session.run(c)
tf.get_default_graph().finalize()
c * 2
---
try:
    run(tf.floordiv(tf.constant(1), tf.constant(0), name="division"))
except tf.errors.OpError as error:
    found = [error.op.name, error.op.type, error.node_def.name, int(error.error_code)]
found
---
x = tf.constant(1.0)
tf.get_default_graph().prevent_feeding(x)
run(x, {x: 3})
---
x = tf.constant(1.0)
tf.get_default_graph().prevent_fetching(x.op)
run(x)
---
session = tf.Session()
kept = session.run(tf.get_session_handle(c * 5))
holder, x = tf.get_session_tensor(kept.handle, tf.float32)
session.run(x * 2, {holder: kept.handle})
---
q = tf.FIFOQueue(1, tf.float32)
run(q.dequeue(), config=tf.ConfigProto(operation_timeout_in_ms=100))
---
session = tf.Session()
v = tf.Variable(1.0)
session.run(v.initializer)
other = tf.Session()
other.run(v)
---
a = tf.Session()
b2 = tf.Session()
w = tf.Variable(1.0)
a.run(w.initializer)
b2.run(w.initializer)
a.run(w.assign_add(1.0))
[a.run(w), b2.run(w)]
"""

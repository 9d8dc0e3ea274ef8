"""Queues: shapes, dtypes, order and errors."""

PREAMBLE = """
q = tf.FIFOQueue(10, [tf.float32, tf.int32], shapes=[[], [2]], name="q")
free = tf.FIFOQueue(10, tf.float32)
named = tf.FIFOQueue(10, [tf.float32, tf.int32], names=["a", "b"], shapes=[[], []])
padded = tf.PaddingFIFOQueue(10, [tf.int32], [[None]])
first = tf.PriorityQueue(10, [tf.string], [[]])
def after(op, result):
    with tf.control_dependencies([op]):
        return result()
"""
EXPRESSIONS = """
[str(each.shape) for each in q.dequeue()]
[str(each.shape) for each in q.dequeue_many(3)]
[str(each.shape) for each in q.dequeue_up_to(3)]
[str(free.dequeue().shape), str(padded.dequeue().shape), str(padded.dequeue_many(2).shape)]
[q.name, q.names, named.names, [d.name for d in first.dtypes], [str(s) for s in first.shapes]]
[q.enqueue([1.0, [1, 2]]).name, q.dequeue()[0].op.name, q.size().op.name, q.close().name]
[q.enqueue([1.0, [1, 2]]).type, q.dequeue()[0].op.type, q.size().op.type, q.queue_ref.op.type]
after(q.enqueue([1.0, [1, 2]]), q.dequeue)
after(q.enqueue_many([[1.0, 2.0, 3.0], [[1, 2], [3, 4], [5, 6]]]), lambda: q.dequeue_many(3))
after(q.enqueue_many([[1.0, 2.0, 3.0], [[1, 2], [3, 4], [5, 6]]]), lambda: q.dequeue_up_to(2))
after(q.enqueue_many([[1.0, 2.0], [[1, 2], [3, 4]]]), q.size)
after(named.enqueue({"a": 1.0, "b": 2}), named.dequeue)
after(free.enqueue([[1.0, 2.0]]), free.dequeue)
after(padded.enqueue_many([[[1, 2], [3, 4]]]), lambda: padded.dequeue_many(2))
after(first.enqueue_many([[3, 1, 2], ["c", "a", "b"]]), lambda: first.dequeue_many(3))
after(q.close(), q.is_closed)
after(q.close(), lambda: q.dequeue_many(2))
after(q.close(), lambda: q.dequeue_up_to(2))
after(q.close(), lambda: q.enqueue([1.0, [1, 2]]))
q.is_closed()
q.size()
q.dequeue_many(0)
free.dequeue_many(1)
q.enqueue([1.0])
q.enqueue([1.0, [1, 2, 3]])
q.enqueue(["a", [1, 2]])
q.enqueue({"a": 1.0, "b": [1, 2]})
q.enqueue_many([[1.0], [[1, 2], [3, 4]]])
q.enqueue_many([1.0, [1, 2]])
named.enqueue([1.0, 2])
named.enqueue({"a": 1.0})
named.enqueue({"a": 1.0, "c": 2})
q.dequeue_many(-1)
tf.FIFOQueue(10, [tf.float32], shapes=[[None]])
tf.FIFOQueue(10, [tf.float32], shapes=[[], []])
tf.FIFOQueue(10, [tf.float32], shapes=3)
tf.FIFOQueue(10, [tf.float32], names=["a", "b"])
tf.PaddingFIFOQueue(10, [tf.float32], shapes=[None])
tf.PaddingFIFOQueue(10, [tf.float32, tf.int32], shapes=[[None]])
tf.PaddingFIFOQueue(10, [tf.float32], shapes=[tf.TensorShape(None)])
tf.QueueBase.from_list(0, [q, free])
tf.QueueBase.from_list(0, [])
[str(s) for s in tf.QueueBase.from_list(0, [q, q]).shapes]
str(tf.RandomShuffleQueue(10, 0, tf.int32, [[]]).dequeue_many(4).shape)
---
shuffled = tf.RandomShuffleQueue(10, 0, tf.int32, [[]], seed=3)
with tf.control_dependencies([shuffled.enqueue_many([[1, 2, 3, 4]])]):
    taken = shuffled.dequeue_many(4)
tf.nn.top_k(taken, 4)[0]
---
x = tf.FIFOQueue(10, tf.float32, [[]], shared_name="s")
y = tf.FIFOQueue(10, tf.float32, [[]], shared_name="s", name="other")
after(x.enqueue([2.0]), y.dequeue)
---
x = tf.FIFOQueue(10, tf.float32, [[]], shared_name="t")
y = tf.FIFOQueue(11, tf.float32, [[]], shared_name="t")
after(x.enqueue([2.0]), y.dequeue)
---
x = tf.FIFOQueue(10, tf.float32, [[]], shared_name="u")
y = tf.RandomShuffleQueue(10, 0, tf.float32, [[]], shared_name="u")
after(x.enqueue([2.0]), y.dequeue)
---
a = tf.placeholder_with_default([1.0, 2.0, 3.0], [None])
after(free.enqueue(a), free.dequeue)
---
a = tf.placeholder_with_default([1.0], [None])
q.enqueue([a, [1, 2]])
---
a = tf.placeholder_with_default([1, 2, 3], None)
q.enqueue([1.0, a])
"""

"""Conditional accumulators, dense and sparse, step by step."""

PREAMBLE = """
def ran(*steps):
    with tf.Session() as session:
        return [value for value in (session.run(step) for step in steps) if value is not None]

a = tf.ConditionalAccumulator(tf.float32, [2], name="acc")
s = tf.SparseConditionalAccumulator(tf.float32, [4, 2], name="sparse")
u = tf.SparseConditionalAccumulator(tf.float64)
total = tf.ConditionalAccumulator(tf.float32, [2], reduction_type="SUM")
sums = tf.SparseConditionalAccumulator(tf.float32, [4, 2], reduction_type="SUM")

def rows(indices, values, shape=(4, 2)):
    return tf.IndexedSlices(
        tf.constant(values, tf.float32), tf.constant(indices, tf.int64), tf.constant(shape, tf.int64)
    )
"""
EXPRESSIONS = """
[a.name, a.dtype.name]
a.num_accumulated()
ran(a.apply_grad([1.0, 2.0]), a.apply_grad([3.0, 6.0]), a.num_accumulated(), a.take_grad(2))
ran(a.apply_grad([1.0, 2.0]), a.apply_grad([3.0, 6.0]), a.take_grad(1), a.num_accumulated())
ran(total.apply_grad([1.0, 2.0]), total.apply_grad([3.0, 6.0]), total.take_grad(1))
ran(a.apply_grad([1.0, 2.0]), a.take_grad(1), a.apply_grad([1.0, 2.0]), a.num_accumulated())
ran(a.apply_grad([1.0, 2.0]), a.take_grad(1), a.apply_grad([1.0, 2.0], 1), a.num_accumulated())
ran(a.set_global_step(5), a.apply_grad([1.0, 2.0], 4), a.num_accumulated())
ran(a.set_global_step(5), a.apply_grad([1.0, 2.0], local_step=5), a.num_accumulated())
ran(a.take_grad(0))
a.apply_grad([1.0, 2.0, 3.0])
tf.ConditionalAccumulator(tf.float32, [2], reduction_type="Invalid")
ran(s.apply_indexed_slices_grad(rows([1, 3], [[1, 2], [3, 4]])), s.take_indexed_slices_grad(1).values)
ran(s.apply_grad([0, 2], np.ones([2, 2], np.float32), [4, 2]), s.take_grad(1))
ran(s.apply_grad([0, 2], np.ones([2, 2], np.float32)), s.num_accumulated(), s.take_grad(1))
ran(u.apply_grad([0, 2], np.ones([2, 3])), u.take_grad(1))
ran(s.apply_grad([0, 2], np.ones([2, 2], np.float32), [5, 2]))
ran(s.set_global_step(3), s.apply_grad([0], np.ones([1, 2], np.float32), local_step=2), \
s.num_accumulated())
---
first = s.apply_indexed_slices_grad(rows([0, 2], [[1, 2], [3, 4]]))
second = s.apply_indexed_slices_grad(rows([1, 2], [[5, 6], [7, 8]]))
ran(first, second, s.take_grad(2))
---
first = sums.apply_indexed_slices_grad(rows([0, 2], [[1, 2], [3, 4]]))
second = sums.apply_indexed_slices_grad(rows([1, 2], [[5, 6], [7, 8]]))
ran(first, second, sums.take_grad(2))
""".replace("\\\n", "")

"""What indices and masks select, operators of sparse tensors, segments and scatters out of range."""

PREAMBLE = """
x = tf.constant(np.arange(24, dtype=np.float32).reshape(2, 3, 4))
v = tf.get_variable("v", initializer=np.arange(6, dtype=np.float32).reshape(2, 3))
vec = tf.constant([1.0, -2.0, 3.0, 0.5])
i, j = tf.constant(1), tf.constant([0, 2])
b1 = np.array([True, False, True])
sp = tf.SparseTensor([[0, 1], [1, 0], [1, 2]], [1.0, 2.0, 3.0], [2, 3])
spi = tf.SparseTensor([[0, 1], [1, 0], [1, 2]], [1, 2, 3], [2, 3])
d = tf.constant([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
ph = tf.placeholder_with_default(np.float32([[1, 2], [3, 4]]), [None, None])
phu = tf.placeholder_with_default(np.float32([[1, 2], [3, 4]]), None)

def taken(shape, reduction, indices, values, grad_shape=None):
    given = tf.SparseConditionalAccumulator(tf.float32, shape=shape, reduction_type=reduction)
    apply = given.apply_grad(indices, values, grad_shape)
    with tf.Session() as session:
        session.run(apply)
        session.run(apply)
        return session.run(given.take_grad(1))
"""
WITH_RESPECT_TO = ("x", "vec", "d")

_ACCUMULATED = [
    f"taken({shape}, '{reduction}', {gradient})"
    for shape in ("()", "None", "[3]", "[None]", "[3, 2]", "[None, 2]")
    for gradient in (
        "[0, 1], [1.0, 2.0]",
        "[0, 2], [[1.0, 2.0], [3.0, 4.0]]",
        "[0, 4], [[1.0, 2.0], [3.0, 4.0]]",
        "[0, 1], [1.0]",
        "0, 1.0",
        "[1], [[1.0, 2.0]], [3, 2]",
        "[1], [[1.0, 2.0]], [4, 2]",
    )
    for reduction in ("MEAN", "SUM")
]
EXPRESSIONS = """
vec[vec > 0.]
x[x > 5.]
x[:, b1]
x[b1]
x[np.array([[True, False, True], [False, True, False]])]
x[np.array([True, False])]
d[d > 2.]
v[v > 2.]
vec[np.array([True, False, True, True])]
vec[[True, False, True, True]]
vec[[0, 1]]
vec[np.array([0, 1])]
vec[tf.constant([0, 1])]
x[j]
x[..., j]
x[..., 0]
x[..., tf.newaxis]
x[tf.newaxis, ..., 1:, tf.newaxis]
x[:, tf.newaxis, 1]
x[i]
x[i, ..., i]
x[tf.constant(-1)]
x[-1, ::-1]
x[::2, ::-2]
x[1, 2, 3]
x[1, 2, 3, 4]
x[..., ..., 0]
x[5]
x[:, 7]
x[1.0]
x["a"]
x[None]
x[None, None, 0]
x[True]
x[np.int64(1)]
x[np.array(1)]
x[(0, slice(None), 1)]
x[[0, 1], 0]
x[0][1][2]
x[0:1:0]
x[tf.constant(0):tf.constant(2)]
x[:tf.shape(x)[1] - 1]
x[slice(0, 1), Ellipsis]
x[tf.constant(True)]
ph[:, None, :1]
phu[0]
phu[..., 0]
phu[:, 0]
phu[phu > 2.]
ph[ph > 2.]
v[0]
v[i, 1:]
v[..., 0]
v[0, 0].assign(5.)
v[0].assign([7., 8., 9.])
v[:, 1].assign([7., 8.])
v[v > 2.].assign([1.])
list(vec)
list(ph)
len(vec)
bool(vec)
vec in [1]
iter(phu)
tf.constant([1,2,3])[tf.constant(1.5)]
x[:, :, [0]]
x[..., 1:2, ::-1]
tf.boolean_mask(x, [True, False])
tf.boolean_mask(x, np.array([[True, False, True], [False, True, False]]))
tf.boolean_mask(x, b1, axis=1)
tf.boolean_mask(vec, vec > 0.)
tf.boolean_mask(x, tf.placeholder_with_default([True, False], None))
tf.boolean_mask(x, True)
tf.boolean_mask(x, [True, False, True])
d * sp
sp * d
sp * 2.
sp / 2.
sp / d
d / sp
sp * tf.constant([1., 2., 3.])
sp * tf.constant([[1.], [2.]])
tf.constant([1., 2., 3.]) * sp
sp * np.float32([1, 2, 3])
spi * 2
spi // 2
spi * tf.constant([1, 2, 3])
tf.tuple([tf.IndexedSlices(tf.constant([1., 2.]), tf.constant([0, 1]))])
tf.tuple([tf.IndexedSlices(tf.constant([1., 2.]), tf.constant([0, 1])), tf.constant(1), None])
tf.tuple([sp.values, None, d])
tf.tuple([])
tf.tuple([None])
tf.group(tf.IndexedSlices(tf.constant([1., 2.]), tf.constant([0, 1])))
tf.group(sp)
tf.print(sp)
tf.print("a", sp, [d, sp], {"k": sp})
tf.print(d, summarize=1, end="")
tf.print()
tf.identity(sp)
tf.identity(tf.IndexedSlices(tf.constant([1., 2.]), tf.constant([0, 1])))
tf.stop_gradient(sp.values)
tf.add_n([sp.values, sp.values])
tf.concat([sp, sp], 0)
tf.cast(sp, tf.int32)
tf.abs(sp)
tf.square(sp)
tf.negative(sp)
tf.sqrt(sp)
tf.tanh(sp)
tf.reduce_sum(sp.values)
tf.sparse.reduce_sum(sp, 1)
tf.sparse.reduce_sum(sp, 1, keepdims=True)
tf.sparse.reduce_max(sp, [0])
tf.sparse.reduce_sum_sparse(sp, 0)
tf.sparse.softmax(sp)
tf.sparse.transpose(sp)
tf.sparse.reshape(sp, [3, -1])
tf.sparse.slice(sp, [0, 1], [2, 2])
tf.sparse.split(sp_input=sp, num_split=3, axis=1)
tf.sparse.concat(0, [sp, sp])
tf.sparse.add(sp, sp, 0.)
tf.sparse.add(sp, d)
tf.sparse.maximum(sp, sp)
tf.sparse.matmul(sp, tf.transpose(d))
tf.sparse.matmul(sp, d, adjoint_b=True)
tf.sparse.to_dense(sp)
tf.sparse.to_dense(sp, default_value=-1.)
tf.sparse.to_indicator(spi, 5)
tf.sparse.fill_empty_rows(tf.SparseTensor([[1, 0]], [1], [3, 2]), 0)
tf.sparse.reorder(tf.SparseTensor([[1, 0], [0, 1]], [1, 2], [2, 2]))
tf.sparse.retain(sp, [True, False, True])
tf.sparse.reset_shape(sp)
tf.sparse.reset_shape(sp, [5, 5])
tf.sparse.mask(tf.IndexedSlices(tf.constant([[1., 2.], [3., 4.]]), tf.constant([0, 1])), [1])
tf.sparse.expand_dims(sp, 0)
tf.sparse.expand_dims(sp, -1)
tf.sparse.eye(2, 3)
tf.sparse.from_dense(d)
tf.sparse.merge(spi, sp, 4)
tf.sparse.segment_sum(d, [0, 1], [0, 0])
tf.sparse.segment_mean(d, [0, 1, 1], [0, 0, 2])
tf.sparse.segment_sqrt_n(d, [0, 1, 1], [0, 0, 2], num_segments=4)
tf.sparse.cross([tf.constant([["a", "b"]]), tf.constant([["c"]])])
tf.sparse.map_values(tf.add, sp, 1.)
tf.math.segment_sum(d, [0, 1])
tf.math.segment_sum(d, [1, 3])
tf.math.segment_mean(d, [0, 0])
tf.math.segment_max(d, [0, 2])
tf.math.segment_min(d, [1, 2])
tf.math.segment_prod(d, [0, 2])
tf.math.segment_sum(d, [1, 0])
tf.math.segment_sum(d, [-1, 0])
tf.math.segment_sum(d, [0])
tf.math.unsorted_segment_sum(d, [-1, 2], 3)
tf.math.unsorted_segment_sum(d, [0, 3], 3)
tf.math.unsorted_segment_mean(d, [2, -1], 3)
tf.math.unsorted_segment_max(d, [2, -1], 3)
tf.math.unsorted_segment_min(d, [2, -1], 3)
tf.math.unsorted_segment_prod(d, [2, -1], 3)
tf.math.unsorted_segment_sqrt_n(d, [2, 2], 3)
tf.math.unsorted_segment_sum(d, [[0, 1, 2], [1, -1, 0]], 3)
tf.math.unsorted_segment_max(tf.zeros([0, 2]), tf.zeros([0], tf.int32), 2)
tf.math.unsorted_segment_sum(d, [0, 1], 0)
tf.scatter_nd([[0], [0], [2]], [1., 2., 3.], [4])
tf.scatter_nd([[4]], [1.], [4])
tf.scatter_nd([[-1]], [1.], [4])
tf.scatter_nd([[0, 1], [0, 1]], [1., 2.], [2, 2])
tf.scatter_nd(tf.zeros([0, 1], tf.int32), tf.zeros([0]), [4])
tf.scatter_nd([[0]], [[1., 2.]], [4])
tf.tensor_scatter_nd_update(d, [[0, 0], [0, 0]], [8., 9.])
tf.tensor_scatter_nd_update(d, [[2, 0]], [8.])
tf.tensor_scatter_nd_add(d, [[0, 0], [0, 0]], [8., 9.])
tf.tensor_scatter_nd_sub(d, [[1]], [[1., 2., 3.]])
tf.tensor_scatter_nd_max(d, [[0, 0], [0, 0]], [8., 9.])
tf.tensor_scatter_nd_min(d, [[0, 0]], [-8.])
tf.gather_nd(d, [[2, 0]])
tf.gather_nd(d, [[0, -1]])
tf.gather(d, [2])
tf.gather(d, [-1])
tf.gather(d, [0, 1], axis=1, batch_dims=0)
tf.gather(d, [[0, 1], [1, 2]], axis=1, batch_dims=1)
tf.scatter_update(v, [0, 0], [[1., 2., 3.], [4., 5., 6.]])
tf.scatter_add(v, [0, 0], [[1., 2., 3.], [4., 5., 6.]])
tf.scatter_sub(v, [1, 1], [[1., 2., 3.], [4., 5., 6.]])
tf.scatter_mul(v, [0, 0], [[1., 2., 3.], [4., 5., 6.]])
tf.scatter_div(v, [0, 0], [[1., 2., 3.], [4., 5., 6.]])
tf.scatter_max(v, [0, 0], [[1., 2., 3.], [4., 5., 6.]])
tf.scatter_min(v, [0], [[-1., 2., 3.]])
tf.scatter_add(v, [2], [[1., 2., 3.]])
tf.scatter_add(v, [-1], [[1., 2., 3.]])
tf.scatter_add(v, [0, 1], 1.)
tf.scatter_nd_update(v, [[0, 0], [0, 0]], [8., 9.])
tf.scatter_nd_add(v, [[0, 0], [0, 0]], [8., 9.])
tf.scatter_nd_sub(v, [[5, 0]], [8.])
tf.batch_scatter_update(v, [[0, 1], [1, 0]], [[5., 6.], [7., 8.]])
""" + "\n".join(_ACCUMULATED)

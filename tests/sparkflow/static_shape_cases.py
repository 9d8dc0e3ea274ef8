"""Programs whose static shapes depend on arithmetic with sizes, and their results in any module.

Every consumer (an op that takes a shape, a size, an axis, ...) is combined with every way to
compute its argument, from tensors with a known shape, a partly known one, a known rank, or none.
All of them are fed with the same array, so that the inferred shape can be compared with that of a
step.

Used by `scripts/generate_static_shapes_golden.py` with TensorFlow and by `test_static_shapes.py`
with sparkflow. Imports neither.
"""

# ruff: noqa: S307, E501  (the expressions are the repository's own cases, one per line)

from typing import Any

import numpy as np

FED = np.arange(24, dtype=np.float32).reshape(2, 3, 4)
SOURCES: dict[str, Any] = {
    "known": [2, 3, 4],
    "partial": [None, 3, 4],
    "sizes": [None, None, None],
    "rank": None,
}

# Scalars computed from `x` and its shape `s`.
SCALARS = """
s[1]
s[-1]
s[0]
s[1] * s[2]
s[1] + 1
s[2] - 1
s[2] // 2
s[2] % 3 + 1
6 - s[1]
-s[1] + 6
abs(-s[1])
s[1] ** 1
s[0] * 0 + 3
tf.maximum(s[1], 2)
tf.minimum(s[1], 7)
tf.reduce_prod(s[1:])
tf.reduce_prod(s)
tf.reduce_sum(s[1:])
tf.reduce_max(s[1:])
tf.reduce_min(s[:2])
tf.reduce_prod(s[1:], keepdims=True)[0]
tf.reduce_prod([s[1], s[2]])
tf.size(x) // s[0]
tf.rank(x)
tf.rank(x) - 1
tf.cast(s, tf.int64)[1]
tf.cast(s[1], tf.int64)
tf.shape(x, out_type=tf.int64)[2]
tf.shape_n([x, x])[1][2]
tf.to_int32(s[2] / 2)
tf.cast(tf.ceil(tf.cast(s[1], tf.float32) / 2.), tf.int32)
tf.cast(tf.to_float(s[2]) * 0.75, tf.int32)
tf.gather(s, 1)
tf.gather(s, [2, 1])[0]
tf.split(s, 3)[1][0]
tf.split(s, [1, 2])[1][0]
tf.squeeze(s[1:2])
tf.squeeze(tf.slice(s, [2], [1]))
tf.reshape(s[1:2], [])
tf.expand_dims(s[1], 0)[0]
tf.identity(s[1])
tf.stop_gradient(s)[1]
tf.strided_slice(s, [1], [2], [1], shrink_axis_mask=1)
tf.strided_slice(s, [-1], [0], [1], end_mask=1)[0]
tf.concat([s[:1], s[1:]], 0)[1]
tf.stack([s[2], s[1]])[1]
tf.add_n([s[1], s[2]])
tf.where(tf.constant(True), s[1], s[2])
tf.where([True, False], s[1:], s[:2])[0]
tf.cond(tf.constant(True), lambda: s[1], lambda: s[2])
tf.cumprod(s[1:])[-1]
tf.cumsum(s, reverse=True)[1]
tf.range(s[1])[-1]
tf.reverse(s, [0])[0]
tf.transpose(tf.stack([s, s]))[1][0]
tf.tile(s[1:2], [2])[1]
tf.pad(s[1:], [[1, 0]])[1]
tf.clip_by_value(s[1], 0, 9)
tf.broadcast_dynamic_shape(s[1:], [1, 1])[0]
tf.placeholder_with_default(3, [])
tf.squared_difference(s[1], 1)
tf.floor_div(s[2], 2)
tf.floormod(s[2], 3) + 1
tf.bitwise.bitwise_or(s[1], 0)
tf.ones_like(s)[0] * 3
tf.setdiff1d(tf.range(5), s)[0][-1]
tf.argmax(s[1:], output_type=tf.int32) + 1
tf.sqrt(tf.to_float(s[2]))
x.get_shape()[1].value or s[1]
""".strip().splitlines()

# Vectors of sizes.
VECTORS = """
s
s * 2
s + [0, 1, 2]
s[1:]
s[:-1]
s[::2]
s[1:2]
[s[0], s[1]]
[s[1], 5]
[s[0], s[1] * s[2]]
tf.stack([s[0], 2])
tf.concat([s[:1], [5]], 0)
tf.concat([s[:-1], [s[2] * 2]], 0)
tf.concat([[1], s], 0)
tf.concat([[1], s[1:]], 0)
tf.cast(s, tf.int64)
tf.shape(x, out_type=tf.int64)
tf.shape_n([x, x])[0]
tf.identity(s)
tf.stop_gradient(s)
tf.maximum(s, 1)
tf.gather(s, [0, 2])
tf.gather(s, [2, 1])
tf.slice(s, [1], [2])
tf.unstack(tf.shape(x), num=3)
tf.reshape(s, [-1])
tf.squeeze([s], 0)
tf.where([True, False, True], s, [1, 1, 1])
tf.tile(s[1:2], [2])
tf.pad(s, [[1, 0]], constant_values=1)
tf.broadcast_dynamic_shape(s, [1, 1, 1])
tf.broadcast_dynamic_shape(s[1:], [1, 1])
tf.ones_like(s)
tf.zeros_like(s) + 2
tf.fill([2], s[1])
tf.range(1, s[1])
tf.reverse(s, [0])
tf.strided_slice(s, [0], [2], [1], begin_mask=1)
tf.boolean_mask(s, [True, False, True])
tf.cond(tf.constant(False), lambda: s * 2, lambda: s)
tf.reduce_max([s, [1, 1, 1]], 0)
""".strip().splitlines()

# Consumers of a scalar `n`.
OF_SCALARS = """
tf.zeros([n, 2])
tf.zeros([s[0], n])
tf.ones(tf.stack([n, s[0]]))
tf.zeros(tf.expand_dims(n, 0))
tf.fill([n], 1.)
tf.fill([2, n], 'a')
tf.reshape(x, [-1, n])
tf.reshape(x, [n, -1])
tf.reshape(x, [s[0], -1, n])
tf.reshape(tf.zeros([3, 8]), [s[0], n])
tf.reshape(x, tf.stack([2, n, -1]))
tf.tile(tf.zeros([2, 3]), [1, n])
tf.tile(tf.zeros([2, 3]), [s[0], n])
tf.tile(x, [1, n, 1])
tf.pad(tf.zeros([2, 3]), [[0, 0], [n, 1]])
tf.pad(tf.zeros([2, 3]), [[s[0], 0], [n, n]])
tf.pad(tf.zeros([20, 20]), [[1, 1], [0, n]], 'REFLECT')
tf.slice(x, [0, 0, 0], [-1, -1, n])
tf.slice(tf.zeros([4, 30]), [0, n], [s[0], -1])
tf.slice(tf.zeros([4, 30]), [1, 1], [-1, n])
tf.zeros([4, 30])[:, :n]
tf.zeros([4, 30])[1:, n:]
tf.zeros([4, 30])[..., n]
tf.zeros([4, 30])[s[0]:, ::n]
tf.zeros([4, 30])[:, tf.newaxis, :-n]
tf.strided_slice(tf.zeros([4, 30]), [0, 0], [2, n], begin_mask=3)
tf.strided_slice(tf.zeros([4, 30]), [0, n], [2, 0], end_mask=2, shrink_axis_mask=1)
tf.range(n)
tf.range(n, 30, 2)
tf.range(0, 30, n)
tf.one_hot([0, 1], n)
tf.one_hot(tf.zeros([2, 2], tf.int32), n, axis=1)
tf.nn.top_k(tf.zeros([2, 30]), n)[0]
tf.eye(n)
tf.eye(2, n)
tf.eye(2, batch_shape=[n])
tf.linspace(0., 1., n)
tf.split(tf.zeros([2, 30]), [n, -1], 1)[0]
tf.split(tf.zeros([2, 30]), [n, -1], 1)[1]
tf.split(tf.zeros([2, 30]), tf.stack([2, n, -1]), 1)[1]
tf.broadcast_to(tf.zeros([2, 1]), [2, n])
tf.broadcast_to(tf.zeros([1, 1]), [s[0], n])
tf.random_normal([s[0], n])
tf.random_uniform([n])
tf.random_uniform([n, 2], 0, 5, tf.int32)
tf.truncated_normal([n])
tf.random.gamma([n], tf.ones([2]))
tf.random.stateless_uniform([n, 2], [1, 2])
tf.random.stateless_normal([s[0], n], [1, 2])
tf.multinomial(tf.zeros([2, 3]), n)
tf.unsorted_segment_sum(tf.zeros([2, 3]), [0, 1], n)
tf.unsorted_segment_mean(tf.zeros([2, 3]), [0, 1], n)
tf.unsorted_segment_max(tf.zeros([2, 3]), [0, 1], n)
tf.sparse_segment_sum(tf.zeros([2, 3]), [0, 1], [0, 1], num_segments=n)
tf.sequence_mask([1, 2], n)
tf.image.resize_images(tf.zeros([1, 4, 4, 3]), [n, 2])
tf.image.resize_bilinear(tf.zeros([1, 4, 4, 3]), [5, n])
tf.image.resize_nearest_neighbor(x[..., tf.newaxis], [n, n])
tf.image.crop_and_resize(tf.zeros([1, 4, 4, 3]), [[0., 0., 1., 1.]], [0], [n, 2])
tf.image.pad_to_bounding_box(tf.zeros([1, 2, 2, 3]), 0, 0, 30, n + 1)
tf.nn.conv2d_transpose(tf.zeros([2, 5, n, 3]), tf.zeros([2, 2, 4, 3]), [2, 10, 2 * n, 4], [1, 2, 2, 1])
tf.matrix_band_part(tf.zeros([3, 3]), n, 0)
tf.reduce_sum(tf.zeros([s[0], n]), 0)
tf.matmul(tf.zeros([2, n]), tf.zeros([n, 5]))
tf.concat([tf.zeros([2, n]), tf.zeros([2, 1])], 1)
tf.stack([tf.zeros([n]), tf.zeros([n])])
tf.gather(tf.zeros([30, 2]), tf.range(n))
tf.scatter_nd([[0]], [1.], [n])
tf.sparse_to_dense([0], [n], 1.)
tf.bincount([0, 1], minlength=n, maxlength=n)
tf.diag(tf.zeros([n]))
tf.meshgrid(tf.range(n), tf.range(2))[0]
tf.roll(tf.zeros([4, 30]), n, 1)
tf.repeat(tf.zeros([2, 3]), n, axis=1)
tf.signal.frame(tf.zeros([60]), 2, n)
tf.spectral.rfft(tf.zeros([30]), [n])
tf.space_to_batch_nd(tf.zeros([1, 24, 1]), [n], [[0, 0]])
tf.histogram_fixed_width([0.5], [0., 1.], n)
tf.ones_like(tf.zeros([s[0], n]))
tf.zeros_like(tf.zeros([n, s[0]]), tf.int32)
tf.expand_dims(tf.zeros([n]), 0)
tf.nn.dropout(tf.zeros([s[0], n]), 0.5)
tf.TensorArray(tf.float32, n, element_shape=[2]).unstack(tf.zeros([n, 2])).stack()
tf.while_loop(lambda i, v: i < 2, lambda i, v: (i + 1, v + 1.), [0, tf.zeros([n, 2])])[1]
tf.cond(tf.equal(s[0], 2), lambda: tf.zeros([n, 2]), lambda: tf.ones([n, 2]))
tf.map_fn(lambda v: v * 2., tf.zeros([n, 2]))
tf.gradients(tf.reduce_sum(tf.reshape(x, [-1, n])), x)[0]
tf.gradients(tf.reduce_sum(tf.tile(x, [1, n, 1])), x)[0]
tf.edit_distance(tf.sparse.from_dense([[n]]), tf.sparse.from_dense([[n]]))
""".strip().splitlines()

# Consumers of an axis `n`: only combined with scalars that are 0, 1 or 2 at run time.
OF_AXES = """
tf.expand_dims(x, n)
tf.concat([x, x], n)
tf.reduce_sum(x, n)
tf.reduce_mean(x, [0, n])
tf.reduce_max(x, n, keepdims=True)
tf.argmax(x, n)
tf.gather(x, [0, 0], axis=n)
tf.split(x, 1, n)[0]
tf.cumsum(x, n)
tf.reverse(x, tf.stack([n]))
tf.reverse_sequence(x, [1, 1], 1, 0)
tf.transpose(x, tf.stack([n, 3 - n, 0]))
tf.roll(x, 1, n)
tf.reduce_any(tf.equal(x, 1.), n)
tf.reduce_logsumexp(x, n)
tf.tensordot(x, tf.zeros([4, 5]), [[2], [0]])
""".strip().splitlines()
AXES = """
tf.rank(x) - 2
s[0] - 1
s[1] - 2
s[2] // 4
tf.constant(1)
tf.size(s[1:]) - 1
tf.placeholder_with_default(1, [])
""".strip().splitlines()

# Consumers of a vector `v`.
OF_VECTORS = """
tf.zeros(v)
tf.ones(v, tf.int32)
tf.fill(v, 1.)
tf.reshape(x, v)
tf.reshape(tf.zeros([24]), v)
tf.broadcast_to(0., v)
tf.broadcast_to(tf.zeros([1]), v)
tf.random_normal(v)
tf.random_uniform(v, maxval=3, dtype=tf.int32)
tf.truncated_normal(v)
tf.random.stateless_normal(v, [1, 2])
tf.random.poisson(1., v)
tf.random.gamma(v, 1.)
tf.tile(tf.zeros([1, 1, 1]), v)
tf.tile(tf.zeros([2, 5]), v)
tf.slice(tf.zeros([9, 9, 9]), [0, 0, 0], v)
tf.slice(tf.zeros([9, 9]), v, [-1, 2])
tf.scatter_nd([[0]], [0.], v)
tf.sparse_to_dense([[0, 0]], v, 1.)
tf.SparseTensor(tf.zeros([0, 2], tf.int64), tf.zeros([0]), tf.cast(v, tf.int64))
tf.sparse_tensor_to_dense(tf.SparseTensor(tf.zeros([0, 2], tf.int64), tf.zeros([0]), tf.cast(v, tf.int64)))
tf.transpose(tf.zeros(v))
tf.reduce_sum(tf.zeros(v), -1)
tf.zeros_like(tf.zeros(v))
tf.ones_like(tf.zeros(v))
tf.eye(2, batch_shape=v)
tf.placeholder_with_default(tf.zeros(v), [None, None])
tf.IndexedSlices(tf.zeros([1, 2]), [0], v)
tf.unravel_index(1, v)
tf.nn.dropout(tf.zeros(v), 0.5)
tf.contrib.util.constant_value(tf.convert_to_tensor(v))
""".strip().splitlines()

GROUPS: dict[str, tuple[list[str], str, list[str]]] = {
    "scalars": (OF_SCALARS, "n", SCALARS),
    "axes": (OF_AXES, "n", AXES),
    "vectors": (OF_VECTORS, "v", VECTORS),
}


def built(tf: Any, consumer: str, name: str, argument: str, source: str) -> tuple[Any, str]:
    """Returns the consumer's result, and its static shape or the class of the error."""
    names: dict[str, Any] = {"tf": tf, "np": np}
    tensor = tf.get_default_graph().get_tensor_by_name(f"{source}:0")
    names |= {"x": tensor, "s": tf.shape(tensor)}
    try:
        names[name] = eval(argument, names)
    except (ValueError, TypeError, AttributeError, IndexError) as error:
        return None, f"no argument: {kind(error)}"
    try:
        made = eval(consumer, names)
    except (ValueError, TypeError, AttributeError, NotImplementedError) as error:
        return None, kind(error)
    if not hasattr(made, "shape") or isinstance(made, np.ndarray | np.generic):
        return None, f"value {None if made is None else np.asarray(made).tolist()}"
    return made, written(made.shape)


def hidden(tf: Any, consumer: str, name: str, argument: str) -> Any:
    """The same program, but the argument and the shape of `x` are known only at run time."""
    tensor = tf.get_default_graph().get_tensor_by_name("rank:0")
    names: dict[str, Any] = {"tf": tf, "np": np, "x": tensor, "s": tf.shape(tensor)}
    value = eval(argument, names)
    parts = value if isinstance(value, list) else [value]
    unknown = [tf.placeholder_with_default(part, None) for part in parts]
    names[name] = unknown if isinstance(value, list) else unknown[0]
    return eval(consumer, names)


def kind(error: Exception) -> str:
    """Returns the class of an error."""
    return type(error).__name__


def written(shape: Any) -> str:
    """Returns a static shape as text: `2,?,3`, `?` for an unknown size; `unknown` without rank."""
    if shape.ndims is None:
        return "unknown"
    return "(" + ",".join("?" if size is None else str(size) for size in shape.as_list()) + ")"


def with_sources(tf: Any) -> dict[Any, Any]:
    """Creates the placeholders in the default graph and returns their feeds."""
    return {tf.placeholder(tf.float32, shape, name): FED for name, shape in SOURCES.items()}

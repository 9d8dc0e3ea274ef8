"""Convolutions in groups, pooling over channels, batches without images."""

from random import Random

PREAMBLE = """
def numbers(shape, speed=1.7):
    return tf.constant(np.float32(2 * np.sin(np.arange(np.prod(shape)) * speed)).reshape(shape))

def sloped(y, *xs):
    weights = tf.cos(tf.cast(tf.reshape(tf.range(tf.size(y)), tf.shape(y)), tf.float32))
    return [y, tf.gradients(tf.reduce_sum(y * weights), xs)]
"""


def _grouped(random: Random) -> str:
    groups, depth, share = random.randint(1, 3), random.randint(1, 2), random.randint(1, 2)
    image = [random.randint(0, 2), random.randint(3, 6), random.randint(3, 6), groups * depth]
    filters = [random.randint(1, 3), random.randint(1, 3), depth, groups * share]
    stride = random.choice([1, 2])
    dilation = 1 if stride == 2 else random.choice([1, 1, 2])
    padding = random.choice(["'SAME'", "'VALID'"])
    return (
        f"x, f = numbers({image}), numbers({filters}, 5.1)\n"
        f"sloped(tf.nn.conv2d(x, f, [1, {stride}, {stride}, 1], {padding}, "
        f"dilations=[1, {dilation}, {dilation}, 1]), x, f)"
    )


def _over_channels(random: Random) -> str:
    shape = [random.randint(0, 2), random.randint(1, 3), random.randint(1, 3), 6]
    window, stride = random.choice([(2, 2), (3, 3), (6, 6), (2, 1), (4, 4)])
    padding = random.choice(["'SAME'", "'VALID'"])
    return f"tf.nn.max_pool(numbers({shape}), [1, 1, 1, {window}], [1, 1, 1, {stride}], {padding})"


_ONE = "[0, 4, 4, 2]"
_EMPTY = [
    "sloped(tf.nn.conv2d(x, numbers([2, 2, 2, 3]), [1, 1, 1, 1], 'SAME'), x)",
    "sloped(tf.nn.depthwise_conv2d(x, numbers([2, 2, 2, 3]), [1, 1, 1, 1], 'SAME'), x)",
    "sloped(tf.nn.conv2d_transpose(x, numbers([2, 2, 3, 2]), [0, 8, 8, 3], 2), x)",
    "sloped(tf.nn.max_pool(x, 2, 2, 'SAME'), x)",
    "sloped(tf.nn.avg_pool(x, 2, 2, 'VALID'), x)",
    "sloped(tf.nn.lrn(x), x)",
    "sloped(tf.nn.softmax(x), x)",
    "sloped(tf.nn.log_softmax(x, axis=1), x)",
    "sloped(tf.nn.l2_normalize(x, -1), x)",
    "sloped(tf.nn.bias_add(x, [1.0, 2.0]), x)",
    "sloped(tf.nn.relu6(x), x)",
    "sloped(tf.nn.selu(x), x)",
    "tf.nn.moments(x, [0, 1, 2])",
    "tf.nn.moments(x, [1, 2])",
    "tf.nn.sufficient_statistics(x, [0, 1])",
    "tf.nn.weighted_moments(x, [1, 2], tf.ones([1, 4, 4, 1]))",
    "sloped(tf.nn.fused_batch_norm(x, [1.0, 2.0], [3.0, 4.0])[0], x)",
    "tf.nn.fused_batch_norm(x, [1.0, 2.0], [3.0, 4.0])[1:]",
    "sloped(tf.nn.softmax_cross_entropy_with_logits_v2(labels=x, logits=x), x)",
    "sloped(tf.nn.sigmoid_cross_entropy_with_logits(labels=x, logits=x), x)",
    "tf.nn.sparse_softmax_cross_entropy_with_logits(labels=tf.zeros([0], tf.int32), logits=x[:, 0, 0])",
    "tf.nn.top_k(x, 2)",
    "tf.nn.in_top_k(x[:, 0, 0], tf.zeros([0], tf.int32), 1)",
    "tf.nn.dropout(x, rate=0.5)",
    "tf.nn.l2_loss(x)",
    "tf.reduce_mean(x)",
    "tf.reduce_max(x, 0)",
    "tf.image.resize_bilinear(x, [2, 2])",
    "tf.nn.space_to_depth(x, 2)",
    "tf.nn.embedding_lookup(numbers([3, 2]), tf.zeros([0], tf.int32))",
]


def _cases() -> str:
    random = Random(21)
    blocks = [_grouped(random) for _ in range(30)]
    blocks += [_over_channels(random) for _ in range(10)]
    blocks += [f"x = numbers({_ONE})\n{each}" for each in _EMPTY]
    return "\n---\n" + "\n---\n".join(blocks)


EXPRESSIONS = _cases()

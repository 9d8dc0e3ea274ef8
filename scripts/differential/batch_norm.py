"""`tf.layers.batch_normalization` with all its arguments over several steps of training.

TensorFlow's Keras 3 has it no more: generate with `tf_keras` installed and TF_USE_LEGACY_KERAS=1.
"""

from random import Random

from differential._draw import keywords

PREAMBLE = '''
def trained(shape, static, training, flags=(True, True, False), dtype="float32", **options):
    """Names of variables, and for each step the output, a gradient and all variables after it."""
    random = np.random.RandomState(3)
    x = tf.placeholder(dtype, static)
    flag = tf.placeholder(tf.bool, []) if training is None else training
    y = tf.layers.batch_normalization(x, training=flag, **options)
    loss = tf.reduce_sum(tf.cast(y * tf.sin(x * 3.0) + 0.3 * tf.square(y), tf.float32))
    (slope,) = tf.gradients(loss, x)
    train = tf.no_op()
    if tf.trainable_variables():
        train = tf.train.GradientDescentOptimizer(0.02).minimize(loss)
    updates = tf.get_collection(tf.GraphKeys.UPDATE_OPS)
    results = [[(v.name, v.shape.as_list()) for v in tf.global_variables()], len(updates)]
    results.append([v.name for v in tf.trainable_variables()])
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        for step in flags:
            feeds = {x: random.uniform(-1, 2, shape)}
            if training is None:
                feeds[flag] = step
            results += session.run([y, slope], feeds)
            session.run([train, updates], feeds)
            results += session.run(tf.global_variables())
    return results

def adjusted(shape):
    ones = [1] * shape.shape[0].value
    return tf.fill(ones, 1.5), tf.fill(ones, 0.25)
'''


def _shared(random: Random) -> dict[str, str]:
    options = {}
    if random.random() < 0.5:
        options["momentum"] = random.choice(["0.9", "0.5"])
    for name in ("center", "scale", "trainable"):
        if random.random() < 0.2:
            options[name] = "False"
    if random.random() < 0.3:
        options["fused"] = random.choice(["True", "False", "None"])
    return options


def _case(random: Random) -> str:
    rank = random.choice([2, 2, 3, 4, 4, 4, 5])
    shape = [random.choice([2, 4, 6]), *(random.randint(1, 3) for _ in range(rank - 1))]
    axes = [random.choice([-1, -1, 1, rank - 1, random.randint(1, rank - 1)])]
    options = _shared(random)
    if random.random() < 0.2:
        axes = sorted(random.sample(range(1, rank), random.randint(1, rank - 1)))
        options["axis"] = str(axes)
    elif axes != [-1]:
        options["axis"] = str(axes[0])
    kept = [axis % rank for axis in axes]
    static = [None if random.random() < 0.4 and i not in kept else n for i, n in enumerate(shape)]
    if random.random() < 0.35:
        options["renorm"] = "True"
        options["renorm_momentum"] = random.choice(["0.99", "0.8"])
        limits = ["{'rmax': 1.5, 'rmin': 0.7, 'dmax': 0.3}", "{'rmax': 1.2}", "{'dmax': 0.1}"]
        options["renorm_clipping"] = random.choice(["None", *limits])
    elif random.random() < 0.1:
        options["dtype"] = "'float64'"
    if random.random() < 0.3:
        options["virtual_batch_size"] = random.choice(["1", "2", "2", "0"])
    if random.random() < 0.15:
        options["adjustment"] = "adjusted"
    training = random.choice(["True", "True", "False", "None", "None"])
    if random.random() < 0.2:
        options["flags"] = "[False, True, True]"
    return f"trained({shape}, {static}, {training}{keywords(options)})"


_RANDOM = Random(5)
EXPRESSIONS = "\n".join(_case(_RANDOM) for _ in range(40))

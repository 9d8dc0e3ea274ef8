"""Every loss of `tf.losses` with weights of every rank, their shapes known, in part, or not."""

from random import Random

from differential._draw import array, keywords, weights_shape

PREAMBLE = """
L = tf.losses

def loss(function, first, second, weights, static, **options):
    \"\"\"The loss and its gradients; `static` is what of the shapes is known: all, ranks, nothing.\"\"\"
    places, feeds = [], {}
    for each in (first, second, weights):
        if isinstance(each, np.ndarray):
            shape = {"all": each.shape, "ranks": [None] * each.ndim, "nothing": None}[static]
            places.append(tf.placeholder(each.dtype, shape))
            feeds[places[-1]] = each
        else:
            places.append(each)
    given = [place for place in places[:2] if place is not None]
    value = function(*given, weights=places[2], **options)
    real = [place for place in feeds if place.dtype.is_floating]
    slopes = [slope for slope in tf.gradients(value, real) if slope is not None]
    with tf.Session() as session:
        return session.run([value, *slopes], feeds)
"""

_FUNCTIONS = [
    "absolute_difference", "mean_squared_error", "log_loss", "hinge_loss", "huber_loss",
    "cosine_distance", "mean_pairwise_squared_error", "softmax_cross_entropy",
    "sparse_softmax_cross_entropy", "sigmoid_cross_entropy", "compute_weighted_loss",
]  # fmt: skip
_REDUCTIONS = ["NONE", "SUM", "SUM_OVER_BATCH_SIZE", "MEAN", "SUM_BY_NONZERO_WEIGHTS"]


def _case(random: Random, function: str) -> str:
    shape = [random.randint(random.randint(0, 1), 3) for _ in range(random.randint(1, 3))]
    kind = random.choice(["float32", "float32", "float32", "float64"])
    predictions = array(random, shape, 0.1, 0.9, kind)
    labels = array(random, shape, 0, 1, random.choice([kind, "int64"]))
    per_loss, options = shape, {}
    if function == "sparse_softmax_cross_entropy":
        lacks = shape[:-1] + ([1] if random.random() < 0.4 else [])
        labels = array(random, lacks, 0, max(0, shape[-1] - 1), "int64")
    if "softmax" in function:
        per_loss = shape[:-1]
    if function in ("softmax_cross_entropy", "sigmoid_cross_entropy") and random.random() < 0.4:
        options["label_smoothing"] = "0.1"
    if function == "cosine_distance":
        axis = random.randint(-1, len(shape) - 1)
        options["axis"] = str(axis)
        per_loss = list(shape)
        per_loss[axis] = 1
    if function == "compute_weighted_loss":
        labels, predictions = predictions, "None"
    if function != "mean_pairwise_squared_error":
        options["reduction"] = f"L.Reduction.{random.choice(_REDUCTIONS)}"
    weights = random.choice(["1.0", "0.0", "2"])
    if random.random() < 0.9:
        dtype = random.choice(["float32", "float32", "int64", "float64"])
        weights = array(random, weights_shape(random, per_loss), 0, 2, dtype)
    options["static"] = repr(random.choice(["all", "ranks", "nothing"]))
    return f"loss(L.{function}, {labels}, {predictions}, {weights}{keywords(options)})"


def _cases() -> str:
    random = Random(11)
    return "\n".join(_case(random, function) for function in _FUNCTIONS for _ in range(12))


EXPRESSIONS = _cases()

"""Every metric of `tf.metrics` with padding, weights of every rank and shapes known in part."""

from random import Random

from differential._draw import array, keywords, weights_shape

PREAMBLE = """
M = tf.metrics

def streamed(metric, batches, static, **options):
    \"\"\"The value, and update and value of each batch; `static` is what of the shapes is known.\"\"\"
    places = {}
    for name, each in batches[0].items():
        shape = {"all": each.shape, "ranks": [None] * each.ndim, "nothing": None}[static]
        places[name] = tf.placeholder(each.dtype, shape)
    value, update = metric(**places, **options)
    results = []
    with tf.Session() as session:
        session.run(tf.local_variables_initializer())
        results.append(session.run(value))
        for batch in batches:
            results.append(session.run(update, {places[name]: batch[name] for name in places}))
            results.append(session.run(value))
    return results

def sparse(metric, labels, predictions, **options):
    \"\"\"As `streamed`, for one batch of sparse labels: those of -9 are not there.\"\"\"
    places = np.argwhere(labels != -9)
    given = tf.SparseTensor(places, labels[labels != -9], labels.shape)
    value, update = metric(given, tf.constant(predictions), **options)
    with tf.Session() as session:
        session.run(tf.local_variables_initializer())
        return [session.run(update), session.run(value)]
"""

_COUNTS = ["true_positives", "true_negatives", "false_positives", "false_negatives"]
_MEANS = [
    "mean_absolute_error", "mean_squared_error", "root_mean_squared_error", "mean",
    "mean_tensor", "mean_relative_error", "mean_cosine_distance", "percentage_below",
]  # fmt: skip
_SCORES = [
    *(f"{name}_at_thresholds" for name in _COUNTS),
    "precision_at_thresholds", "recall_at_thresholds", "sensitivity_at_specificity",
    "specificity_at_sensitivity", "auc",
]  # fmt: skip
_AT_K = ["precision_at_k", "recall_at_k", "precision_at_top_k", "recall_at_top_k"]


def _options(random: Random, metric: str, rank: int) -> dict[str, str]:
    options = {}
    if metric.endswith("thresholds"):
        options["thresholds"] = random.choice(["[0.5]", "[0.1, 0.5, 0.9]", "[-0.1, 1.1]"])
    elif "_at_s" in metric:
        options[metric.split("_at_")[1]] = random.choice(["0.5", "0.9", "0.0", "1.0", "1.5"])
        options["num_thresholds"] = random.choice(["10", "200", "3"])
    elif metric == "auc":
        options["curve"] = random.choice(["'ROC'", "'PR'"])
        methods = ["'trapezoidal'", "'minoring'", "'majoring'", "'careful_interpolation'"]
        options["summation_method"] = random.choice(methods)
    elif metric in ("mean_iou", "mean_per_class_accuracy"):
        options["num_classes"] = "3"
    elif metric == "mean_cosine_distance":
        options["dim"] = str(random.randint(-1, rank - 1))
    elif metric == "percentage_below":
        options["threshold"] = "0.3"
    return options


def _case(random: Random, metric: str) -> str:
    shape = [random.randint(random.randint(0, 1), 3) for _ in range(random.randint(1, 3))]
    labels, predictions = ("int64", 0, 1), ("int64", 0, 1)
    if metric in _MEANS:
        labels = predictions = ("float32", -2, 2)
    elif metric in _SCORES:
        labels, predictions = (random.choice(["bool_", "int64"]), 0, 1), ("float32", 0, 1)
    elif metric in ("mean_iou", "mean_per_class_accuracy"):
        labels = predictions = ("int64", 0, 2)
    elif metric != "accuracy":
        labels = predictions = (random.choice(["bool_", "int64", "float32"]), 0, 1)
    guessed = random.choice([shape, shape, shape, [*shape, 1], shape[:-1]])
    weights = weights_shape(random, shape) if random.random() < 0.7 else None
    batches = []
    for _ in range(2):
        batch = {}
        if metric in ("mean", "mean_tensor", "percentage_below"):
            batch["values"] = array(random, shape, *labels[1:], labels[0])
        else:
            batch["labels"] = array(random, shape, *labels[1:], labels[0])
            batch["predictions"] = array(random, guessed, *predictions[1:], predictions[0])
        if metric == "mean_relative_error":
            batch["normalizer"] = array(random, shape, 0, 2, "int64").replace("int64", "float32")
        if weights is not None:
            batch["weights"] = array(random, weights, 0, 2, "float32")
        batches.append(", ".join(f"'{name}': {value}" for name, value in batch.items()))
    # TensorFlow's metrics of many classes fail where a rank is not known.
    known = (
        ["all", "ranks"] if "iou" in metric or "class" in metric else ["all", "ranks", "nothing"]
    )
    options = {"static": repr(random.choice(known)), **_options(random, metric, len(shape))}
    return f"streamed(M.{metric}, [{{{batches[0]}}}, {{{batches[1]}}}]{keywords(options)})"


def _case_at_k(random: Random, metric: str) -> str:
    classes = random.randint(2, 5)
    k = random.randint(1, classes)
    lead = [random.randint(1, 3) for _ in range(random.choice([1, 1, 2]))]
    shape = [*lead, random.randint(1, 4)] if random.random() < 0.8 else lead
    name = "predictions"
    predictions = array(random, [*lead, classes], 0, 1, "float32")
    if "top_k" in metric:
        name = "predictions_idx"
        predictions = array(random, [*lead, k], 0, classes - 1, "int64")
    options = {"k": str(k)}
    if random.random() < 0.4 and "average" not in metric:
        options["class_id"] = str(random.choice([0, classes - 1, -1, classes]))
    weights = array(random, weights_shape(random, lead), 0, 2, "float32")
    drawn = weights if random.random() < 0.5 else None
    low = random.choice([0, -1, -2])
    if len(shape) > len(lead) and random.random() < 0.35:
        labels = array(random, shape, -1, classes, "int64").replace("-1", "-9")
        extra = {} if drawn is None else {"weights": drawn}
        return f"sparse(M.{metric}, {labels}, {predictions}{keywords({**options, **extra})})"
    batch = {"labels": array(random, shape, low, classes, "int64"), name: predictions}
    if drawn is not None:
        batch["weights"] = drawn
    text = ", ".join(f"'{key}': {value}" for key, value in batch.items())
    options["static"] = repr(random.choice(["all", "ranks"]))
    return f"streamed(M.{metric}, [{{{text}}}]{keywords(options)})"


def _cases() -> str:
    random = Random(7)
    plain = [*_MEANS, *_COUNTS, *_SCORES, "precision", "recall", "accuracy", "mean_iou"]
    cases = [_case(random, name) for name in [*plain, "mean_per_class_accuracy"] for _ in range(4)]
    names = [*_AT_K, "average_precision_at_k", "average_precision_at_k"]
    cases += [_case_at_k(random, name) for name in names for _ in range(8)]
    return "\n".join(cases)


EXPRESSIONS = _cases()

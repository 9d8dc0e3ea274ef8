"""Streaming metrics: two batches, the value before, between and after."""

PREAMBLE = """
M = tf.metrics

def streamed(metric, *batches):
    \"\"\"The update's and the value's results of each batch of (labels, predictions, ...).\"\"\"
    places = [tf.placeholder(tf.convert_to_tensor(each).dtype, np.shape(each)) for each in batches[0]]
    return ran(places, metric(*places), batches)

def unshaped(metric, *batches):
    places = [tf.placeholder(tf.convert_to_tensor(each).dtype) for each in batches[0]]
    return ran(places, metric(*places), batches)

def ran(places, pair, batches):
    value, update = pair
    results = []
    with tf.Session() as session:
        session.run(tf.local_variables_initializer())
        results.append(session.run(value))
        for batch in batches:
            feeds = dict(zip(places, batch))
            results.append(session.run(update, feeds))
            results.append(session.run(value))
    return results

def names(pair):
    return [pair[0].name, pair[1].name, [v.name for v in tf.local_variables()], len(tf.get_collection(tf.GraphKeys.METRIC_VARIABLES)), tf.trainable_variables(), tf.global_variables(), [(v.dtype, v.shape.as_list()) for v in tf.local_variables()]]

l1, p1 = [0, 1, 1, 0, 1], [0.1, 0.8, 0.4, 0.6, 0.9]
l2, p2 = [1, 0, 0, 1, 1], [0.3, 0.2, 0.7, 0.5, 1.0]
w1, w2 = [1.0, 0.5, 2.0, 0.0, 1.0], [0.0, 1.0, 1.0, 3.0, 0.25]
i1, i2 = [0, 2, 1, 1], [1, 2, 2, 0]
j1, j2 = [0, 1, 1, 2], [1, 2, 0, 0]
scores1 = np.float32([[0.1, 0.6, 0.2, 0.1], [0.3, 0.1, 0.4, 0.2], [0.0, 0.1, 0.3, 0.6]])
scores2 = np.float32([[0.7, 0.1, 0.15, 0.05], [0.2, 0.5, 0.1, 0.2], [0.1, 0.2, 0.3, 0.4]])
many1, many2 = np.int64([[1, 2], [0, 3], [2, 3]]), np.int64([[0, 1], [2, 3], [3, 0]])
one1, one2 = np.int64([1, 0, 3]), np.int64([2, 1, 3])
sparse = lambda: tf.SparseTensor([[0, 0], [0, 1], [1, 0], [2, 0], [2, 1], [2, 2]], tf.constant([1, 2, 3, 0, 2, 3], tf.int64), [3, 3])
"""
WITH_RESPECT_TO = ()

_FAMILY = [
    "accuracy",
    "mean_absolute_error",
    "mean_squared_error",
    "root_mean_squared_error",
    "true_positives",
    "true_negatives",
    "false_positives",
    "false_negatives",
    "precision",
    "recall",
    "auc",
]
_THRESHOLDS = [
    "true_positives",
    "false_positives",
    "true_negatives",
    "false_negatives",
    "precision",
    "recall",
]

_LINES = [
    "streamed(M.mean, [[1.0, 2.0]], [[4.0, 6.0]])",
    "streamed(M.mean, [[1, 2]], [[4, 6]])",
    "streamed(lambda v: M.mean(v, 2.0), [[1.0, 2.0]], [[4.0, 6.0]])",
    "streamed(lambda v, w: M.mean(v, w), [[1.0, 2.0], [1.0, 0.0]], [[4.0, 6.0], [3.0, 1.0]])",
    "streamed(lambda v, w: M.mean(v, w), [[[1.0, 2.0], [3.0, 4.0]], [[1.0], [0.0]]])",
    "streamed(lambda v, w: M.mean(v, w), [[[1.0, 2.0], [3.0, 4.0]], [1.0, 2.0]])",
    "unshaped(lambda v, w: M.mean(v, w), [[1.0, 2.0], [1.0, 0.0]], [[4.0], [3.0]])",
    "unshaped(lambda v, w: M.mean(v, w), [[1.0, 2.0], 3.0])",
    "unshaped(lambda v, w: M.mean(v, w), [[1.0, 2.0], [1.0, 2.0, 3.0]])",
    "M.mean(tf.constant([1.0, 2.0]), tf.constant([1.0, 2.0, 3.0]))",
    "M.mean(tf.constant([[1.0, 2.0]]), tf.constant([[1.0], [2.0]]))",
    "M.mean(tf.constant([[1.0, 2.0]]), tf.constant([[[1.0]]]))",
    "streamed(M.mean_tensor, [[1.0, 2.0]], [[4.0, 6.0]])",
    "streamed(lambda v, w: M.mean_tensor(v, w), [[1.0, 2.0], [1.0, 0.0]], [[4.0, 6.0], [3.0, 0.0]])",
    "streamed(lambda v: M.mean_tensor(v, 0.5), [[[1.0, 2.0], [3.0, 4.0]]])",
    "streamed(lambda v: M.percentage_below(v, 2.5), [[1.0, 2.0, 3.0]], [[4.0, 6.0, 0.0]])",
    "streamed(lambda v, w: M.percentage_below(v, 2.5, weights=w), [[1.0, 2.0, 3.0], [1.0, 0.0, 1.0]])",
    "names(M.percentage_below(tf.constant([1.0]), 2.0))",
    "names(M.mean(tf.constant([1.0])))",
    "names(M.mean_tensor(tf.constant([1.0, 2.0])))",
    "names(M.mean(tf.constant([1.0]), name='loss'))",
    "[names(M.mean(tf.constant([1.0]))), names(M.mean(tf.constant([2.0])))]",
    "streamed(M.accuracy, [i1, j1], [i2, j2])",
    "streamed(M.accuracy, [np.float32(i1), j1], [np.float32(i2), j2])",
    "streamed(M.accuracy, [['a', 'b'], ['a', 'c']])",
    "streamed(M.accuracy, [[True, False], [True, True]])",
    "streamed(M.accuracy, [np.reshape(i1, [4, 1]), j1], [np.reshape(i2, [4, 1]), j2])",
    "streamed(M.accuracy, [i1, np.reshape(j1, [4, 1])], [i2, np.reshape(j2, [4, 1])])",
    "unshaped(M.accuracy, [i1, np.reshape(j1, [4, 1])], [i2, j2])",
    "M.accuracy(tf.constant([1, 2]), tf.constant([1, 2, 3]))",
    "M.accuracy(tf.constant([[1, 2]]), tf.constant([1, 2]))",
    "M.accuracy(labels=tf.constant([1, 2]), predictions=tf.constant([1, 2]), weights=tf.constant([1.0, 2.0, 3.0]))",
    "M.accuracy([1, 2], [1, 0])[1]",
    "M.accuracy(np.array([1, 2, 3]), np.array([1, 2, 2]), [1.0, 2.0, 1.0])[1]",
    "streamed(lambda l, p: M.mean_relative_error(l, p, [2.0, 0.0, 1.0, 4.0, 0.5]), [np.float32(l1), p1], [np.float32(l2), p2])",
    "streamed(lambda l, p, w: M.mean_relative_error(l, p, l, w), [np.float32(l1), p1, w1], [np.float32(l2), p2, w2])",
    "names(M.mean_relative_error(tf.constant([1.0]), tf.constant([1.0]), tf.constant([1.0])))",
    "streamed(lambda l, p: M.mean_cosine_distance(l, p, 1), [[[1.0, 0.0], [0.0, 1.0]], [[0.6, 0.8], [0.0, -1.0]]])",
    "streamed(lambda l, p, w: M.mean_cosine_distance(l, p, 1, w), [[[1.0, 0.0], [0.0, 1.0]], [[0.6, 0.8], [0.0, -1.0]], [[3.0], [1.0]]])",
    "names(M.mean_cosine_distance(tf.constant([[1.0]]), tf.constant([[1.0]]), 1))",
    "streamed(lambda l, p: M.mean_iou(l, p, 3), [i1, j1], [i2, j2])",
    "streamed(lambda l, p: M.mean_iou(l, p, 5), [i1, j1], [i2, j2])",
    "streamed(lambda l, p, w: M.mean_iou(l, p, 3, w), [i1, j1, [1.0, 0.5, 0.0, 2.0]], [i2, j2, [1.0, 1.0, 1.0, 1.0]])",
    "streamed(lambda l, p: M.mean_iou(l, p, 3), [np.reshape(i1, [2, 2]), np.reshape(j1, [2, 2])])",
    "streamed(lambda l, p: M.mean_iou(l, p, 2), [i1, j1])",
    "M.mean_iou(tf.constant([1, 2]), tf.constant([1, 2, 0]), 3)",
    "names(M.mean_iou(tf.constant([1]), tf.constant([1]), 3))",
    "streamed(lambda l, p: M.mean_per_class_accuracy(l, p, 3), [i1, j1], [i2, j2])",
    "streamed(lambda l, p, w: M.mean_per_class_accuracy(l, p, 3, w), [i1, j1, [1.0, 0.5, 0.0, 2.0]], [i2, j2, [1.0, 1.0, 1.0, 1.0]])",
    "names(M.mean_per_class_accuracy(tf.constant([1]), tf.constant([1]), 3))",
    "streamed(lambda l, p: M.auc(l, p, curve='PR'), [l1, p1], [l2, p2])",
    "streamed(lambda l, p: M.auc(l, p, curve='PR', summation_method='careful_interpolation'), [l1, p1], [l2, p2])",
    "streamed(lambda l, p, w: M.auc(l, p, w, curve='PR', summation_method='careful_interpolation'), [l1, p1, w1], [l2, p2, w2])",
    "streamed(lambda l, p: M.auc(l, p, summation_method='careful_interpolation'), [l1, p1], [l2, p2])",
    "streamed(lambda l, p: M.auc(l, p, num_thresholds=3), [l1, p1], [l2, p2])",
    "streamed(lambda l, p: M.auc(l, p, num_thresholds=20, summation_method='minoring'), [l1, p1], [l2, p2])",
    "streamed(lambda l, p: M.auc(l, p, num_thresholds=20, curve='PR', summation_method='majoring'), [l1, p1], [l2, p2])",
    "streamed(lambda l, p: M.auc(l, p, thresholds=[0.5, 0.25]), [l1, p1], [l2, p2])",
    "M.auc(l1, p1, curve='XYZ')",
    "M.auc(l1, tf.constant(p1), summation_method='none')",
    "M.auc(tf.constant([1, 0]), tf.constant([0.5, 1.5]))",
    "M.auc(tf.constant([1, 0]), tf.constant([-0.1, 0.5]))[1]",
    "M.auc(tf.constant([1, 0]), tf.constant([0.1, 0.5, 0.5]))",
    "M.auc(np.ones([3, 2]), np.float32([[0.1, 0.5], [0.2, 0.3], [1.0, 0.0]]), np.float32([[1], [2], [1]]))[1]",
    "streamed(lambda l, p: M.sensitivity_at_specificity(l, p, 0.7), [l1, p1], [l2, p2])",
    "streamed(lambda l, p, w: M.sensitivity_at_specificity(l, p, 0.3, w, num_thresholds=11), [l1, p1, w1], [l2, p2, w2])",
    "streamed(lambda l, p: M.specificity_at_sensitivity(l, p, 0.7), [l1, p1], [l2, p2])",
    "streamed(lambda l, p, w: M.specificity_at_sensitivity(l, p, 0.3, w, num_thresholds=11), [l1, p1, w1], [l2, p2, w2])",
    "M.sensitivity_at_specificity([1], [0.5], 1.5)",
    "M.specificity_at_sensitivity([1], [0.5], -0.5)",
    "names(M.specificity_at_sensitivity(tf.constant([1]), tf.constant([0.5]), 0.5))",
    "names(M.sensitivity_at_specificity(tf.constant([1]), tf.constant([0.5]), 0.5))",
    "M.precision([0, 0], [0, 0])[1]",
    "M.recall([0, 0], [0, 0])[1]",
    "M.precision([True, False, True], [0.5, 0.0, 0.0])[1]",
    "M.true_positives([[1, 1], [1, 0]], [[1, 0], [1, 0]], [[2.0], [3.0]])[1]",
    "M.true_positives([1, 1], [1, 0], [2.0, 3.0, 4.0])",
]
for _name in _FAMILY:
    _LINES += [
        f"streamed(M.{_name}, [l1, np.float32(p1).round()], [l2, np.float32(p2).round()])"
        if _name in ("accuracy", "precision", "recall") or "posi" in _name or "nega" in _name
        else f"streamed(M.{_name}, [np.float32(l1), p1], [np.float32(l2), p2])",
        f"streamed(M.{_name}, [np.float32(l1), p1, w1], [np.float32(l2), p2, w2])",
        f"streamed(lambda l, p: M.{_name}(l, p, weights=2.0), [np.float32(l1), p1])",
        f"streamed(M.{_name}, [np.float32(l1), p1, np.reshape(w1, [5, 1])])",
        f"unshaped(M.{_name}, [np.float32(l1), p1, w1], [np.float32(l2), p2, w2])",
        f"names(M.{_name}(tf.constant([1.0]), tf.constant([1.0])))",
        f"names(M.{_name}(tf.constant([1.0]), tf.constant([1.0]), name='mine'))",
        f"[len(M.{_name}(tf.constant([1.0]), tf.constant([1.0]), None, metrics_collections=['a', 'b'], updates_collections='c')), [len(tf.get_collection(c)) for c in 'abc']]",
    ]
for _name in _THRESHOLDS:
    _LINES += [
        f"streamed(lambda l, p: M.{_name}_at_thresholds(l, p, [0.2, 0.5, 0.85]), [l1, p1], [l2, p2])",
        f"streamed(lambda l, p, w: M.{_name}_at_thresholds(l, p, [0.5], w), [l1, p1, w1], [l2, p2, w2])",
        f"names(M.{_name}_at_thresholds(tf.constant([1]), tf.constant([0.5]), [0.1, 0.2]))",
    ]
for _name in ("precision", "recall", "average_precision", "sparse_precision"):
    _LINES += [
        f"streamed(lambda l, p: M.{_name}_at_k(l, p, 2), [many1, scores1], [many2, scores2])",
        f"streamed(lambda l, p: M.{_name}_at_k(l, p, 1), [one1, scores1], [one2, scores2])",
        f"streamed(lambda l, p: M.{_name}_at_k(l, p, 3), [np.reshape(one1, [3, 1]), scores1])",
        f"streamed(lambda l, p, w: M.{_name}_at_k(l, p, k=2, weights=w), [many1, scores1, [1.0, 0.0, 2.0]], [many2, scores2, [0.5, 1.0, 1.0]])",
        f"streamed(lambda p: M.{_name}_at_k(sparse(), p, 2), [scores1], [scores2])",
        f"names(M.{_name}_at_k(many1, scores1, 2))",
        f"names(M.{_name}_at_k(many1, scores1, 2, name='mine'))",
        f"M.{_name}_at_k(many1, scores1, 2, weights=tf.constant([1.0, 2.0]))",
    ]
for _name in ("precision", "recall"):
    _LINES += [
        f"streamed(lambda l, p: M.{_name}_at_k(l, p, 2, class_id=3), [many1, scores1], [many2, scores2])",
        f"streamed(lambda p: M.{_name}_at_k(sparse(), p, 2, class_id=2), [scores1], [scores2])",
        f"names(M.{_name}_at_k(many1, scores1, 2, class_id=1))",
        f"streamed(lambda l, p: M.{_name}_at_top_k(l, p), [many1, many2], [many2, many1])",
        f"streamed(lambda l, p: M.{_name}_at_top_k(l, p, 2, 1), [many1, many2], [many2, many1])",
        f"names(M.{_name}_at_top_k(many1, tf.constant(many2), 2))",
        f"names(M.{_name}_at_top_k(many1, tf.constant(many2)))",
        f"M.{_name}_at_k(tf.constant([[1, 2]]), scores1[:1], 2)[1]",
    ]
EXPRESSIONS = "\n".join(_LINES)

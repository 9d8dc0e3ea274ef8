"""Labels, weights and losses of a batch: what is taken, and what is refused, and when."""

import numpy as np
import pytest

import sparkflow as tf
from sparkflow.contrib import estimator as contrib
from support.heads import evaluated

LOGITS = np.float32([[1.0], [-1.0], [0.5]])
THREE = np.float32([[1, 0, 0], [0, 2, 0], [0, 0, 3]])
FAILED = tf.errors.InvalidArgumentError


def unknown(values):
    """A tensor of no known shape."""
    fed = tf.placeholder_with_default(values, None)
    assert fed.shape.ndims is None
    return fed


def entropies(labels, logits):
    p = 1 / (1 + np.exp(-np.float64(logits)))
    return -(labels * np.log(p) + (1 - labels) * np.log(1 - p))


def test_a_binary_head_learns_from_probabilities():
    soft = np.float32([[0.9], [0.2], [0.5]])
    loss, metrics = evaluated(
        contrib.binary_classification_head(), LOGITS, lambda: tf.constant(soft)
    )
    assert loss == pytest.approx(entropies(soft, LOGITS).mean(), rel=1e-6)
    assert metrics["label/mean"] == pytest.approx(soft.mean())
    assert metrics["accuracy"] == 0.0


@pytest.mark.parametrize("given", [[True, False, True], np.uint8([1, 0, 1]), [1.0, 0.0, 1.0]])
def test_a_binary_head_takes_classes_of_any_kind(given):
    loss, metrics = evaluated(
        contrib.binary_classification_head(), LOGITS, lambda: tf.constant(given)
    )
    assert loss == pytest.approx(entropies(np.float32([[1], [0], [1]]), LOGITS).mean(), rel=1e-6)
    assert metrics["accuracy"] == 1.0


def test_a_multi_label_head_learns_from_probabilities():
    soft = np.float32([[0.9, 0.2, 0.0]])
    loss, _ = evaluated(contrib.multi_label_head(3), THREE[:1], lambda: tf.constant(soft))
    assert loss == pytest.approx(entropies(soft, THREE[:1]).mean(), rel=1e-6)


SPARSE = {"indices": [[0, 0]], "dense_shape": [1, 1]}


@pytest.mark.parametrize(
    ("head", "logits", "labels", "message"),
    [
        (contrib.binary_classification_head(), LOGITS, [0.0, 1.5, 1.0], "must be <= n_classes - 1"),
        (contrib.binary_classification_head(), LOGITS, [0.0, -0.5, 1.0], "must be >= 0"),
        (contrib.binary_classification_head(), LOGITS, [0, np.nan, 1], "must be <="),
        (contrib.multi_class_head(3), THREE, [0, 1, 3], "must be <= n_classes - 1"),
        (contrib.multi_label_head(3), THREE[:1], [[0, 2, 0]], r"with values in \[0, 1\]"),
        (contrib.multi_label_head(3), THREE[:1], [[0, -0.5, 0]], r"with values in \[0, 1\]"),
        (contrib.multi_label_head(3), THREE[:1], {**SPARSE, "values": [3]}, r"values in \[0, 3\)"),
    ],
)
def test_numbers_that_are_no_classes_end_the_run(head, logits, labels, message):
    def given():
        return tf.SparseTensor(**labels) if isinstance(labels, dict) else tf.constant(labels)

    with pytest.raises(FAILED, match=message):
        evaluated(head, logits, given)


@pytest.mark.parametrize("dtype", [tf.float32, tf.bool])
def test_several_classes_are_whole_numbers(dtype):
    head = contrib.multi_class_head(3)
    with pytest.raises(ValueError, match="Labels dtype should be integer"):
        evaluated(head, THREE, lambda: tf.cast([0, 1, 1], dtype))
    floats = {**SPARSE, "values": [1.0]}
    with pytest.raises(ValueError, match="Labels dtype should be integer"):
        evaluated(contrib.multi_label_head(3), THREE[:1], lambda: tf.SparseTensor(**floats))


HEADS = {
    "numbers": (lambda **given: contrib.regression_head(**given), LOGITS, [1, 2, 3]),
    "two": (lambda **given: contrib.binary_classification_head(**given), LOGITS, [0, 1, 1]),
    "several": (lambda **given: contrib.multi_class_head(3, **given), THREE, [0, 1, 2]),
}


@pytest.mark.parametrize("kind", HEADS)
def test_labels_are_not_broadcast(kind):
    head, logits, labels = HEADS[kind]
    column = np.int64(labels)[:, None]
    right, _ = evaluated(head(), logits, lambda: tf.constant(labels))
    assert evaluated(head(), logits, lambda: unknown(column))[0] == right
    for wrong in (labels, labels[:1], [labels[:1]], 1, [[labels]]):
        with pytest.raises((ValueError, FAILED), match="labels shape must be"):
            evaluated(head(), logits, lambda value=wrong: unknown(value))
    for wrong in (labels[:1], 1, [[1], [2]]):
        with pytest.raises(ValueError, match="labels shape must be"):
            evaluated(head(), logits, lambda value=wrong: tf.constant(value))
    with pytest.raises(ValueError, match="SparseTensor labels are not supported"):
        evaluated(head(), logits, lambda: tf.SparseTensor(values=[1], **SPARSE))


def test_logits_are_as_many_as_the_head_has():
    head = contrib.binary_classification_head()

    def loss(logits):
        with tf.Graph().as_default(), tf.Session() as session:
            spec = head.create_estimator_spec({}, "eval", logits(), tf.constant([[1], [0], [1]]))
            return session.run(spec.loss)

    assert loss(lambda: unknown(LOGITS)) == loss(lambda: tf.constant(LOGITS))
    for wrong in (THREE, LOGITS[:, 0], [1.0]):
        with pytest.raises(FAILED, match="logits shape must be"):
            loss(lambda value=wrong: unknown(value))
        with pytest.raises(ValueError, match="logits shape must be"):
            loss(lambda value=wrong: tf.constant(value))


def test_batches_that_differ_in_size_are_refused_by_the_run():
    with tf.Graph().as_default():
        fed = tf.placeholder(tf.float32, [None, 1])
        spec = contrib.regression_head().create_estimator_spec({}, "eval", tf.constant(LOGITS), fed)
        with tf.Session() as session:
            assert session.run(spec.loss, {fed: LOGITS}) == 0.0
            with pytest.raises(FAILED, match="labels shape must be"):
                session.run(spec.loss, {fed: LOGITS[:1]})


@pytest.mark.parametrize("kind", HEADS)
def test_weights_are_not_broadcast(kind):
    head, logits, labels = HEADS[kind]
    head = head(weight_column="w")

    def loss(weights):
        with tf.Graph().as_default():
            features = {"w": weights()}
            given = (features, "eval", tf.constant(logits), tf.constant(labels))
            spec = head.create_estimator_spec(*given)
            with tf.Session() as session:
                return session.run(spec.loss)

    right = loss(lambda: tf.constant([2.0, 1.0, 0.0]))
    for same in ([2, 1, 0], [[2], [1], [0]]):
        assert loss(lambda value=same: unknown(value)) == right
    kept = loss(lambda: tf.constant([True, False, True]))
    assert kept == loss(lambda: tf.constant([1, 0, 1]))
    with pytest.raises(FAILED, match="weights shape must be"):
        loss(lambda: unknown([2.0]))
    with pytest.raises(ValueError, match="weights shape must be"):
        loss(lambda: tf.constant([2.0]))
    with pytest.raises(ValueError, match="castable to float"):
        loss(lambda: tf.constant(["a", "b", "c"]))


def test_numbers_are_weighed_one_by_one():
    head = contrib.regression_head(
        label_dimension=2, weight_column="w", loss_reduction=tf.losses.Reduction.SUM
    )
    weights = np.float32([[1, 0], [0, 3]])
    logits = np.float32([[1, 2], [3, 4]])
    loss, _ = evaluated(head, logits, lambda: tf.zeros([2, 2]), {"w": weights})
    assert loss == 1 + 3 * 16
    with pytest.raises(ValueError, match="weights shape must be"):
        evaluated(head, logits, lambda: tf.zeros([2, 2]), {"w": np.ones([2, 3], np.float32)})


def test_a_weight_column_is_a_name_or_a_column():
    head = contrib.regression_head(weight_column=3)
    with pytest.raises(TypeError, match="either a string or a dense column"):
        evaluated(head, LOGITS, lambda: tf.constant([1, 2, 3]))


def test_a_loss_of_ones_own_gets_numbers_and_returns_one_for_each_example():
    squares = contrib.binary_classification_head(
        loss_fn=lambda labels, logits: tf.square(labels - logits)
    )
    loss, _ = evaluated(squares, LOGITS, lambda: tf.constant([1, 0, 1]))
    assert loss == pytest.approx((0 + 1 + 0.25) / 3)

    def whole(labels, logits):
        return tf.reduce_sum(logits)

    for head, logits, labels in HEADS.values():
        with pytest.raises(ValueError, match="loss_fn must return"):
            evaluated(head(loss_fn=whole), logits, lambda value=labels: tf.constant(value))
    several = contrib.multi_class_head(3, loss_fn=lambda labels, logits: logits)
    with pytest.raises(ValueError, match="loss_fn must return"):
        evaluated(several, THREE, lambda: tf.constant([0, 1, 2]))


def test_areas_under_curves_are_those_of_the_default_summation():
    labels = np.int64([1, 1, 0])
    _, metrics = evaluated(
        contrib.binary_classification_head(), LOGITS, lambda: tf.constant(labels)
    )
    found = 1 / (1 + np.exp(-LOGITS[:, 0]))
    with tf.Graph().as_default(), tf.Session() as session:
        value, update = tf.metrics.auc(labels, found, curve="PR")
        session.run(tf.local_variables_initializer())
        session.run(update)
        assert metrics["auc_precision_recall"] == pytest.approx(session.run(value), rel=1e-6)
    many = np.eye(3, dtype=np.int64)
    _, metrics = evaluated(contrib.multi_label_head(3), THREE - 1, lambda: tf.constant(many))
    found = 1 / (1 + np.exp(1 - THREE))
    with tf.Graph().as_default(), tf.Session() as session:
        value, update = tf.metrics.auc(many, found, curve="PR")
        session.run(tf.local_variables_initializer())
        session.run(update)
        assert metrics["auc_precision_recall"] == pytest.approx(session.run(value), rel=1e-6)

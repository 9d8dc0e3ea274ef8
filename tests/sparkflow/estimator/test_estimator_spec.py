import pytest

import sparkflow as tf
from sparkflow.estimator import EstimatorSpec, ModeKeys


@pytest.fixture(autouse=True)
def parts():
    with tf.Graph().as_default():
        yield {"loss": tf.constant(1.0), "train_op": tf.no_op(), "predictions": tf.constant([1.0])}


def test_modes_have_tensorflows_names():
    assert (ModeKeys.TRAIN, ModeKeys.EVAL, ModeKeys.PREDICT) == ("train", "eval", "infer")


@pytest.mark.parametrize(
    ("mode", "missing"),
    [
        (ModeKeys.TRAIN, "loss"),
        (ModeKeys.TRAIN, "train_op"),
        (ModeKeys.EVAL, "loss"),
        (ModeKeys.PREDICT, "predictions"),
    ],
)
def test_what_a_mode_requires(parts, mode, missing):
    EstimatorSpec(mode, **parts)
    del parts[missing]
    with pytest.raises(ValueError, match=f"Missing {missing}"):
        EstimatorSpec(mode, **parts)


def test_what_a_mode_does_not_require_is_optional(parts):
    spec = EstimatorSpec(ModeKeys.PREDICT, predictions={"probability": parts["predictions"]})
    assert spec.predictions == {"probability": parts["predictions"]}
    assert spec.loss is None
    assert spec.train_op is None
    assert spec.eval_metric_ops == {}
    assert spec.training_hooks == ()
    assert EstimatorSpec(ModeKeys.EVAL, loss=parts["loss"]).predictions == {}


def test_a_loss_of_one_element_becomes_a_scalar(parts):
    spec = EstimatorSpec(ModeKeys.EVAL, loss=tf.constant([[2.0]]))
    assert spec.loss.shape == []
    with pytest.raises(ValueError, match="Loss must be scalar"):
        EstimatorSpec(ModeKeys.EVAL, loss=tf.constant([1.0, 2.0]))


@pytest.mark.parametrize(
    ("changes", "error", "text"),
    [
        ({"mode": "fit"}, ValueError, "mode 'fit' is not one of"),
        ({"predictions": {"a": 1.0}}, TypeError, r"predictions\['a'\] must be Tensor"),
        ({"predictions": [1.0]}, TypeError, "predictions must be Tensor"),
        ({"loss": 1.0}, TypeError, "loss must be Tensor, given: 1.0"),
        ({"train_op": "step"}, TypeError, "train_op must be Operation or Tensor"),
        ({"eval_metric_ops": [1]}, TypeError, "eval_metric_ops must be a dict"),
        ({"eval_metric_ops": {"a": 1}}, TypeError, r"\(metric_value, update_op\) tuples"),
        ({"eval_metric_ops": {"a": (1, 2)}}, TypeError, "must be Tensor or Operation, given: 1"),
    ],
    ids=str,
)
def test_what_does_not_fit_is_named(parts, changes, error, text):
    with pytest.raises(error, match=text):
        EstimatorSpec(**{"mode": ModeKeys.TRAIN, **parts, **changes})


def test_everything_must_be_in_the_default_graph(parts):
    with tf.Graph().as_default(), pytest.raises(ValueError, match="must be from the default graph"):
        EstimatorSpec(ModeKeys.TRAIN, **parts)


def test_variables_may_stand_for_tensors(parts):
    w = tf.Variable(1.0)
    assert EstimatorSpec(ModeKeys.EVAL, loss=w, predictions=w).loss is w.value()

"""`tf.estimator`: what a model_fn gives to a trainer."""

from sparkflow.estimator.estimator_spec import EstimatorSpec
from sparkflow.estimator.mode_keys import ModeKeys

__all__ = ["EstimatorSpec", "ModeKeys"]

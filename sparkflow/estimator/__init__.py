"""`tf.estimator`: models as functions, trained, evaluated, asked and exported."""

from sparkflow.estimator import export, inputs
from sparkflow.estimator.estimator import Estimator
from sparkflow.estimator.estimator_spec import EstimatorSpec
from sparkflow.estimator.mode_keys import ModeKeys
from sparkflow.estimator.run_config import RunConfig
from sparkflow.estimator.warm_start import WarmStartSettings
from sparkflow.train.checkpoints.warm_starting import VocabInfo

__all__ = [
    "Estimator",
    "EstimatorSpec",
    "ModeKeys",
    "RunConfig",
    "VocabInfo",
    "WarmStartSettings",
    "export",
    "inputs",
]

"""`tf.estimator`: models as functions, trained, evaluated, asked and exported."""

from sparkflow.estimator import export, inputs
from sparkflow.estimator.canned.baseline import BaselineClassifier, BaselineRegressor
from sparkflow.estimator.canned.combined import (
    DNNLinearCombinedClassifier,
    DNNLinearCombinedRegressor,
)
from sparkflow.estimator.canned.dnn import DNNClassifier, DNNRegressor
from sparkflow.estimator.canned.linear import LinearClassifier, LinearRegressor
from sparkflow.estimator.estimator import Estimator
from sparkflow.estimator.estimator_spec import EstimatorSpec
from sparkflow.estimator.exporters import (
    BestExporter,
    Exporter,
    FinalExporter,
    LatestExporter,
)
from sparkflow.estimator.mode_keys import ModeKeys
from sparkflow.estimator.run_config import RunConfig
from sparkflow.estimator.training import (
    EvalSpec,
    TrainSpec,
    train_and_evaluate,
)
from sparkflow.estimator.warm_start import WarmStartSettings
from sparkflow.train.checkpoints.warm_starting import VocabInfo

__all__ = [
    "BaselineClassifier",
    "BaselineRegressor",
    "BestExporter",
    "DNNClassifier",
    "DNNLinearCombinedClassifier",
    "DNNLinearCombinedRegressor",
    "DNNRegressor",
    "Estimator",
    "EstimatorSpec",
    "EvalSpec",
    "Exporter",
    "FinalExporter",
    "LatestExporter",
    "LinearClassifier",
    "LinearRegressor",
    "ModeKeys",
    "RunConfig",
    "TrainSpec",
    "VocabInfo",
    "WarmStartSettings",
    "export",
    "inputs",
    "train_and_evaluate",
]

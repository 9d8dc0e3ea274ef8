"""What `tf.estimator` offers, by module that defines it. Made by `scripts/generate_api.py`."""

from sparkflow.estimator import experimental, export, inputs
from sparkflow.estimator.adding_metrics import add_metrics
from sparkflow.estimator.estimator import Estimator
from sparkflow.estimator.estimator_spec import EstimatorSpec
from sparkflow.estimator.exporters import BestExporter, Exporter, FinalExporter, LatestExporter
from sparkflow.estimator.mode_keys import ModeKeys
from sparkflow.estimator.run_config import RunConfig
from sparkflow.estimator.training import EvalSpec, TrainSpec, train_and_evaluate
from sparkflow.estimator.warm_start import WarmStartSettings
from sparkflow.legacy.estimators.baseline import BaselineClassifier, BaselineRegressor
from sparkflow.legacy.estimators.combined import (
    DNNLinearCombinedClassifier,
    DNNLinearCombinedEstimator,
    DNNLinearCombinedRegressor,
)
from sparkflow.legacy.estimators.dnn import DNNClassifier, DNNEstimator, DNNRegressor
from sparkflow.legacy.estimators.linear import LinearClassifier, LinearEstimator, LinearRegressor
from sparkflow.legacy.estimators.parse_specs import (
    classifier_parse_example_spec,
    regressor_parse_example_spec,
)
from sparkflow.train.checkpoints.warm_starting import VocabInfo
from sparkflow.train.hooks.checkpoint_hook import CheckpointSaverHook, CheckpointSaverListener
from sparkflow.train.hooks.logging_hooks import (
    LoggingTensorHook,
    NanLossDuringTrainingError,
    NanTensorHook,
)
from sparkflow.train.hooks.profiler_hook import ProfilerHook
from sparkflow.train.hooks.step_hooks import (
    FeedFnHook,
    FinalOpsHook,
    GlobalStepWaiterHook,
    StepCounterHook,
    StopAtStepHook,
)
from sparkflow.train.hooks.step_timer import SecondOrStepTimer
from sparkflow.train.hooks.summary_hook import SummarySaverHook
from sparkflow.train.session_run_hook import (
    SessionRunArgs,
    SessionRunContext,
    SessionRunHook,
    SessionRunValues,
)

__all__ = [
    "BaselineClassifier",
    "BaselineRegressor",
    "BestExporter",
    "CheckpointSaverHook",
    "CheckpointSaverListener",
    "DNNClassifier",
    "DNNEstimator",
    "DNNLinearCombinedClassifier",
    "DNNLinearCombinedEstimator",
    "DNNLinearCombinedRegressor",
    "DNNRegressor",
    "Estimator",
    "EstimatorSpec",
    "EvalSpec",
    "Exporter",
    "FeedFnHook",
    "FinalExporter",
    "FinalOpsHook",
    "GlobalStepWaiterHook",
    "LatestExporter",
    "LinearClassifier",
    "LinearEstimator",
    "LinearRegressor",
    "LoggingTensorHook",
    "ModeKeys",
    "NanLossDuringTrainingError",
    "NanTensorHook",
    "ProfilerHook",
    "RunConfig",
    "SecondOrStepTimer",
    "SessionRunArgs",
    "SessionRunContext",
    "SessionRunHook",
    "SessionRunValues",
    "StepCounterHook",
    "StopAtStepHook",
    "SummarySaverHook",
    "TrainSpec",
    "VocabInfo",
    "WarmStartSettings",
    "add_metrics",
    "classifier_parse_example_spec",
    "experimental",
    "export",
    "inputs",
    "regressor_parse_example_spec",
    "train_and_evaluate",
]

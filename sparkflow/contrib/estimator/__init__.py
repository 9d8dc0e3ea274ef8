"""`tf.contrib.estimator`: heads, early stopping, and what changes an estimator's model."""

from sparkflow.contrib.estimator.clipping import clip_gradients_by_norm
from sparkflow.contrib.estimator.forwarding import forward_features
from sparkflow.contrib.estimator.heads import (
    binary_classification_head,
    multi_class_head,
    multi_label_head,
    regression_head,
)
from sparkflow.estimator.adding_metrics import add_metrics
from sparkflow.estimator.early_stopping import (
    make_early_stopping_hook,
    make_stop_at_checkpoint_step_hook,
    read_eval_metrics,
    stop_if_higher_hook,
    stop_if_lower_hook,
    stop_if_no_decrease_hook,
    stop_if_no_increase_hook,
)
from sparkflow.estimator.in_memory import InMemoryEvaluatorHook
from sparkflow.legacy.estimators.combined import DNNLinearCombinedEstimator
from sparkflow.legacy.estimators.dnn import DNNEstimator
from sparkflow.legacy.estimators.linear import LinearEstimator

__all__ = [
    "DNNEstimator",
    "DNNLinearCombinedEstimator",
    "InMemoryEvaluatorHook",
    "LinearEstimator",
    "add_metrics",
    "binary_classification_head",
    "clip_gradients_by_norm",
    "forward_features",
    "make_early_stopping_hook",
    "make_stop_at_checkpoint_step_hook",
    "multi_class_head",
    "multi_label_head",
    "read_eval_metrics",
    "regression_head",
    "stop_if_higher_hook",
    "stop_if_lower_hook",
    "stop_if_no_decrease_hook",
    "stop_if_no_increase_hook",
]

"""`tf.estimator.add_metrics`: an estimator with more metrics."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sparkflow._api import export
from sparkflow.estimator.estimator import Estimator
from sparkflow.estimator.estimator_spec import EstimatorSpec
from sparkflow.estimator.functions import arguments_of
from sparkflow.estimator.mode_keys import ModeKeys

_ARGUMENTS = frozenset({"features", "labels", "predictions", "config", "self"})


@export("estimator.add_metrics")
def add_metrics(estimator: Estimator, metric_fn: Callable[..., Any]) -> Estimator:
    """An estimator with the same model and directory whose evaluations return additional metrics.

    Args:
        estimator: The estimator.
        metric_fn: Called with what it takes of features, labels, predictions, config; gives pairs
            of value and update by name, which win over those of the model.

    Raises:
        ValueError: `metric_fn` takes something else.
    """
    names = set(arguments_of(metric_fn))
    unknown = sorted(names - _ARGUMENTS)
    if unknown:
        raise ValueError(f"metric_fn ({metric_fn}) has following not expected args: {unknown}")

    def model_fn(features: Any, labels: Any, mode: str, config: Any) -> EstimatorSpec:
        spec: EstimatorSpec = estimator.model_fn(features, labels, mode, config)
        if mode != ModeKeys.EVAL:
            return spec
        offered = {
            "features": features,
            "labels": labels,
            "predictions": spec.predictions,
            "config": config,
        }
        given = {name: value for name, value in offered.items() if name in names}
        more = {**spec.eval_metric_ops, **metric_fn(**given)}
        return EstimatorSpec(**{**spec._asdict(), "eval_metric_ops": more})

    start = estimator._warm_start_settings
    return Estimator(model_fn, estimator.model_dir, estimator.config, warm_start_from=start)

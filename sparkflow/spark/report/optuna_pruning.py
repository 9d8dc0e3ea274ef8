"""Lets Optuna end a training whose metrics are worse than those of other trials."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from sparkflow.spark.control.callbacks import Callback

_VALIDATION: Final = "val_"


class OptunaPruning(Callback):
    """Reports to an Optuna trial, and raises `optuna.TrialPruned` if its pruner decides so.

    `fit` raises it once the training's tasks have ended and their slots are free; within an
    objective, Optuna handles it. A trial that restarts after a loss reports nothing twice.

    Args:
        trial: The trial, of a study with one objective.
        monitor: The value to report: `loss`, the mean loss of each epoch's rows, or `val_` and the
            name of a metric of the validation rows, at each evaluation.

    Raises:
        ValueError: During training: the metric does not exist.

    Examples:
        >>> def objective(trial):
        ...     rate = trial.suggest_float("rate", 1e-4, 1e-1, log=True)
        ...     pruning = OptunaPruning(trial, "val_auc")
        ...     estimator = SparkDNNClassifier(learningRate=rate, callbacks=[pruning])
        ...     return estimator.fit(df, validation=held_out).evaluate(held_out)["areaUnderROC"]
    """

    def __init__(self, trial: Any, monitor: str = "val_loss") -> None:
        self._trial = trial
        self._monitor = monitor
        self._reported: set[int] = set()
        self._evaluated: dict[int, int] = {}  # by step, the number of the evaluation

    def on_epoch_end(self, epoch: int, metrics: Mapping[str, float]) -> None:
        """Reports `loss`."""
        if not self._monitor.startswith(_VALIDATION):
            self._report(metrics, self._monitor, epoch)

    def on_validation(self, metrics: Mapping[str, float]) -> None:
        """Reports a metric of the validation rows, by the number of the evaluation."""
        if self._monitor.startswith(_VALIDATION):
            number = self._evaluated.setdefault(int(metrics["step"]), len(self._evaluated))
            self._report(metrics, self._monitor.removeprefix(_VALIDATION), number)

    def _report(self, metrics: Mapping[str, float], name: str, number: int) -> None:
        if name not in metrics:
            known = ", ".join(sorted(set(metrics) - {"step"}))
            raise ValueError(f"monitor={self._monitor!r} is not one of the metrics: {known}")
        if number in self._reported:
            return
        self._reported.add(number)
        self._trial.report(float(metrics[name]), number)
        if self._trial.should_prune():
            import optuna

            raise optuna.TrialPruned(
                f"pruned at {self._monitor}={metrics[name]:g}, report {number}"
            )

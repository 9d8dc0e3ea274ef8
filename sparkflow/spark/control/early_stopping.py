"""Early stopping: ends training when validation no longer improves. Pure."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from sparkflow.spark.params.config import FitConfig
from sparkflow.spark.params.direction import AUTO, MAX, resolve


class EarlyStopping:
    """Watches a metric for improvement.

    Args:
        metric: Its name, see `direction.resolve`.
        patience: The number of evaluations without improvement after which training ends.
        min_delta: The smallest change that counts as an improvement.
        mode: `min`, `max`, or `auto` to infer it from the name.

    Attributes:
        name: The metric's name.
        mode: `min` or `max`.
        best: The best value; NaN before the first.
        best_step: The step after which it was reached.
        waited: The number of evaluations since then.
    """

    def __init__(
        self, metric: str, patience: int, min_delta: float = 0.0, mode: str = AUTO
    ) -> None:
        self.name, self.mode = resolve(metric, mode)
        self._sign = -1.0 if self.mode == MAX else 1.0
        self._patience = patience
        self._min_delta = min_delta
        self.best = math.nan
        self.best_step = 0
        self.waited = 0

    @classmethod
    def of(cls, config: FitConfig) -> EarlyStopping | None:
        """Returns the early stopping that a fit requests, if it does."""
        if not config.early_stopping_patience:
            return None
        return cls(
            config.early_stopping_metric,
            config.early_stopping_patience,
            config.early_stopping_min_delta,
            config.early_stopping_mode,
        )

    @property
    def has_best(self) -> bool:
        """Whether any value was finite."""
        return not math.isnan(self.best)

    @property
    def exhausted(self) -> bool:
        """Whether training must end."""
        return self.waited >= self._patience

    def update(self, value: float, step: int) -> bool:
        """Adds an evaluation; returns whether it is the best so far. NaN and infinity never are."""
        gain = self._sign * (self.best - value)
        if math.isfinite(value) and (gain > self._min_delta or not self.has_best):
            self.best, self.best_step, self.waited = value, step, 0
            return True
        self.waited += 1
        return False

    def to_json(self) -> dict[str, Any]:
        """Returns the state for a checkpoint."""
        best = self.best if self.has_best else None
        return {"best": best, "best_step": self.best_step, "waited": self.waited}

    def restore(self, value: Mapping[str, Any]) -> None:
        """Restores the result of `to_json`."""
        self.best = math.nan if value["best"] is None else float(value["best"])
        self.best_step = int(value["best_step"])
        self.waited = int(value["waited"])

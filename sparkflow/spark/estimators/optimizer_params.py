"""Checks that an optimizer supports the parameters that are set."""

from __future__ import annotations

from typing import Any, Final

from sparkflow.spark.estimators.estimator_accessors import OptimizerAccessors
from sparkflow.spark.estimators.optimizers import (
    CONSTANT,
    COSINE,
    EXPONENTIAL,
    OPTIMIZERS,
    PIECEWISE,
    require_known,
)


class OptimizerParams(OptimizerAccessors):
    """How the loss is made smaller."""

    def require_known(self) -> None:
        """Checks that the optimizer supports the parameters that are set.

        Raises:
            ValueError: It does not.
        """
        given: dict[str, Any] = {
            "momentum": self.getMomentum(),
            "nesterov": self.getNesterov(),
            "weightDecay": self.getWeightDecay(),
        }
        asked = {name: value for name, value in given.items() if value}
        if self.isSet(self.learningRateSchedule) and self.getLearningRateSchedule() != CONSTANT:
            asked["learningRateSchedule"] = self.getLearningRateSchedule()
        elif self.getWarmup():
            asked["learningRateSchedule"] = CONSTANT
        require_known(self.getOptimizer(), asked)
        for name, kinds in _OF_SCHEDULES.items():
            if self.isSet(name) and self.getLearningRateSchedule() not in kinds:
                has, wanted = self.getLearningRateSchedule(), " or ".join(map(repr, kinds))
                raise ValueError(
                    f"{name} has no effect with learningRateSchedule={has!r}; set that to {wanted}"
                )

    def schedule_kind(self) -> str:
        """Returns the schedule, if the optimizer supports one."""
        takes = "learningRateSchedule" in OPTIMIZERS[self.getOptimizer()]
        return self.getLearningRateSchedule() if takes else CONSTANT


_OF_SCHEDULES: Final = {
    "learningRateEnd": (COSINE, EXPONENTIAL),
    "learningRatePieces": (PIECEWISE,),
}

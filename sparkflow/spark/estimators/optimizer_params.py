"""The Params of optimizers and penalties."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Final

from pyspark.ml.param.shared import HasElasticNetParam, HasRegParam

from sparkflow.spark.estimators.converters import fraction, pieces, positive, share_left
from sparkflow.spark.estimators.optimizers import (
    CONSTANT,
    COSINE,
    EXPONENTIAL,
    OPTIMIZERS,
    PIECEWISE,
    SCHEDULES,
    require_known,
)
from sparkflow.spark.params.aliases import ParamAliases, Self
from sparkflow.spark.params.converters import boolean, choice, number, param


class OptimizerParams(ParamAliases, HasRegParam, HasElasticNetParam):
    """How the loss is made smaller."""

    DEFAULTS: ClassVar[Mapping[str, Any]] = {
        "optimizer": "Adam",
        "learningRate": 0.001,
        "learningRateSchedule": CONSTANT,
        "learningRateEnd": 0.01,
        "learningRatePieces": [[0.5, 0.1], [0.75, 0.01]],
        "warmup": 0.0,
        "momentum": 0.0,
        "nesterov": False,
        "weightDecay": 0.0,
        "gradientClipNorm": 0.0,
        "regParam": 0.0,
        "elasticNetParam": 0.0,
    }

    optimizer = param("optimizer", f"one of {', '.join(OPTIMIZERS)}", choice(*OPTIMIZERS))
    learningRate = param("learningRate", "the optimizer's learning rate, above 0", positive)
    learningRateSchedule = param(
        "learningRateSchedule",
        "how the learning rate goes from the first step to the last: 'constant', 'cosine' (falls "
        "to learningRateEnd along half a cosine), 'exponential' (falls to it by the same factor "
        "in each step) or 'piecewise' (see learningRatePieces)",
        choice(*SCHEDULES),
    )
    learningRateEnd = param(
        "learningRateEnd",
        "with the schedules 'cosine' and 'exponential': the share of learningRate that is left at "
        "the end, above 0 and at most 1",
        share_left,
    )
    learningRatePieces = param(
        "learningRatePieces",
        "with the schedule 'piecewise': pairs [share of training, factor]; from there on the rate "
        "is learningRate times the factor",
        pieces,
    )
    warmup = param(
        "warmup",
        "the share of training in which the learning rate rises from next to nothing; 0 for none",
        fraction,
    )
    momentum = param(
        "momentum", "of SGD and RMSProp: how much of the last step goes on; 0 for none", fraction
    )
    nesterov = param(
        "nesterov", "of SGD with momentum: whether it looks ahead (Nesterov's way)", boolean
    )
    weightDecay = param(
        "weightDecay",
        "the part, times the learning rate, by which each step makes weights smaller, apart from "
        "the gradient; biases and embeddings left out",
        number(0.0),
    )
    gradientClipNorm = param(
        "gradientClipNorm",
        "the greatest norm of all gradients of a step together; larger ones are scaled down; 0 "
        "for no limit",
        number(0.0),
    )
    regParam = param(
        "regParam",
        "how much the sizes of the weights add to the loss, biases and embeddings left out",
        number(0.0),
    )
    elasticNetParam = param(
        "elasticNetParam",
        "the share of the L1 penalty in regParam; the rest is L2, the half of the squares",
        number(0.0, 1.0),
    )

    def getOptimizer(self) -> str:
        """The name of the optimizer."""
        return str(self.getOrDefault(self.optimizer))

    def setOptimizer(self: Self, value: str) -> Self:
        """Sets `optimizer`."""
        return self._set(optimizer=value)

    def getLearningRate(self) -> float:
        """The learning rate."""
        return float(self.getOrDefault(self.learningRate))

    def setLearningRate(self: Self, value: float) -> Self:
        """Sets `learningRate`."""
        return self._set(learningRate=value)

    def getLearningRateSchedule(self) -> str:
        """How the learning rate goes."""
        return str(self.getOrDefault(self.learningRateSchedule))

    def setLearningRateSchedule(self: Self, value: str) -> Self:
        """Sets `learningRateSchedule`."""
        return self._set(learningRateSchedule=value)

    def getLearningRateEnd(self) -> float:
        """The share of the learning rate that is left at the end."""
        return float(self.getOrDefault(self.learningRateEnd))

    def setLearningRateEnd(self: Self, value: float) -> Self:
        """Sets `learningRateEnd`."""
        return self._set(learningRateEnd=value)

    def getLearningRatePieces(self) -> list[list[float]]:
        """Shares of training and factors."""
        value: list[list[float]] = self.getOrDefault(self.learningRatePieces)
        return value

    def setLearningRatePieces(self: Self, value: list[list[float]]) -> Self:
        """Sets `learningRatePieces`."""
        return self._set(learningRatePieces=value)

    def getWarmup(self) -> float:
        """The share of training in which the rate rises."""
        return float(self.getOrDefault(self.warmup))

    def setWarmup(self: Self, value: float) -> Self:
        """Sets `warmup`."""
        return self._set(warmup=value)

    def getMomentum(self) -> float:
        """The momentum."""
        return float(self.getOrDefault(self.momentum))

    def setMomentum(self: Self, value: float) -> Self:
        """Sets `momentum`."""
        return self._set(momentum=value)

    def getNesterov(self) -> bool:
        """Whether momentum looks ahead."""
        return bool(self.getOrDefault(self.nesterov))

    def setNesterov(self: Self, value: bool) -> Self:
        """Sets `nesterov`."""
        return self._set(nesterov=value)

    def getWeightDecay(self) -> float:
        """The decay of the weights."""
        return float(self.getOrDefault(self.weightDecay))

    def setWeightDecay(self: Self, value: float) -> Self:
        """Sets `weightDecay`."""
        return self._set(weightDecay=value)

    def getGradientClipNorm(self) -> float:
        """The greatest norm of the gradients, or 0."""
        return float(self.getOrDefault(self.gradientClipNorm))

    def setGradientClipNorm(self: Self, value: float) -> Self:
        """Sets `gradientClipNorm`."""
        return self._set(gradientClipNorm=value)

    def getRegParam(self) -> float:
        """The factor of the penalty."""
        return float(self.getOrDefault(self.regParam))

    def setRegParam(self: Self, value: float) -> Self:
        """Sets `regParam`."""
        return self._set(regParam=value)

    def getElasticNetParam(self) -> float:
        """The share of the L1 penalty."""
        return float(self.getOrDefault(self.elasticNetParam))

    def setElasticNetParam(self: Self, value: float) -> Self:
        """Sets `elasticNetParam`."""
        return self._set(elasticNetParam=value)

    def require_known(self) -> None:
        """Passes where the optimizer takes what is set.

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
        """The schedule, where the optimizer takes one."""
        takes = "learningRateSchedule" in OPTIMIZERS[self.getOptimizer()]
        return self.getLearningRateSchedule() if takes else CONSTANT


_OF_SCHEDULES: Final = {
    "learningRateEnd": (COSINE, EXPONENTIAL),
    "learningRatePieces": (PIECEWISE,),
}

"""What a model does with the rows that it predicts."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, ClassVar

from sparkflow.spark.params.aliases import Self
from sparkflow.spark.params.columns import ColumnParams
from sparkflow.spark.params.converters import choice, number, param


class InferenceParams(ColumnParams):
    """The parameters of a model. Those that its estimator has as well come from there."""

    DEFAULTS: ClassVar[Mapping[str, Any]] = {"handleInvalid": "error", "fillValue": 0.0}

    handleInvalid = param(
        "handleInvalid",
        "what transform does with rows that hold nulls or NaNs in the features: 'error', 'skip' "
        "(leave them out), 'keep' (null predictions) or 'fill' (with fillValue)",
        choice("error", "skip", "keep", "fill"),
    )
    fillValue = param(
        "fillValue",
        "what takes the place of nulls and NaNs in features with handleInvalid='fill'",
        number(-math.inf),
    )

    def getHandleInvalid(self) -> str:
        """`error`, `skip`, `keep` or `fill`."""
        return str(self.getOrDefault(self.handleInvalid))

    def setHandleInvalid(self: Self, value: str) -> Self:
        """Sets `handleInvalid`."""
        return self._set(handleInvalid=value)

    def getFillValue(self) -> float:
        """The value for nulls and NaNs."""
        return float(self.getOrDefault(self.fillValue))

    def setFillValue(self: Self, value: float) -> Self:
        """Sets `fillValue`."""
        return self._set(fillValue=value)

"""Which rows are trained on, and what stands in their columns."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from sparkflow.spark.params.aliases import ParamAliases, Self
from sparkflow.spark.params.converters import (
    boolean,
    choice,
    class_weights,
    column,
    number,
    param,
    shapes,
    text,
)

CONTENT, SINGLE, STRATIFIED = DRAWS = ("content", "single", "stratified")
"""The values of `validationDraw`."""


class DataParams(ParamAliases):
    """Which rows are trained on, and in what order."""

    DEFAULTS: ClassVar[Mapping[str, Any]] = {
        "labelCol": "label",
        "weightCol": "",
        "classWeights": {},
        "handleInvalid": "error",
        "fillValue": 0.0,
        "inputShapes": {},
        "vectorFormat": "auto",
        "validationIndicatorCol": "",
        "validationFraction": 0.0,
        "validationDraw": CONTENT,
        "shuffle": True,
        "cache": True,
    }

    labelCol = param(
        "labelCol",
        "the labels: integers (given as int64), other numbers (float32), or a vector or array "
        "of them",
        column,
    )
    weightCol = param(
        "weightCol", "the weights of the rows, given to model_fn as `weights`; empty for none", text
    )
    classWeights = param(
        "classWeights",
        "a factor for the weights of the rows of each class: a dictionary of label to factor, "
        "or 'balanced'",
        class_weights,
    )
    handleInvalid = param(
        "handleInvalid",
        "what is done with rows that hold nulls or NaNs: 'error', 'skip' (leave them out) or "
        "'fill' (with fillValue)",
        choice("error", "skip", "fill"),
    )
    fillValue = param(
        "fillValue",
        "what takes the place of nulls and NaNs in features with handleInvalid='fill'",
        number(-math.inf),
    )
    inputShapes = param(
        "inputShapes",
        "the shape of a row of each input that is no flat vector, by its name, as [28, 28, 1]; "
        "[None] for lists of any length, which become a tf.SparseTensor",
        shapes,
    )
    vectorFormat = param(
        "vectorFormat",
        "what columns of vectors become: 'dense' tensors, 'sparse' ones (tf.SparseTensor), or "
        "'auto': sparse where fewer than one element in 20 is stored",
        choice("auto", "dense", "sparse"),
    )
    validationIndicatorCol = param(
        "validationIndicatorCol",
        "a boolean column: true for the rows that validate; empty for none",
        text,
    )
    validationFraction = param(
        "validationFraction",
        "the share of the rows, drawn by the seed, that validate instead of train",
        number(0.0, 0.9),
    )
    validationDraw = param(
        "validationDraw",
        "how they are drawn: 'content' (equal rows are on one side), 'single' (each row for "
        "itself) or 'stratified' (this share of the rows of each class)",
        choice(*DRAWS),
    )
    shuffle = param("shuffle", "whether the rows come in a new order at each epoch", boolean)
    cache = param(
        "cache",
        "whether the selected rows are cached in Spark while training starts; needed where the "
        "DataFrame gives other rows or another order each time",
        boolean,
    )

    def getLabelCol(self) -> str:
        """The label column."""
        return str(self.getOrDefault(self.labelCol))

    def setLabelCol(self: Self, value: str) -> Self:
        """Sets `labelCol`."""
        return self._set(labelCol=value)

    def getWeightCol(self) -> str:
        """The column of the weights, or an empty text."""
        return str(self.getOrDefault(self.weightCol))

    def setWeightCol(self: Self, value: str) -> Self:
        """Sets `weightCol`."""
        return self._set(weightCol=value)

    def getClassWeights(self) -> str | dict[str, float]:
        """Factors by label, or `balanced`."""
        value: str | dict[str, float] = self.getOrDefault(self.classWeights)
        return value

    def setClassWeights(self: Self, value: str | dict[str, float]) -> Self:
        """Sets `classWeights`."""
        return self._set(classWeights=value)

    def getHandleInvalid(self) -> str:
        """`error`, `skip` or `fill`."""
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

    def getInputShapes(self) -> dict[str, list[int | None]]:
        """Shapes of rows by input."""
        value: dict[str, list[int | None]] = self.getOrDefault(self.inputShapes)
        return value

    def setInputShapes(self: Self, value: Mapping[str, Sequence[int | None]]) -> Self:
        """Sets `inputShapes`."""
        return self._set(inputShapes=value)

    def getVectorFormat(self) -> str:
        """`dense`, `sparse` or `auto`."""
        return str(self.getOrDefault(self.vectorFormat))

    def setVectorFormat(self: Self, value: str) -> Self:
        """Sets `vectorFormat`."""
        return self._set(vectorFormat=value)

    def getValidationIndicatorCol(self) -> str:
        """The boolean column of validation rows, or an empty text."""
        return str(self.getOrDefault(self.validationIndicatorCol))

    def setValidationIndicatorCol(self: Self, value: str) -> Self:
        """Sets `validationIndicatorCol`."""
        return self._set(validationIndicatorCol=value)

    def getValidationFraction(self) -> float:
        """The share of rows that validate."""
        return float(self.getOrDefault(self.validationFraction))

    def setValidationFraction(self: Self, value: float) -> Self:
        """Sets `validationFraction`."""
        return self._set(validationFraction=value)

    def getValidationDraw(self) -> str:
        """How `validationFraction` draws rows."""
        return str(self.getOrDefault(self.validationDraw))

    def setValidationDraw(self: Self, value: str) -> Self:
        """Sets `validationDraw`."""
        return self._set(validationDraw=value)

    def getShuffle(self) -> bool:
        """Whether the rows come in a new order at each epoch."""
        return bool(self.getOrDefault(self.shuffle))

    def setShuffle(self: Self, value: bool) -> Self:
        """Sets `shuffle`."""
        return self._set(shuffle=value)

    def getCache(self) -> bool:
        """Whether the selected rows are cached."""
        return bool(self.getOrDefault(self.cache))

    def setCache(self: Self, value: bool) -> Self:
        """Sets `cache`."""
        return self._set(cache=value)

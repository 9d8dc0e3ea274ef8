"""The weights of rows: `weightCol` times the factor of the row's class."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Final

from pyspark.sql import Column, functions as F

from sparkflow.spark.data.plan.profile import MOST_CLASSES
from sparkflow.spark.data.plan.sources import Source
from sparkflow.spark.data.schema.frame import quoted
from sparkflow.spark.data.schema.row_format import Input
from sparkflow.spark.data.schema.row_schema import ARRAY, VECTOR

_log = logging.getLogger(__name__)

BALANCED: Final = "balanced"


def require_classes(label: Source | None, class_weights: str | Mapping[str, float]) -> None:
    """Checks that the labels can be classes, if class weights are set.

    Raises:
        ValueError: There are no labels or several per row, or a key of the dictionary is not a
            label.
    """
    if not class_weights:
        return
    if label is None:
        raise ValueError("classWeights needs labels, but there are none")
    if label.form in (ARRAY, VECTOR):
        raise ValueError(
            f"classWeights needs one label in each row, but the {label.describe()} holds several"
        )
    if class_weights != BALANCED:
        for text in class_weights:
            _value(text, label.dtype)


def class_factors(
    class_weights: str | Mapping[str, float], label: Input, class_rows: Mapping[float, int]
) -> dict[float, float]:
    """Returns the factor of each class.

    Args:
        class_weights: `classWeights`: factors by label; or `balanced`, which makes all classes
            weigh the same and the mean over the rows 1: rows / (classes * rows of the class).
        label: The labels.
        class_rows: Number of training rows by label, for `balanced`.

    Raises:
        ValueError: There are too many labels to be classes.
    """
    if not isinstance(class_weights, str):
        factors = {_value(text, label.dtype): each for text, each in class_weights.items()}
        if len(factors) < len(class_weights):
            raise ValueError(f"classWeights names a label twice: {', '.join(class_weights)}")
        return factors
    if len(class_rows) > MOST_CLASSES:
        raise ValueError(
            "classWeights='balanced' needs class labels, but there are "
            f"{len(class_rows)} different "
            "labels"
        )
    total = sum(class_rows.values())
    factors = {each: total / (len(class_rows) * rows) for each, rows in class_rows.items()}
    _log.info("the classes' weights are %s", factors)
    return factors


def weight(held: Source | None, label: Input | None, factors: Mapping[float, float]) -> Column:
    """Returns the weight of a row as a float; labels without a factor have factor 1."""
    given = F.lit(1.0) if held is None else quoted(held.name)
    if factors and label is not None:
        pairs = [
            F.lit(each).cast("bigint" if label.dtype == "int64" else "float")
            if key
            else F.lit(each)
            for pair in factors.items()
            for key, each in zip((True, False), pair, strict=True)
        ]
        factor = F.try_element_at(F.create_map(*pairs), quoted(label.name))
        given = given * F.coalesce(factor, F.lit(1.0))
    return given.cast("float")


def _value(text: str, dtype: str) -> float:
    try:
        value = float(text) if "." in text or "e" in text.lower() else int(text)
    except ValueError:
        raise ValueError(
            f"classWeights names the label {text!r}; labels are numbers (pyspark.ml's "
            "StringIndexer converts strings)"
        ) from None
    if dtype == "float32":
        return float(value)
    if value != int(value):
        raise ValueError(f"classWeights names the label {text!r}, but the labels are integers")
    return int(value)

"""The available part of `tf.contrib.learn`: modes, run configurations, vocabularies."""

from __future__ import annotations

from typing import Any

import sparkflow as tf
from sparkflow.contrib.learn import preprocessing

__all__ = ["ModeKeys", "extract_pandas_data", "extract_pandas_labels", "preprocessing"]


class ModeKeys:
    """Modes in which a model is built."""

    TRAIN = "train"
    EVAL = "eval"
    INFER = "infer"


def __getattr__(name: str) -> Any:
    if name in ("RunConfig", "Estimator"):
        return getattr(tf.estimator, name)
    raise AttributeError(
        f"tf.contrib.learn has no {name!r} here: use tf.estimator, whose estimators took its place"
    )


def extract_pandas_data(data: Any) -> Any:
    """The values of a DataFrame; anything else as it is."""
    return data.values.astype("float") if hasattr(data, "columns") else data


def extract_pandas_labels(labels: Any) -> Any:
    """The values of a DataFrame of one column; anything else as it is.

    Raises:
        ValueError: There are several columns.
    """
    if not hasattr(labels, "columns"):
        return labels
    if len(labels.columns) > 1:
        raise ValueError("Only one column for labels is allowed.")
    return labels.values

"""Modes in which a model_fn is called."""

from __future__ import annotations

from typing import Final

from sparkflow._api import export


@export("estimator.ModeKeys")
class ModeKeys:
    """The modes a model_fn is called in."""

    TRAIN: Final = "train"
    EVAL: Final = "eval"
    PREDICT: Final = "infer"

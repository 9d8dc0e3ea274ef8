"""The error that `fit` raises when the cluster, not the graph, is what failed."""

from __future__ import annotations


class SparkTrainingError(RuntimeError):
    """Training could not start or failed; the message says why and what to do.

    Errors of the graph arrive as sparkflow's own exceptions (for instance
    `InvalidArgumentError`), errors of parameters and columns as `ValueError` or `TypeError`.
    """


class LostTaskError(SparkTrainingError):
    """A process, an executor or a machine was lost; trying again may go better."""


class OtherTrainingError(SparkTrainingError):
    """The last checkpoint in `checkpointDir` is of another training; the message says how."""


class NonFiniteError(SparkTrainingError):
    """The loss or a variable became NaN or infinite; the message says where and what may help.

    Not raised with `allowNonFinite=True`.
    """


class StalledError(SparkTrainingError):
    """No step was made for `stallTimeout` seconds; the text says who waits for whom."""

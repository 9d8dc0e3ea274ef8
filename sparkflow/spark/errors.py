"""The errors that `fit` raises when the cluster, not the graph, has failed."""

from __future__ import annotations


class SparkTrainingError(RuntimeError):
    """Training could not start or has failed; the message says why and what to do.

    Errors in the graph are raised as sparkflow's own exceptions (such as `InvalidArgumentError`),
    errors in parameters and columns as `ValueError` or `TypeError`.
    """


class LostTaskError(SparkTrainingError):
    """A process, an executor or a machine was lost; a retry may succeed."""


class OtherTrainingError(SparkTrainingError):
    """The last checkpoint in `checkpointDir` is of a different training; the message says how."""


class NonFiniteError(SparkTrainingError):
    """The loss or a variable became NaN or infinite; the message says where, and what may help.

    Not raised with `allowNonFinite=True`.
    """


class StalledError(SparkTrainingError):
    """No step completed for `stallTimeout` seconds; the message says which task waits for which."""

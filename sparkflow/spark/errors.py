"""The error that `fit` raises when the cluster, not the graph, is what failed."""

from __future__ import annotations


class SparkTrainingError(RuntimeError):
    """Training could not start or did not end well; the text says why and what to do.

    Errors of the graph arrive as sparkflow's own exceptions (for instance
    `InvalidArgumentError`), errors of parameters and columns as `ValueError` or `TypeError`.
    """


class LostTaskError(SparkTrainingError):
    """A process, an executor or a machine was lost; trying again may go better."""


class StalledError(SparkTrainingError):
    """No step was made for `stallTimeout` seconds; the text says who waits for whom."""

"""The error that `fit` raises when the cluster, not the graph, is what failed."""

from __future__ import annotations


class SparkTrainingError(RuntimeError):
    """Training could not start or did not end well; the text says why and what to do.

    Errors of the graph arrive as sparkflow's own exceptions (for instance
    `InvalidArgumentError`), errors of parameters and columns as `ValueError` or `TypeError`.
    """

"""The errors that `fit` raises when the cluster, not the graph, has failed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


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


class NoRowsError(ValueError):
    """There are no rows to train on; the message says why."""


@contextmanager
def interrupts_kept() -> Iterator[None]:
    """Raises KeyboardInterrupt, not the error that py4j may raise while it handles one.

    On Ctrl-C in a call, py4j closes the connection. If that was just being made, it raises "Gateway
    must be connected to send cancel cmd." instead of the interrupt.
    """
    try:
        yield
    except Exception as error:
        cause: BaseException | None = error
        while cause is not None and type(cause).__module__.partition(".")[0] == "py4j":
            cause = cause.__context__
        if isinstance(cause, KeyboardInterrupt):
            raise cause from error
        raise

"""The user's functions in the Python processes of Spark's workers: told what their worker does."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from sparkflow.spark.cluster_layout import TaskName


@dataclass(frozen=True, slots=True)
class WorkerEvent:
    """What a worker does.

    Attributes:
        kind: `start` (all tasks have come; again after each restart), `rows` (all rows of this
            worker are there), `steps` (some steps were made; at most twice a second), `end`.
        worker: The worker's index.
        rows: Rows of this worker, in `rows`.
        steps: Steps that this worker has made so far, in `steps` and `end`.
        loss: Mean loss of the latest steps, in `steps`.
    """

    kind: str
    worker: int
    rows: int = 0
    steps: int = 0
    loss: float = float("nan")


WorkerCallback: TypeAlias = Callable[[WorkerEvent], None]


def require_callbacks(callbacks: Sequence[Any]) -> tuple[WorkerCallback, ...]:
    """The callbacks, if they are functions.

    Raises:
        TypeError: One cannot be called.
    """
    if not isinstance(callbacks, Iterable):
        raise TypeError(f"workerCallbacks must be a list of functions, got {callbacks!r}")
    for each in callbacks:
        if not callable(each):
            raise TypeError(f"workerCallbacks must be functions of a WorkerEvent, got {each!r}")
    return tuple(callbacks)


def event_listener(
    name: TaskName,
    callbacks: Sequence[WorkerCallback],
    fail: Callable[[Exception], None],
) -> Callable[[Mapping[str, Any]], None]:
    """A function that passes a child's messages on to the callbacks.

    Args:
        name: The task; only workers have callbacks.
        callbacks: Called one after another.
        fail: Gets what one of them raises; nothing is passed on after that.
    """
    failed = False

    def listen(message: Mapping[str, Any]) -> None:
        nonlocal failed
        if failed or name.job != "worker":
            return
        event = WorkerEvent(
            message["event"],
            name.index,
            rows=message.get("rows", 0),
            steps=message.get("steps", 0),
            loss=message.get("loss", float("nan")),
        )
        try:
            for callback in callbacks:
                callback(event)
        except Exception as error:
            failed = True
            fail(error)

    return listen

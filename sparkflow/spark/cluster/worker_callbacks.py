"""Worker callbacks: the user's functions, called in Spark's Python workers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from sparkflow.spark.cluster_layout import TaskName


@dataclass(frozen=True, slots=True)
class WorkerEvent:
    """An event of a worker, for worker callbacks.

    Attributes:
        kind: `start` (all tasks have registered; again after each restart), `rows` (all rows of
            this worker have arrived), `steps` (some steps were made; at most twice a second),
            `end`.
        worker: The worker's index.
        rows: The number of rows of this worker, in `rows`.
        steps: The number of steps of this worker so far, in `steps` and `end`.
        loss: The mean loss of the latest steps, in `steps`.
    """

    kind: str
    worker: int
    rows: int = 0
    steps: int = 0
    loss: float = float("nan")


WorkerCallback: TypeAlias = Callable[[WorkerEvent], None]


def require_callbacks(callbacks: Sequence[Any]) -> tuple[WorkerCallback, ...]:
    """Checks that the callbacks are functions, and returns them.

    Raises:
        TypeError: One of them is not callable.
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
    """Returns a function that passes a child's messages to the callbacks.

    Args:
        name: The task; only workers have callbacks.
        callbacks: Called one after another.
        fail: Receives the exception of a callback; no messages are passed after that.
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

"""Events of a worker on their way to the user's functions."""

from typing import Any

import pytest

from sparkflow.spark.cluster.worker_callbacks import WorkerEvent, event_listener, require_callbacks
from sparkflow.spark.cluster_layout import TaskName

MESSAGES: list[dict[str, Any]] = [
    {"event": "start"},
    {"event": "rows", "rows": 30},
    {"event": "steps", "steps": 4, "count": 4, "loss": 0.5},
]


def _unexpected(error: Exception) -> None:
    pytest.fail(str(error))


def test_events_come_in_order() -> None:
    seen: list[WorkerEvent] = []
    listen = event_listener(TaskName("worker", 1), [seen.append], _unexpected)
    for message in MESSAGES:
        listen(message)
    assert [(event.kind, event.worker) for event in seen] == [
        ("start", 1),
        ("rows", 1),
        ("steps", 1),
    ]
    assert (seen[1].rows, seen[2].steps, seen[2].loss) == (30, 4, 0.5)


def test_parameter_servers_have_no_callbacks() -> None:
    event_listener(TaskName("ps", 0), [lambda event: pytest.fail("told")], _unexpected)(MESSAGES[0])


def test_what_a_callback_raises_is_told_once() -> None:
    failures: list[Exception] = []

    def broken(event: WorkerEvent) -> None:
        raise KeyError(event.kind)

    listen = event_listener(TaskName("worker", 0), [broken], failures.append)
    for message in MESSAGES:
        listen(message)
    assert [str(each) for each in failures] == ["'start'"]


def test_only_functions() -> None:
    with pytest.raises(
        TypeError, match="workerCallbacks must be functions of a WorkerEvent, got 3"
    ):
        require_callbacks([print, 3])

"""How a session waits for tasks: until all answer, until it is cancelled, until one fails."""

import logging
from concurrent.futures import Future

import pytest

from sparkflow_runtime.errors import CancelledError, DeadlineExceededError
from sparkflow_runtime.master import waiting
from sparkflow_runtime.master.waiting import await_tasks


class Task:
    """A task that answers, fails, or has not started."""

    def __init__(self, answers: bool = False, error: Exception | None = None) -> None:
        self.future: Future[None] = Future()
        if error is not None:
            self.future.set_exception(error)
        elif answers:
            self.future.set_result(None)

    def ready(self) -> Future[None]:
        return self.future


def test_all_answer() -> None:
    await_tasks({"ps": Task(answers=True), "worker": Task(answers=True)}, lambda: True)


def test_one_that_starts_late_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "_LOOK_INTERVAL_S", 0.0)
    late, turns = Task(), []

    def is_wanted() -> bool:
        turns.append(1)
        if len(turns) == 3:
            late.future.set_result(None)
        return True

    await_tasks({"ps": Task(answers=True), "worker": late}, is_wanted)
    assert len(turns) == 4


def test_nobody_wants_it_any_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "_LOOK_INTERVAL_S", 0.0)
    tasks = {"worker 1": Task(), "ps": Task(answers=True), "worker 0": Task()}
    with pytest.raises(DeadlineExceededError, match=r"no response from worker 0, worker 1$"):
        await_tasks(tasks, lambda: False)
    assert tasks["worker 0"].future.cancelled()


def test_the_client_went_away_when_all_had_answered() -> None:
    with pytest.raises(DeadlineExceededError, match=r"no response from its client$"):
        await_tasks({"ps": Task(answers=True)}, lambda: False)


def test_an_error_ends_the_waiting_for_the_others() -> None:
    tasks = {"ps": Task(error=CancelledError(message="stopped")), "worker": Task()}
    with pytest.raises(CancelledError, match="stopped"):
        await_tasks(tasks, lambda: True)
    assert tasks["worker"].future.cancelled()


@pytest.mark.parametrize(("interval_s", "lines"), [(0.0, 2), (1e6, 0)])
def test_the_log_names_who_is_missing(
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    interval_s: float,
    lines: int,
) -> None:
    monkeypatch.setattr(waiting, "_LOOK_INTERVAL_S", 0.0)
    monkeypatch.setattr(waiting, "TELL_INTERVAL_S", interval_s)
    turns = iter([True, False])
    with (
        caplog.at_level(logging.WARNING, "tensorflow"),
        pytest.raises(DeadlineExceededError),
    ):
        await_tasks({"b": Task(), "a": Task()}, lambda: next(turns))
    said = [record.getMessage() for record in caplog.records]
    text = "CreateSession still waiting for response from worker: "
    assert said == [text + "a", text + "b"][:lines]

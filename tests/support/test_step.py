"""The step that tests cancel themselves."""

import pytest

from sparkflow_runtime.errors import CancelledError, DeadlineExceededError
from support.step import FakeStep


def test_callbacks_are_called_once_unless_taken_back():
    step, calls = FakeStep(), []
    step.on_cancel(lambda: calls.append("kept"))
    take_back = step.on_cancel(lambda: calls.append("taken back"))
    assert step.callbacks == 2
    take_back()
    take_back()
    assert step.waiting.is_set()
    step.cancel()
    step.cancel()
    assert calls == ["kept"]
    assert step.callbacks == 0


def test_it_raises_what_it_was_cancelled_with():
    step = FakeStep()
    step.check_cancelled()
    step.cancel()
    with pytest.raises(CancelledError, match="The step was cancelled"):
        step.check_cancelled()
    step.cancel(DeadlineExceededError(message="too slow"))
    with pytest.raises(DeadlineExceededError, match="too slow"):
        step.check_cancelled()


def test_what_is_sent_is_received():
    step = FakeStep(step_id=3, iteration=4)
    step.send("key", "/device", (1, 2))
    assert step.receive("key", "/device") == (1, 2)
    assert (step.step_id, step.iteration) == (3, 4)

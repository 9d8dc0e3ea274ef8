"""The states of a run: every event has its place, and a wrong one is reported with the history."""

from __future__ import annotations

from functools import reduce
from itertools import product
from typing import Any

import pytest

from sparkflow.spark.control.callbacks import Callback
from sparkflow.spark.control.run_state import (
    _KEPT,
    _NEXT,
    InvalidTransitionError,
    RunEvent,
    RunState,
    RunStory,
    after,
)

E = RunEvent
BEGINNING = (E.STARTED, E.TASKS_REGISTERED, E.INITIALIZED, E.ROWS_ARRIVED)


def _story(*events: RunEvent) -> RunStory:
    return reduce(after, events, RunStory())


def test_a_run_from_beginning_to_end() -> None:
    halted = (E.SEGMENT_BEGAN, E.HALT_WANTED, E.SEGMENT_ENDED, E.SAVE_BEGAN, E.SAVE_ENDED)
    whole = (E.SEGMENT_BEGAN, E.SEGMENT_ENDED, E.VALIDATION_BEGAN, E.VALIDATION_ENDED)
    story = _story(*BEGINNING, *halted, *whole, E.TRAINED, E.FINISHED)
    assert story.state is RunState.FINISHED
    assert str(story).startswith("created\n  started -> waiting for tasks\n")
    assert "a halt was asked for -> ending a segment early" in str(story)


@pytest.mark.parametrize(("state", "event"), list(product(RunState, RunEvent)), ids=str)
def test_an_event_without_a_place_tells_the_story(state: RunState, event: RunEvent) -> None:
    story = RunStory(state, ((E.SEGMENT_ENDED, "step 120", RunState.QUIET),), earlier=7)
    expected = _NEXT.get((state, event))
    if event is E.FAILED and state is not RunState.FAILED:
        expected = RunState.FAILED
    if expected is not None:
        assert after(story, event).state is expected
        return
    with pytest.raises(InvalidTransitionError) as caught:
        after(story, event)
    text = str(caught.value)
    assert f"{event.name} is not expected in the state {state.name}" in text
    assert "(7 earlier events)\n  a segment ended (step 120) -> between segments" in text


def test_every_state_can_be_reached_and_left() -> None:
    assert {*_NEXT.values(), RunState.CREATED, RunState.FAILED} == set(RunState)
    ends = {RunState.FINISHED, RunState.FAILED}
    assert {state for state, _ in _NEXT} == set(RunState) - ends


def test_a_long_story_has_the_number_of_what_it_leaves_out() -> None:
    story = _story(*BEGINNING, *((E.SEGMENT_BEGAN, E.SEGMENT_ENDED) * 1000))
    assert len(story.told) == _KEPT
    assert story.earlier == len(BEGINNING) + 2000 - _KEPT
    assert f"({story.earlier} earlier events)" in str(story)


class _States(Callback):
    def __init__(self) -> None:
        self.found: set[RunState] = set()
        self.fails = False

    def on_train_begin(self, run: Any) -> None:
        self.run = run

    def on_steps(self, update: Any) -> None:
        self.found.add(self.run.story.state)

    def on_epoch_end(self, epoch: int, logs: Any) -> None:
        self.found.add(self.run.story.state)
        if self.fails:
            raise ValueError("a callback")


def test_a_real_run_goes_through_its_states(rig: Any) -> None:
    seen = _States()
    rig.but(shares=(20, 20), callbacks=[seen]).train()
    assert RunState.STEPPING in seen.found
    assert seen.run.story.state is RunState.FINISHED
    events = [event for event, _, _ in seen.run.story.told]
    assert events[:4] == list(BEGINNING)
    assert events[-2:] == [E.TRAINED, E.FINISHED]


def test_a_run_that_fails_says_so(rig: Any) -> None:
    seen = _States()
    seen.fails = True
    with pytest.raises(ValueError, match="a callback"):
        rig.but(shares=(20, 20), callbacks=[seen]).train()
    assert seen.run.story.state is RunState.FAILED
    assert seen.run.story.told[-1][:2] == (E.FAILED, "a callback")

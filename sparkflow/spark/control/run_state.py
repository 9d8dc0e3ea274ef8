"""The states of a training run, and the transitions between them.

Pure: `after` returns the new story, given the story so far and an event; nothing here depends on
    threads, clocks or the cluster. An illegal transition is an `InvalidTransitionError`, which
    contains the whole story.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final

_KEPT: Final = 40
"""The number of events that a story lists; earlier ones are only counted."""


class RunState(Enum):
    """The state of a run."""

    CREATED = "created"
    GATHERING = "waiting for tasks"
    INITIALIZING = "initializing variables"
    LOADING = "waiting for rows"
    QUIET = "between segments"
    STEPPING = "making steps"
    HALTING = "ending a segment early"
    VALIDATING = "validating"
    SAVING = "writing a checkpoint"
    FINISHING = "reading the final values"
    FINISHED = "finished"
    FAILED = "failed"


class RunEvent(Enum):
    """An event of a run."""

    STARTED = "started"
    TASKS_REGISTERED = "all tasks have registered"
    INITIALIZED = "the variables have their values"
    ROWS_ARRIVED = "all rows have arrived"
    SEGMENT_BEGAN = "a segment began"
    HALT_WANTED = "a halt was asked for"
    SEGMENT_ENDED = "a segment ended"
    VALIDATION_BEGAN = "validation began"
    VALIDATION_ENDED = "validation ended"
    SAVE_BEGAN = "saving began"
    SAVE_ENDED = "the values to save were read"
    TRAINED = "the last segment has ended"
    FINISHED = "the final values were read"
    FAILED = "an error ended the run"


_S, _E = RunState, RunEvent

_NEXT: Final[Mapping[tuple[RunState, RunEvent], RunState]] = {
    (_S.CREATED, _E.STARTED): _S.GATHERING,
    (_S.GATHERING, _E.TASKS_REGISTERED): _S.INITIALIZING,
    (_S.INITIALIZING, _E.INITIALIZED): _S.LOADING,
    (_S.LOADING, _E.ROWS_ARRIVED): _S.QUIET,
    (_S.QUIET, _E.SEGMENT_BEGAN): _S.STEPPING,
    (_S.STEPPING, _E.HALT_WANTED): _S.HALTING,
    (_S.STEPPING, _E.SEGMENT_ENDED): _S.QUIET,
    (_S.HALTING, _E.SEGMENT_ENDED): _S.QUIET,
    (_S.QUIET, _E.VALIDATION_BEGAN): _S.VALIDATING,
    (_S.VALIDATING, _E.VALIDATION_ENDED): _S.QUIET,
    (_S.QUIET, _E.SAVE_BEGAN): _S.SAVING,
    (_S.SAVING, _E.SAVE_ENDED): _S.QUIET,
    (_S.QUIET, _E.TRAINED): _S.FINISHING,
    (_S.FINISHING, _E.FINISHED): _S.FINISHED,
}


class InvalidTransitionError(AssertionError):
    """An event occurred in a state that does not allow it; a bug in the driver."""


@dataclass(frozen=True, slots=True)
class RunStory:
    """The story of a run so far.

    Attributes:
        state: The current state.
        told: The last events, each with a note such as the step or the reason, and the state after.
        earlier: The number of events before these.
    """

    state: RunState = RunState.CREATED
    told: tuple[tuple[RunEvent, str, RunState], ...] = ()
    earlier: int = 0

    def __str__(self) -> str:
        lines = [f"  ({self.earlier} earlier events)"] if self.earlier else []
        for event, note, state in self.told:
            lines.append(f"  {event.value}{f' ({note})' if note else ''} -> {state.value}")
        return "\n".join([f"{RunState.CREATED.value}", *lines])


def after(story: RunStory, event: RunEvent, note: str = "") -> RunStory:
    """Returns the story after an event.

    Args:
        story: The story so far.
        event: The new event. A failure may occur in every state, once: callbacks at the end may
            fail, too.
        note: Additional information on it.

    Raises:
        InvalidTransitionError: The event is not expected in the state.
    """
    if event is RunEvent.FAILED and story.state is not RunState.FAILED:
        state: RunState | None = RunState.FAILED
    else:
        state = _NEXT.get((story.state, event))
    if state is None:
        raise InvalidTransitionError(
            f"{event.name} is not expected in the state {story.state.name}. "
            f"What has happened:\n{story}"
        )
    told = (*story.told, (event, note, state))
    return RunStory(state, told[-_KEPT:], story.earlier + max(len(told) - _KEPT, 0))

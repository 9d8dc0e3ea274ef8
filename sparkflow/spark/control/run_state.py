"""The states of a training run, and which may follow which.

Pure: `after` takes what has happened so far and what happens now, and gives the new story; nothing
here knows of threads, clocks or the cluster. What must not happen is an `InvalidTransitionError`,
which tells the whole story.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final

_KEPT: Final = 40
"""Events that a story tells one by one; of those before it has the number."""


class RunState(Enum):
    """Where a run is."""

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
    """What happens to a run."""

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
    """An event came in a state in which it cannot; a defect of the driver's."""


@dataclass(frozen=True, slots=True)
class RunStory:
    """A run so far.

    Attributes:
        state: Where it is.
        told: Its last events, each with a note such as the step or the reason, and the state
            after it.
        earlier: How many there were before these.
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
    """The story after an event.

    Args:
        story: What has happened.
        event: What happens now. A failure may come in every state, once: callbacks that are told of
            the end may fail, too.
        note: What is told of it beside.

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

"""Decides whether a training resumes from a checkpoint, with the texts for it. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from sparkflow.spark.control.checkpoints.fingerprint import GRAPH, Fingerprint
from sparkflow.spark.control.checkpoints.store import Checkpoint, other_variables
from sparkflow.spark.control.schedule import Schedule
from sparkflow.spark.errors import OtherTrainingError
from sparkflow.spark.graphs.state import StateNodes

AUTO, ALWAYS, NEVER = "auto", "always", "never"
"""The values of `resume`."""

_SHOWN: Final = 8


def saved_fingerprint(found: Checkpoint) -> Fingerprint | None:
    """The fingerprint of the training that wrote a checkpoint; None for those of early versions."""
    saved = found.snapshot.fingerprint
    return None if saved is None else Fingerprint.from_json(saved)


def require_same_training(
    found: Checkpoint,
    wanted: Fingerprint | None,
    state: StateNodes,
    schedule: Schedule,
    *,
    is_finished: bool,
) -> None:
    """Checks that a checkpoint is of the requested training, as far as can be known.

    Args:
        found: The last checkpoint.
        wanted: The fingerprint of this training.
        state: The variables and tables of this training.
        schedule: The remaining steps.
        is_finished: Whether no steps remain.

    Raises:
        OtherTrainingError: It is of a different training; the message lists the differences.
    """
    others = other_variables(found, state.shared, state.tables)
    changes = list(_changes(found, wanted, others, schedule, is_finished))
    if not changes:
        return
    more = [f"and {len(changes) - _SHOWN} more"] if len(changes) > _SHOWN else []
    listed = "".join(f"\n  {each}" for each in [*changes[:_SHOWN], *more])
    how = "finished" if is_finished else "unfinished"
    raise OtherTrainingError(
        f"checkpointDir holds the checkpoint {found.path} of another, {how} training (checkpoint "
        f"-> this fit):{listed}\nUse another checkpointDir for this one, or resume='never' to "
        "start over and keep the old checkpoints"
        + ("" if others else "; or resume='always' to continue with its variables")
    )


def describe_resumed(found: Checkpoint, wanted: Fingerprint | None, is_finished: bool) -> str:
    """The message to the user if a checkpoint is resumed, or leaves nothing to do."""
    saved = saved_fingerprint(found)
    changes = [] if saved is None or wanted is None else saved.changes(wanted, elsewhere=False)
    if saved is None or wanted is None:
        known = "; it says nothing of its parameters, graph and rows, so they were not compared"
    elif changes:
        known = f", although (checkpoint -> this fit) {'; '.join(changes[:_SHOWN])}"
    else:
        rows = "rows" if saved.rows.compares(wanted.rows) else "number of rows"
        known = f" with the same parameters, graph and {rows}"
    if is_finished:
        return (
            f"checkpoint {found.path} is of a finished training{known}: returned unchanged; "
            "resume='never' trains anew"
        )
    return (
        f"training continues from step {found.snapshot.step} of checkpoint {found.path}, of an "
        f"unfinished training{known}; resume='never' trains anew"
    )


def _changes(
    found: Checkpoint,
    wanted: Fingerprint | None,
    others: Sequence[str],
    schedule: Schedule,
    is_finished: bool,
) -> Iterator[str]:
    saved = saved_fingerprint(found)
    if saved is not None and wanted is not None:
        changes = saved.changes(wanted, elsewhere=not is_finished)
        # The operations differ because the variables do.
        yield from (each for each in changes if not (others and each.startswith(GRAPH)))
    yield from others
    if schedule.total > schedule.end:
        done, asked = schedule.total, schedule.end
        yield f"epochs, maxSteps: {done} steps are done -> {asked} are asked for"

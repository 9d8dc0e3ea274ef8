"""The outcome of a training as bytes: variables and history, or an error.

The chief sends it to the client as rows of the barrier job. Nothing is unpickled: errors are
recreated from their names and messages.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from sparkflow.spark import errors as own_errors
from sparkflow.spark.control.checkpoints.packed import PARTS, STATE
from sparkflow.spark.errors import SparkTrainingError
from sparkflow_runtime import errors as runtime_errors
from sparkflow_runtime.checkpoint.tensors import pack_tensors, unpack_tensors
from sparkflow_runtime.errors import OpError

ROWS_SCHEMA: Final = "part string, number int, content binary"
"""The schema of the rows, as Spark DDL."""

VALUES, HISTORY, ERROR = "values", "history", "error"
EVENTS: Final = "events"
"""The part with events not yet passed to callbacks, see `relay`."""
ADDRESS: Final = "address"
"""The part with the chief's address: a messenger's row, which arrives while training runs."""
COMPLETE: Final = "complete"
"""The part that marks the outcome as complete: the last row of the leading task."""
# Spark Connect sends results in messages of about this size.
_CHUNK_BYTES: Final = 4 << 20
_PLAIN_ERRORS: Final[Mapping[str, type[Exception]]] = {
    each.__name__: each for each in (ValueError, TypeError, OSError, NotImplementedError)
}

Parts = Mapping[str, bytes]


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of the chief.

    Attributes:
        values: The variables by name.
        history: `TrainingHistory.to_dict()`.
    """

    values: Mapping[str, npt.NDArray[Any]] = field(repr=False)
    history: Mapping[str, Any] = field(repr=False)


def to_parts(outcome: Outcome) -> dict[str, bytes]:
    """Returns an outcome as named bytes."""
    shapes = {name: list(np.shape(value)) for name, value in outcome.values.items()}
    arrays = {name: np.atleast_1d(value) for name, value in outcome.values.items()}
    described = {"history": outcome.history, "shapes": shapes}
    return {VALUES: pack_tensors(arrays), HISTORY: json.dumps(described).encode()}


def error_to_parts(error: BaseException, restartable: bool) -> dict[str, bytes]:
    """Returns an error as named bytes."""
    described = {
        "type": type(error).__name__,
        "message": str(error.message if isinstance(error, OpError) else error),
        "notes": list(getattr(error, "__notes__", ())),
        "restartable": restartable,
    }
    return {ERROR: json.dumps(described).encode()}


@dataclass(frozen=True, slots=True)
class Paused:
    """A training that has stopped so that its client can check for slots.

    Attributes:
        left: The state from which the next job continues, see `packed.pack`.
        step: The number of steps made.
        changes: The changes of the number of workers so far, see `TrainingHistory.resized`.
    """

    left: Parts = field(repr=False)
    step: int
    changes: tuple[Mapping[str, Any], ...]

    @classmethod
    def of(cls, parts: Parts) -> Paused | None:
        """Creates it from the rows of a job; None if training has ended."""
        if STATE not in parts:
            return None
        state = json.loads(parts[STATE])
        left = {part: parts[part] for part in PARTS}
        return cls(left, int(state["step"]), tuple(state["history"].get("resized", ())))


def from_parts(parts: Parts) -> Outcome:
    """Returns the outcome from its parts.

    Raises:
        Exception: The error with which training failed.
        SparkTrainingError: There is no outcome.
    """
    if ERROR in parts:
        raise _error(json.loads(parts[ERROR]))
    if VALUES not in parts or HISTORY not in parts:
        raise SparkTrainingError(
            "The Spark job ended without reporting a result; the log of the executor that ran "
            "partition 0 may say why"
        )
    described = json.loads(parts[HISTORY])
    arrays = unpack_tensors(parts[VALUES], "the variables of the trained model")
    values = {
        name: arrays[name].reshape([int(size) for size in shape])
        for name, shape in described["shapes"].items()
    }
    return Outcome(values, described["history"])


def _error(described: Mapping[str, Any]) -> Exception:
    name, message = str(described["type"]), str(described["message"])
    kind = (
        _PLAIN_ERRORS.get(name)
        or _class_of(runtime_errors, name, OpError)
        or _class_of(own_errors, name, SparkTrainingError)
    )
    if described["restartable"] and kind is None:
        kind = own_errors.LostTaskError
    if kind is None:
        error: Exception = SparkTrainingError(f"{name}: {message}")
    elif issubclass(kind, OpError):
        error = kind(message=message)
    else:
        error = kind(message)
    for note in described["notes"]:
        if hasattr(error, "add_note"):  # Python 3.11
            error.add_note(str(note))
    return error


def _class_of(module: Any, name: str, base: type[Exception]) -> type[Exception] | None:
    found = getattr(module, name, None)
    return found if isinstance(found, type) and issubclass(found, base) else None


def to_rows(parts: Parts) -> Iterator[tuple[str, int, bytes]]:
    """Yields parts in pieces that fit a message: (part, number of the piece, content)."""
    for part, content in parts.items():
        for number, start in enumerate(range(0, len(content) or 1, _CHUNK_BYTES)):
            yield part, number, content[start : start + _CHUNK_BYTES]


def outcome_row(part: str, number: int, content: bytes) -> pa.RecordBatch:
    """Returns a row for a Spark task to yield, see `ROWS_SCHEMA`."""
    return pa.RecordBatch.from_pydict(
        {
            "part": pa.array([part], pa.string()),
            "number": pa.array([number], pa.int32()),
            "content": pa.array([content], pa.binary()),
        }
    )


def from_rows(rows: Iterable[tuple[str, int, bytes]]) -> dict[str, bytes]:
    """Returns the parts from rows in any order."""
    pieces: dict[str, dict[int, bytes]] = {}
    for part, number, content in rows:
        pieces.setdefault(part, {})[number] = bytes(content)
    return {
        part: b"".join(content for _, content in sorted(found.items()))
        for part, found in pieces.items()
    }

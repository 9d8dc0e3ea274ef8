"""The master's side of repeated runs: runs prepared steps for clients over tensor channels."""

from __future__ import annotations

import struct
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from sparkflow_runtime.errors import CancelledError, InvalidArgumentError, OpError

if TYPE_CHECKING:
    from sparkflow_runtime.master.executable import Executable

_NUMBER: Final = struct.Struct("<Q")
_MAX_CANCELLED: Final = 1024
"""Maximum number of remembered steps that were cancelled before they began."""


def pack_call(session: str, number: int) -> bytes:
    """Returns the text of a call that runs a prepared step; the fed values are its arguments.

    Args:
        session: The session's handle.
        number: The result of MakeCallable.
    """
    return _NUMBER.pack(number) + session.encode()


def unpack_call(text: bytes) -> tuple[str, int]:
    """Returns the session and number of a call.

    Raises:
        InvalidArgumentError: The text is malformed.
    """
    try:
        (number,) = _NUMBER.unpack_from(text)
        return text[_NUMBER.size :].decode(), number
    except (struct.error, UnicodeDecodeError):
        raise InvalidArgumentError(message="A malformed call of a prepared step") from None


class RepeatedRuns:
    """Runs prepared steps of sessions. `_lock` guards `_running` and `_cancelled`.

    Args:
        find: Returns the prepared step of a session's handle and a number.
    """

    def __init__(self, find: Callable[[str, int], Executable]) -> None:
        self._find = find
        self._lock = threading.Lock()
        self._running: dict[int, Callable[[OpError], None]] = {}
        self._cancelled: dict[int, None] = {}

    def call(self, step_id: int, text: bytes, args: Sequence[Any]) -> Sequence[Any]:
        """Runs a prepared step; see `answering.Clients`."""
        session, number = unpack_call(text)
        executable = self._find(session, number)

        def begun(cancel: Callable[[OpError], None]) -> None:
            with self._lock:
                self._running[step_id] = cancel
                is_over = step_id in self._cancelled
            if is_over:
                cancel(_gone())

        try:
            return executable.run(args, on_begin=begun)
        finally:
            with self._lock:
                self._running.pop(step_id, None)
                self._cancelled.pop(step_id, None)

    def cancel(self, step_id: int) -> None:
        """Ends a step whose client is gone or cancelled it, even if it has not begun."""
        with self._lock:
            found = self._running.get(step_id)
            if found is None:
                self._cancelled[step_id] = None
                if len(self._cancelled) > _MAX_CANCELLED:
                    del self._cancelled[next(iter(self._cancelled))]
        if found is not None:
            found(_gone())


def _gone() -> OpError:
    return CancelledError(message="The client of this step is gone")

"""The retry loop: attempts of one training after losses, until one succeeds or it must give up."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

_log = logging.getLogger(__name__)

Result = TypeVar("Result")


class RetryLoop(Generic[Result]):
    """Runs attempts one after another.

    Args:
        attempt: Runs the attempt of this number, from 0, which starts from the last checkpoint.
        max_restarts: The maximum number of further attempts.
        is_restartable: Whether another attempt may succeed after this error.
        on_restart: Called with the reason before another attempt.
        made: Returns the reasons of all restarts so far, if some happen within attempts; None to
            count those between attempts.
    """

    def __init__(
        self,
        attempt: Callable[[int], Result],
        max_restarts: int,
        is_restartable: Callable[[BaseException], bool],
        on_restart: Callable[[str], None] = lambda reason: None,
        made: Callable[[], Sequence[str]] | None = None,
    ) -> None:
        self._attempt = attempt
        self._max_restarts = max_restarts
        self._is_restartable = is_restartable
        self._on_restart = on_restart
        self._made = made

    def run(self) -> Result:
        """Returns the result of the first attempt that succeeds. Blocks.

        Raises:
            Exception: The error of the last attempt, with a note on earlier ones, if any.
        """
        reasons: list[str] = []
        while True:
            try:
                return self._attempt(len(reasons))
            except Exception as error:
                reason = str(error).split("\n", 1)[0]
                made = self._made() if self._made is not None else reasons
                if not self._is_restartable(error) or len(made) >= self._max_restarts:
                    if made:
                        _add_reasons(error, made, self._max_restarts)
                    raise
                _log.warning(
                    "training begins again (%d of at most %d restarts): %s",
                    len(made) + 1,
                    self._max_restarts,
                    reason,
                )
                reasons.append(reason)
            # Outside the handler, so that a new error is not chained to the previous one.
            self._on_restart(reason)


def _add_reasons(error: Exception, reasons: Sequence[str], max_restarts: int) -> None:
    listed = "".join(f"\n  {number}. {reason}" for number, reason in enumerate(reasons, 1))
    note = f"Restarted {len(reasons)} times (maxRestarts={max_restarts}) after:{listed}"
    if hasattr(error, "add_note"):  # Python 3.11
        error.add_note(note)
    _log.warning("%s", note)

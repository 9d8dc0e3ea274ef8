"""Tries again after losses: attempts of one training, until one ends well or it is no use."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

_log = logging.getLogger(__name__)

Result = TypeVar("Result")


class RetryLoop(Generic[Result]):
    """Runs attempts one after the other.

    Args:
        attempt: Makes the attempt of this number, from 0; begins at the last checkpoint.
        max_restarts: How often there may be another one.
        is_restartable: Whether another attempt may go better after this error.
        on_restart: Is told the reason before another attempt.
        made: The reasons of the restarts so far, where there are also such that need no other
            attempt; None for those between attempts.
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
        """The result of the first attempt that ends well. Blocks.

        Raises:
            Exception: Of the last attempt; if it is not the first one, with a note on the others.
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
            # Outside the handler, so that what fails now is not chained to what failed before.
            self._on_restart(reason)


def _add_reasons(error: Exception, reasons: Sequence[str], max_restarts: int) -> None:
    listed = "".join(f"\n  {number}. {reason}" for number, reason in enumerate(reasons, 1))
    note = f"Restarted {len(reasons)} times (maxRestarts={max_restarts}) after:{listed}"
    if hasattr(error, "add_note"):  # Python 3.11
        error.add_note(note)
    _log.warning("%s", note)

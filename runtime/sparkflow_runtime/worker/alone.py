"""A task without peers: its steps receive nothing from other tasks, and load no transport."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, NoReturn

from sparkflow_runtime.errors import NotFoundError


class Alone:
    """Replaces `transport.peers.Peers`, and the receiver of each step."""

    def receiver(self, step_id: int) -> Alone:
        """Returns itself as the receiver of a step."""
        return self

    def ask(
        self,
        wanted: Mapping[str, Sequence[str]],
        loops: bool,
        told: Mapping[str, Any] | None = None,
        held: Collection[str] = (),
    ) -> None:
        """Raises, as there are no peers.

        Raises:
            NotFoundError: Always.
        """
        self._fail(", ".join(wanted))

    def receive(self, task: str, key: str, iteration: int, more: bool) -> NoReturn:
        """Raises, as there are no peers.

        Raises:
            NotFoundError: Always.
        """
        self._fail(task)

    def transport(self, task: str, key: str) -> NoReturn:
        """Raises, as nothing is received.

        Raises:
            NotFoundError: Always.
        """
        self._fail(task)

    def cancel(self, ended_well: bool = False) -> None:
        """Does nothing, as nothing is in progress."""

    def flush(self, but: Collection[str] = ()) -> None:
        """Does nothing, as nothing is held back."""

    def close(self) -> None:
        """Does nothing, as nothing is open."""

    def _fail(self, task: str) -> NoReturn:
        raise NotFoundError(message=f"Task {task} is unknown: this task has no peers")

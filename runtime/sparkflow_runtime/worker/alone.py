"""A task that knows no other one: its steps take nothing from elsewhere, and load no transport."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any, NoReturn

from sparkflow_runtime.errors import NotFoundError


class Alone:
    """Stands for `transport.peers.Peers`, and for the receiver of each step."""

    def receiver(self, step_id: int) -> Alone:
        """There is nobody to receive from, in any step."""
        return self

    def ask(
        self,
        wanted: Mapping[str, Sequence[str]],
        loops: bool,
        told: Mapping[str, Any] | None = None,
        held: Collection[str] = (),
    ) -> None:
        """There is nobody to ask.

        Raises:
            NotFoundError: Always.
        """
        self._fail(", ".join(wanted))

    def receive(self, task: str, key: str, iteration: int, more: bool) -> NoReturn:
        """There is nobody to receive from.

        Raises:
            NotFoundError: Always.
        """
        self._fail(task)

    def transport(self, task: str, key: str) -> NoReturn:
        """Nothing came.

        Raises:
            NotFoundError: Always.
        """
        self._fail(task)

    def cancel(self, ended_well: bool = False) -> None:
        """Nothing is under way."""

    def flush(self, but: Collection[str] = ()) -> None:
        """Nothing is held back."""

    def close(self) -> None:
        """Nothing is open."""

    def _fail(self, task: str) -> NoReturn:
        raise NotFoundError(message=f"Task {task} is not in the cluster of no tasks")

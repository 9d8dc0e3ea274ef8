"""The sessions that masters have on one task, and when those are forgotten whose master is gone.

A master elsewhere takes a lease on its session and renews it, see `master.keep_alive`. A session
whose lease has run out is forgotten as if its master had closed it: what was its own goes, what
sessions share stays. A master that starts anew ends the sessions it had before its end.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final, Generic, TypeVar

from sparkflow_runtime.errors import AbortedError
from sparkflow_runtime.resources.container import Resources

G = TypeVar("G")


@dataclass(frozen=True, slots=True)
class MasterId:
    """The master of a session.

    Attributes:
        task: The task it lives in; "" for one without a task, such as a Spark driver's.
        incarnation: Differs each time the task starts.
    """

    task: str = ""
    incarnation: int = 0


NO_TASK: Final = MasterId()


@dataclass(slots=True)
class WorkerSession(Generic[G]):
    """One session.

    Attributes:
        master: Whose it is.
        lease_s: How long it lives without a word of its master; None: until it is deleted.
        expires: When it is forgotten, by the clock of `WorkerSessions`.
        resources: Its own: random states and the like.
        variables: Its own variables and queues if it is isolated; else the task's are used.
        graphs: Its partitions by handle.
    """

    master: MasterId
    lease_s: float | None
    expires: float = 0.0
    resources: Resources = field(default_factory=Resources)
    variables: Resources | None = None
    graphs: dict[str, G] = field(default_factory=dict)

    def clear(self) -> None:
        """Drops what was its own."""
        self.graphs.clear()
        self.resources.clear()
        if self.variables is not None:
            self.variables.clear()


class WorkerSessions(Generic[G]):
    """The sessions of one task by handle. Safe to use from several threads.

    `_changed` guards `_sessions` and `_watching`. While there are leases, a thread ends those that
    have run out.

    Args:
        task: The task's name, for errors.
        clock: Seconds that never go back.
        make_resources: Makes what holds the variables of a session that has its own.
        on_forgotten: Is told the name of every session that is gone.
    """

    def __init__(
        self,
        task: str,
        clock: Callable[[], float] = time.monotonic,
        make_resources: Callable[[], Resources] = Resources,
        on_forgotten: Callable[[str], None] = lambda handle: None,
    ) -> None:
        self._task = task
        self._on_forgotten = on_forgotten
        self._make_resources = make_resources
        self._clock = clock
        self._changed = threading.Condition()
        self._sessions: dict[str, WorkerSession[G]] = {}
        self._watching = False

    def __len__(self) -> int:
        """How many there are."""
        return len(self._sessions)

    def handles(self) -> list[str]:
        """Their names."""
        with self._changed:
            return list(self._sessions)

    def create(
        self,
        handle: str,
        *,
        isolate: bool = False,
        master: MasterId = NO_TASK,
        lease_s: float | None = None,
    ) -> None:
        """Opens a session; one that is there already stays as it is.

        Sessions that an earlier incarnation of the same master left behind are forgotten.

        Args:
            handle: Its name.
            isolate: Whether its variables and queues are its own.
            master: Whose it is.
            lease_s: See `WorkerSession`.
        """
        made: WorkerSession[G] = WorkerSession(
            master, lease_s, variables=self._make_resources() if isolate else None
        )
        with self._changed:
            if lease_s is not None:
                made.expires = self._clock() + lease_s
            stale = [name for name, each in self._sessions.items() if _is_stale(each, made)]
            doomed = {name: self._sessions.pop(name) for name in stale}
            self._sessions.setdefault(handle, made)
            self._changed.notify_all()
            if lease_s is not None and not self._watching:
                threading.Thread(target=self._watch, name="session-leases", daemon=True).start()
                self._watching = True
        self._forget(doomed)

    def find(self, handle: str) -> WorkerSession[G]:
        """The session of that name.

        Raises:
            AbortedError: There is none, e.g. because the task restarted.
        """
        # One read of a dictionary needs no lock; every step comes through here.
        found = self._sessions.get(handle)
        if found is None:
            raise AbortedError(
                message=f"Session {handle!r} does not exist on {self._task}; "
                "possibly this task was restarted"
            )
        return found

    def keep(self, handle: str) -> None:
        """Renews a session's lease.

        Raises:
            AbortedError: See `find`.
        """
        with self._changed:
            found = self.find(handle)
            if found.lease_s is not None:
                found.expires = self._clock() + found.lease_s

    def delete(self, handle: str) -> None:
        """Forgets a session, its graphs and resources; unknown ones are ignored."""
        with self._changed:
            found = self._sessions.pop(handle, None)
            self._changed.notify_all()
        if found is not None:
            self._forget({handle: found})

    def expire(self) -> None:
        """Forgets the sessions whose lease has run out."""
        with self._changed:
            now = self._clock()
            over = [
                name
                for name, each in self._sessions.items()
                if each.lease_s is not None and each.expires <= now
            ]
            doomed = {name: self._sessions.pop(name) for name in over}
        self._forget(doomed)

    def clear(self) -> None:
        """Forgets all sessions."""
        with self._changed:
            doomed = dict(self._sessions)
            self._sessions.clear()
            self._changed.notify_all()
        self._forget(doomed)

    def _forget(self, doomed: Mapping[str, WorkerSession[G]]) -> None:
        for handle, session in doomed.items():
            self._on_forgotten(handle)
            session.clear()

    def _watch(self) -> None:
        while True:
            self.expire()
            with self._changed:
                leased = [e.expires for e in self._sessions.values() if e.lease_s is not None]
                if not leased:
                    self._watching = False
                    return
                self._changed.wait(max(0.0, min(leased) - self._clock()))


def _is_stale(old: WorkerSession[G], new: WorkerSession[G]) -> bool:
    """Whether the master of `new` left `old` behind when it ended."""
    return bool(new.master.task) and (
        old.master.task == new.master.task and old.master.incarnation != new.master.incarnation
    )

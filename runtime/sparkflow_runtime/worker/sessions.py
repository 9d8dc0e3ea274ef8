"""The sessions that masters have on one task, which are dropped when their master is gone.

A remote master holds a lease on its session and renews it, see `master.keep_alive`. A session whose
lease has expired is closed as if by its master: its own resources are dropped, shared ones stay. A
restarted master ends the sessions of its earlier incarnation.
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
    """A session's master.

    Attributes:
        task: Its task; "" for a master without a task, such as a Spark driver's.
        incarnation: Differs each time the task starts.
    """

    task: str = ""
    incarnation: int = 0


NO_TASK: Final = MasterId()


@dataclass(slots=True)
class WorkerSession(Generic[G]):
    """A session on this task.

    Attributes:
        master: Its master.
        lease_s: How long it lives without a renewal by its master; None: until it is deleted.
        expires: When its lease expires, by the clock of `WorkerSessions`.
        resources: Its own resources: random states and the like.
        variables: Its own variables and queues if it is isolated; otherwise the task's are used.
        graphs: Its partitions by handle.
    """

    master: MasterId
    lease_s: float | None
    expires: float = 0.0
    resources: Resources = field(default_factory=Resources)
    variables: Resources | None = None
    graphs: dict[str, G] = field(default_factory=dict)

    def clear(self) -> None:
        """Drops its own resources."""
        self.graphs.clear()
        self.resources.clear()
        if self.variables is not None:
            self.variables.clear()


class WorkerSessions(Generic[G]):
    """The sessions of one task, by handle. Safe to use from several threads.

    `_changed` guards `_sessions` and `_watching`. While there are leases, a thread ends sessions
    with expired ones.

    Args:
        task: The task's name, for errors.
        clock: A monotonic clock in seconds.
        make_resources: Creates the resources for an isolated session's variables.
        on_forgotten: Called with the name of every session that has ended.
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
        """Returns the number of sessions."""
        return len(self._sessions)

    def handles(self) -> list[str]:
        """Returns the sessions' names."""
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
        """Opens a session; an existing one stays unchanged.

        Sessions of an earlier incarnation of the same master are ended.

        Args:
            handle: Its name.
            isolate: Whether it has its own variables and queues.
            master: Its master.
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
        """Returns the session of that name.

        Raises:
            AbortedError: There is none, e.g. because the task restarted.
        """
        # A single dictionary lookup needs no lock; every step passes through here.
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
        """Ends a session and drops its graphs and resources; unknown ones are ignored."""
        with self._changed:
            found = self._sessions.pop(handle, None)
            self._changed.notify_all()
        if found is not None:
            self._forget({handle: found})

    def expire(self) -> None:
        """Ends the sessions whose lease has expired."""
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
        """Ends all sessions."""
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
    """Whether `old` belongs to an earlier incarnation of the master of `new`."""
    return bool(new.master.task) and (
        old.master.task == new.master.task and old.master.incarnation != new.master.incarnation
    )

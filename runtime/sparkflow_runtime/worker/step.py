"""One step on one partition, as its kernels see it: the `StepContext`."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import numpy as np

from sparkflow_runtime.device.names import task_of
from sparkflow_runtime.errors import CancelledError, InternalError
from sparkflow_runtime.rendezvous.table import EndOfLoop, StepRendezvous

if TYPE_CHECKING:
    from sparkflow_runtime.resources.collectives.collective_exchange import Meeting
    from sparkflow_runtime.transport.channel.readings import Told
    from sparkflow_runtime.transport.peers import Peers, StepReceiver
    from sparkflow_runtime.worker.alone import Alone
    from sparkflow_runtime.worker.groups import Groups


Take: TypeAlias = Callable[[tuple[Any, ...], Sequence[int], Callable[[], None]], bool]


@dataclass(slots=True)
class Shortcuts:
    """The bundles that a partition's run exchanges without requests.

    Attributes:
        given: By key, the bundles that are available already.
        taken: By key, the receiver of a bundle that the partition sends, called with the indices of
            the tensors that may be read in place; the others may change afterwards. The last
            argument raises what has ended the step. Returns False if the bundle must be sent the
            usual way.
        awaited: By key, a function that waits for a bundle sent along with something else; it
            returns None if there is none.
        told: By task, the bundles whose locations it requests.
        held: The tasks to which `taken` sends something before the first wait.
    """

    given: dict[str, tuple[Any, ...]] = field(default_factory=dict)
    taken: dict[str, Take] = field(default_factory=dict)
    awaited: dict[str, Callable[[], tuple[Any, ...] | None]] = field(default_factory=dict)
    told: dict[str, Told] = field(default_factory=dict)
    held: set[str] = field(default_factory=set)


class Receiver(Protocol):
    """Receives a step's bundles from other tasks, see `transport.peers.StepReceiver`."""

    def receive(self, task: str, key: str, iteration: int, more: bool) -> tuple[Any, ...] | None:
        """Waits for a bundle; None when the sender's loop has ended."""

    def transport(self, task: str, key: str) -> str:
        """Returns how the bundles of a key travel."""

    def cancel(self) -> None:
        """Ends all waits."""


class RunReceiver:
    """The receiver of a run, created when there is something to receive.

    Most runs receive nothing, and which ones do is not known in advance: even a partition without
    receives may have a collective, whose ranks exchange bundles. Used by all threads of the run.

    Args:
        peers: The other tasks.
        step_id: The step.
        rendezvous: The step's rendezvous.
    """

    __slots__ = ("_forget", "_is_over", "_lock", "_made", "_peers", "_rendezvous", "_step_id")

    def __init__(self, peers: Peers | Alone, step_id: int, rendezvous: StepRendezvous) -> None:
        self._peers = peers
        self._step_id = step_id
        self._rendezvous = rendezvous
        self._lock = threading.Lock()  # guards the next three fields
        self._made: StepReceiver | Alone | None = None
        self._forget: Callable[[], None] | None = None
        self._is_over = False

    def ask(
        self,
        wanted: Mapping[str, Sequence[str]],
        loops: bool,
        told: Mapping[str, Told],
        held: Collection[str],
    ) -> None:
        """See `transport.peers.StepReceiver`."""
        self._get().ask(wanted, loops, told, held)

    def receive(self, task: str, key: str, iteration: int, more: bool) -> tuple[Any, ...] | None:
        """See `transport.peers.StepReceiver`."""
        return self._get().receive(task, key, iteration, more)

    def transport(self, task: str, key: str) -> str:
        """See `transport.peers.StepReceiver`."""
        return self._get().transport(task, key)

    def cancel(self, ended_well: bool = False) -> None:
        """See `transport.peers.StepReceiver`; may be called again."""
        with self._lock:
            self._is_over = True
            made, forget, self._forget = self._made, self._forget, None
        if forget is not None:
            forget()
        if made is not None:
            made.cancel(ended_well)

    def _get(self) -> StepReceiver | Alone:
        if self._made is not None:
            return self._made
        with self._lock:
            if self._made is None:
                made = self._peers.receiver(self._step_id)
                if self._is_over:
                    made.cancel()
                else:
                    self._forget = self._rendezvous.on_abort(made.cancel)
                self._made = made
            return self._made


class Step:
    """The `StepContext` of one partition's run. Used by the thread that runs the partition.

    Attributes:
        waited_s: Seconds spent waiting for other tasks.
        waits_for: The awaited bundle, its task and the start of the wait (`time.perf_counter()`);
            None while it does not wait. For reports by other threads.
    """

    __slots__ = (
        "_groups",
        "_local_task",
        "_receiver",
        "_rendezvous",
        "_shortcuts",
        "_stopped",
        "_wakers",
        "first_step",
        "iteration",
        "last_iteration",
        "step_id",
        "waited_s",
        "waits_for",
    )

    def __init__(
        self,
        step_id: int,
        rendezvous: StepRendezvous,
        receiver: Receiver,
        local_task: str,
        num_steps: int = 1,
        first_step: int = 0,
        groups: Callable[[], Groups] | None = None,
        shortcuts: Shortcuts | None = None,
    ) -> None:
        self.first_step = first_step
        self.step_id = step_id
        self.iteration = 0
        self.last_iteration = num_steps - 1
        self.waited_s = 0.0
        self.waits_for: tuple[str, str, float] | None = None
        self._rendezvous = rendezvous
        self._receiver = receiver
        self._local_task = local_task
        self._groups = groups
        self._shortcuts = shortcuts
        self._stopped = False
        self._wakers: dict[object, Callable[[], None]] = {}

    @property
    def number(self) -> int:
        """The training step's number: the loop's first step plus the iteration."""
        return self.first_step + self.iteration

    def check_cancelled(self) -> None:
        """Returns while the step is in progress.

        Raises:
            EndOfLoop: The loop ended before this iteration.
            OpError: The error that ended the step.
        """
        if self._stopped:
            raise CancelledError(message="Another part of the step failed")
        self._rendezvous.check(self.iteration)

    def on_cancel(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Calls `callback` once if the step ends, or its loop does before this iteration.

        The returned function removes it.
        """
        undo = self._rendezvous.on_abort(callback, self.iteration)
        place = object()
        self._wakers[place] = callback
        if self._stopped:
            callback()

        def take_back() -> None:
            self._wakers.pop(place, None)
            undo()

        return take_back

    def stop(self) -> None:
        """Ends this partition's waits, as a part of it has failed."""
        self._stopped = True
        for callback in list(self._wakers.values()):
            callback()
        self._rendezvous.wake()
        self._receiver.cancel()

    def send(
        self, key: str, destination: str, values: tuple[Any, ...], lent: Sequence[int] = ()
    ) -> None:
        """Sends the values to the partition on `destination`; they may change once this returns.

        Raises:
            EndOfLoop: The loop ended before this iteration.
            OpError: The other task is gone, or the step has ended.
        """
        start = time.perf_counter()
        shortcuts = self._shortcuts
        if shortcuts is not None:
            take = shortcuts.taken.pop(key, None)
            if take is not None:
                self.check_cancelled()
                is_taken = take(values, lent, self.check_cancelled)
                self.waited_s += time.perf_counter() - start
                if is_taken:
                    return
        keep = _snapshot if not lent else partial(_snapshot_but, frozenset(lent))
        self._rendezvous.send(key, self.iteration, values, lent, keep)
        self.waited_s += time.perf_counter() - start

    def receive(self, key: str, source: str) -> tuple[Any, ...]:
        """Waits for the bundle `key` of this iteration.

        Raises:
            EndOfLoop: The sender's data ended before this iteration.
        """
        from sparkflow_runtime.resources.turns import others_go_on

        wait: Callable[[], tuple[Any, ...] | None] | None = None
        if self._shortcuts is not None:
            given = self._shortcuts.given.pop(key, None)
            if given is not None:
                self.check_cancelled()
                return given
            wait = self._shortcuts.awaited.pop(key, None)
        task = task_of(source)
        start = time.perf_counter()
        self.waits_for = (key, task, start)
        try:
            with others_go_on():
                if task == self._local_task:
                    return self._rendezvous.take(  # type: ignore[no-any-return]  # put by `send`
                        key, self.iteration, wanted=self._goes_on
                    )
                values = None if wait is None else wait()
                if values is None:
                    more = self.iteration < self.last_iteration
                    values = self._receiver.receive(task, key, self.iteration, more)
        except Exception:
            # The error that ended the step says more than that of the cancelled wait.
            self.check_cancelled()
            raise
        finally:
            self.waits_for = None
            self.waited_s += time.perf_counter() - start
        if values is None:
            raise EndOfLoop
        return values

    def _goes_on(self) -> bool:
        return not self._stopped

    def transport(self, key: str, source: str) -> str:
        """Returns how the bundle `key` travels from device `source`: "memory" within this task."""
        task = task_of(source)
        return "memory" if task == self._local_task else self._receiver.transport(task, key)

    def meeting(self) -> Meeting:
        """Returns the meeting of a collective's ranks that are all in this step.

        Raises:
            InternalError: The step was created without groups.
        """
        return self._known_groups().within(self)

    def join(self, group: str, rank: int, devices: tuple[str, ...], timeout_s: float) -> Meeting:
        """Returns the meeting of ranks in separate sessions, see `Groups.join`."""
        return self._known_groups().join(group, rank, devices, timeout_s, self)

    def _known_groups(self) -> Groups:
        if self._groups is None:
            raise InternalError(
                message=f"Step {self.step_id} was created without collective groups"
            )
        return self._groups()


def _snapshot(values: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple([np.array(value) for value in values])


def _snapshot_but(lent: frozenset[int], values: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple([v if i in lent else np.array(v) for i, v in enumerate(values)])

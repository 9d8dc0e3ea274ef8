"""The meetings of collective ranks on this task: within a step, or between sessions.

Ranks in separate sessions have no step in common. Their group takes its place: rank 0's task
assigns it a number (`rendezvous.groups`), under which tensors travel like those of a step.
"""

from __future__ import annotations

import contextlib
import secrets
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError as FutureCancelledError, Future
from typing import TYPE_CHECKING, Any, Final

from sparkflow_runtime.device.names import task_of
from sparkflow_runtime.errors import CancelledError, OpError
from sparkflow_runtime.rendezvous.groups import GroupTable
from sparkflow_runtime.rendezvous.table import RendezvousTable
from sparkflow_runtime.resources.collectives.collective_exchange import instance_of
from sparkflow_runtime.transport.threads import MAX_THREADS, DaemonThreads
from sparkflow_runtime.worker.loop import FOREVER
from sparkflow_runtime.worker.step import Step

if TYPE_CHECKING:
    from sparkflow_runtime.protos.worker_pb2 import CompleteGroupRequest
    from sparkflow_runtime.resources.collectives.collective_exchange import Meeting
    from sparkflow_runtime.resources.waiting import Cancellation
    from sparkflow_runtime.transport.peers import Peers

LENT_S: Final = 30.0
"""How long what a rank lent in its last runs is kept after it has left, as others may still read it
in place. They do not report when they are done; reading takes milliseconds."""
LEAVE_TIMEOUT_S: Final = 5.0
"""How long a leaving rank waits until others have received what it sent."""
_REPLY_S: Final = 5.0
"""How much longer an rpc's timeout is than that of the wait in it, whose error names what is
missing."""


class Groups:
    """The collective groups of one task. Safe to use from several threads.

    Args:
        task: The task's name.
        rendezvous: Where its steps' tensors meet.
        peers: Returns the connections to other tasks.
    """

    def __init__(self, task: str, rendezvous: RendezvousTable, peers: Callable[[], Peers]) -> None:
        self.table = GroupTable(rendezvous.finish)
        self._task = task
        self._rendezvous = rendezvous
        self._peers = peers
        self._threads = DaemonThreads(MAX_THREADS, "collective")
        self._lent: deque[tuple[float, Sequence[Any]]] = deque()

    def within(self, step: Step) -> Meeting:
        """Returns the meeting of the ranks of one step."""
        return _StepMeeting(step, self._threads)

    def join(
        self,
        group: str,
        rank: int,
        devices: tuple[str, ...],
        timeout_s: float,
        cancellation: Cancellation,
    ) -> Meeting:
        """Returns the meeting of ranks in separate sessions; waits until all have joined.

        Args:
            group: The group's name, the same for all ranks.
            rank: This rank.
            devices: The device of each rank.
            timeout_s: How long to wait.
            cancellation: Interrupts the wait.

        Raises:
            DeadlineExceededError: Some ranks did not join; the message names them.
            OpError: The task of rank 0 cannot be reached, or the step was cancelled.
        """
        self._let_go()
        from sparkflow_runtime.protos.worker_pb2 import CompleteGroupRequest

        applicant = CompleteGroupRequest(
            group=group,
            group_size=len(devices),
            rank=rank,
            member=secrets.token_hex(16),
            timeout_s=timeout_s,
        )
        leader = task_of(devices[0])
        if leader == self._task:
            number = self._join_here(applicant, timeout_s, cancellation)
        else:
            number = self._join_there(leader, applicant, timeout_s, cancellation)
        return _GroupMeeting(
            number, self._task, self._rendezvous, self._peers(), self._threads, self._keep
        )

    def close(self, error: OpError) -> None:
        """Ends all waits and the threads."""
        self.table.close(error)
        self._threads.shutdown(cancel_futures=True)
        self._lent.clear()

    def _keep(self, lent: Sequence[Any]) -> None:
        """Keeps arrays alive that other tasks may still be reading."""
        self._let_go()
        self._lent.append((time.monotonic() + LENT_S, lent))

    def _let_go(self) -> None:
        while self._lent and self._lent[0][0] < time.monotonic():
            with contextlib.suppress(IndexError):  # another thread was faster
                self._lent.popleft()

    def _join_here(
        self, applicant: CompleteGroupRequest, timeout_s: float, cancellation: Cancellation
    ) -> int:
        cancelled: list[bool] = []

        def cancel() -> None:
            cancelled.append(True)
            self.table.wake()

        take_back = cancellation.on_cancel(cancel)
        try:
            return self.table.join(applicant, timeout_s, lambda: not cancelled)
        finally:
            take_back()

    def _join_there(
        self,
        leader: str,
        applicant: CompleteGroupRequest,
        timeout_s: float,
        cancellation: Cancellation,
    ) -> int:
        import grpc

        from sparkflow_runtime.protos.worker_pb2 import CompleteGroupResponse

        stub = self._peers().stub(leader)
        call = stub.future(
            "CompleteGroup", applicant, CompleteGroupResponse.FromString, timeout_s + _REPLY_S
        )
        take_back = cancellation.on_cancel(call.cancel)
        try:
            return int(call.result().number)
        except grpc.RpcError as error:
            raise stub.error_of(error) from None
        except grpc.FutureCancelledError:
            raise CancelledError(message=f"Joining {applicant.group} was cancelled") from None
        finally:
            take_back()


class _StepMeeting:
    """The meeting of the ranks of one step: the step itself."""

    def __init__(self, step: Step, threads: DaemonThreads) -> None:
        self._step = step
        self._threads = threads

    def send(
        self, key: str, turn: int, destination: str, values: tuple[Any, ...], lent: bool = False
    ) -> None:
        self._step.send(key, destination, values, range(len(values)) if lent else ())

    def receive(self, key: str, turn: int, source: str) -> tuple[Any, ...]:
        return self._step.receive(key, source)

    def submit(self, call: Callable[[], Any]) -> Future[Any]:
        return self._threads.submit(call)

    def release(self, instance: int, turn: int) -> None:
        """Does nothing: the step keeps what it lent."""

    def end(self, error: OpError, is_complete: Callable[[str, int], bool]) -> None:
        """Does nothing: the step fails with its kernel, on all tasks."""

    def leave(self, error: OpError) -> None:
        """Does nothing."""


class _GroupMeeting:
    """The meeting of a rank under its group's number."""

    def __init__(
        self,
        number: int,
        task: str,
        rendezvous: RendezvousTable,
        peers: Peers,
        threads: DaemonThreads,
        keep: Callable[[Sequence[Any]], None],
    ) -> None:
        self._keep = keep
        # By instance and run. All that is lent in a run are views of one buffer, see `run_lanes`.
        self._lent: dict[tuple[int, int], tuple[Any, ...]] = {}
        self._number = number
        self._task = task
        self._table = rendezvous
        self._rendezvous = rendezvous.find(number)
        self._receiver = peers.receiver(number)
        self._threads = threads
        self._ending: Future[None] | None = None
        self._is_over = False
        self._rendezvous.on_abort(self._receiver.cancel)

    def send(
        self, key: str, turn: int, destination: str, values: tuple[Any, ...], lent: bool = False
    ) -> None:
        if lent:
            self._lent.setdefault((instance_of(key), turn), values)
        self._at(turn).send(key, destination, values, range(len(values)) if lent else ())

    def receive(self, key: str, turn: int, source: str) -> tuple[Any, ...]:
        return self._at(turn).receive(key, source)

    def submit(self, call: Callable[[], Any]) -> Future[Any]:
        return self._threads.submit(call)

    def release(self, instance: int, turn: int) -> None:
        self._lent.pop((instance, turn), None)

    def end(self, error: OpError, is_complete: Callable[[str, int], bool]) -> None:
        if self._rendezvous.drain(0.0, is_complete):
            self._finish(error)
            return

        def end_later() -> None:
            self._rendezvous.drain(LEAVE_TIMEOUT_S, is_complete)
            self._finish(error)

        try:
            self._ending = self._threads.submit(end_later)
        except RuntimeError:  # the task is being shut down
            self._finish(error)

    def leave(self, error: OpError) -> None:
        if self._ending is None:
            self._rendezvous.drain(LEAVE_TIMEOUT_S)
        else:
            with contextlib.suppress(FutureCancelledError):
                self._ending.result()
        self._finish(error)

    def _finish(self, error: OpError) -> None:
        if self._is_over:
            return
        self._is_over = True
        self._table.finish(self._number, error)
        self._keep(list(self._lent.values()))

    def _at(self, turn: int) -> Step:
        step = Step(self._number, self._rendezvous, self._receiver, self._task)
        step.iteration, step.last_iteration = turn, FOREVER
        return step

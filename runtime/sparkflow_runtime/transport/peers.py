"""A task's connections to its peers, and a step's receiver of tensors from them.

Tensors travel over the tensor channel if the other task has one, otherwise by gRPC's RecvTensor;
the step sees no difference. A further transport, such as UCX, would need another
`StepReceiver.receive`, and another `serving.Sink` at the sending end.
"""

from __future__ import annotations

import logging
import threading
import time
import weakref
from collections.abc import Callable, Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final

import grpc

from sparkflow_runtime.errors import (
    CancelledError,
    FailedPreconditionError,
    InvalidArgumentError,
    NotFoundError,
    UnavailableError,
)
from sparkflow_runtime.protos import worker_pb2
from sparkflow_runtime.protos.worker_pb2 import RecvTensorRequest
from sparkflow_runtime.security import shown_at
from sparkflow_runtime.transport import codec, rpc
from sparkflow_runtime.transport.channel.address import ChannelAddress
from sparkflow_runtime.transport.channel.asking import Asker, Stream
from sparkflow_runtime.transport.channel.dialling import dial
from sparkflow_runtime.transport.channel.handshake import Self
from sparkflow_runtime.transport.channel.reactor import available, reactor
from sparkflow_runtime.transport.channel.readings import Told
from sparkflow_runtime.transport.waking import Waker

WORKER_SERVICE: Final = "sparkflow_runtime.protos.WorkerService"
LOCATE_TIMEOUT_S: Final = 20.0
"""How long a task may take to report its channel's address."""
DIAL_TIMEOUT_S: Final = 5.0
RETRY_S: Final = 30.0
"""How long gRPC is used for a task after its channel could not be opened."""

_NOTHING: Final[Mapping[str, Told]] = MappingProxyType({})

_log = logging.getLogger(__name__)


class Peers:
    """The connections to the other tasks of a cluster: gRPC and, if available, tensor channels.

    `_lock` guards all fields but the tasks' locks, which are held while dialling. Connections are
    opened on first use, and channels are reopened after a loss.

    Args:
        addresses: Task names to `host:port`.
        me: This task's identity.
    """

    def __init__(self, addresses: Mapping[str, str], me: Self | None = None) -> None:
        self._addresses = dict(addresses)
        self._given = frozenset(addresses)
        self._self = me or Self()
        self._lock = threading.Lock()
        self._stubs: dict[str, rpc.Stub] = {}
        self._used: weakref.WeakSet[rpc.Stub] = weakref.WeakSet()
        self._closed = False
        self._askers: dict[str, Asker] = {}
        self._dialling: dict[str, threading.Lock] = {}
        self._without: dict[str, float] = {}
        self._lost: set[str] = set()

    def stub(self, task: str) -> rpc.Stub:
        """Returns the stub of a task's worker service.

        A task that could not be reached is tried over a new connection, as it may have started
        since. The old one is closed with its last call.

        Raises:
            NotFoundError: The cluster has no such task.
            CancelledError: The channels were closed.
            UnavailableError: The task was given up.
        """
        with self._lock:
            self._require_there(task)
            found = self._stubs.get(task)
            if found is None or found.found_nobody:
                if self._closed:
                    raise CancelledError(message=f"The channels to {task} and others were closed")
                address = self._addresses.get(task)
                if address is None:
                    raise NotFoundError(
                        message=f"Task {task} is not in the cluster of "
                        f"{', '.join(sorted(self._addresses)) or 'no tasks'}"
                    )
                link = rpc.channel(address, self._self.tls)
                peer = f"Task {task} at {address}"
                token = shown_at(self._self.token, address)
                found = self._stubs[task] = rpc.Stub(link, WORKER_SERVICE, token, peer)
                self._used.add(found)
            return found

    def channel(self, task: str) -> Asker | None:
        """Returns the channel to a task; None if gRPC is to be used.

        Raises:
            CancelledError: The channels were closed.
            OpError: The task refuses or was given up, or a requested transport is not available.
        """
        found = self._askers.get(task)
        if found is not None and found.is_open:
            return found
        if self._self.transport == "grpc" or not available():
            return None
        with self._lock:
            if self._closed:
                raise CancelledError(message=f"The channels to {task} and others were closed")
            self._require_there(task)
            until = self._without.get(task)
            if until is not None and time.monotonic() < until:
                return None
            dialling = self._dialling.setdefault(task, threading.Lock())
        self.flush()  # Calls to others that are held back must not wait until this task answers.
        with dialling:
            found = self._askers.get(task)
            if found is not None and found.is_open:
                return found
            return self._dial(task)

    def open_channel(self, task: str) -> Asker | None:
        """Returns the channel to a task, if one is open."""
        found = self._askers.get(task)
        return found if found is not None and found.is_open else None

    def receiver(self, step_id: int, check: Callable[[], None] = lambda: None) -> StepReceiver:
        """Returns a receiver for a run of a partition; `check` raises what ended the step."""
        return StepReceiver(self, step_id, check)

    def flush(self, but: Collection[str] = ()) -> None:
        """Sends the calls that channels have held back, see `Asker.call`.

        Args:
            but: Tasks to skip, as something else is sent to them before the next wait.
        """
        for task, asker in list(self._askers.items()):
            if task not in but:
                asker.flush()

    def learn(self, addresses: Mapping[str, str]) -> None:
        """Adds the tasks of a session's own cluster; their addresses may have changed.

        Calls in progress on the channel to a task's old address end with an UnavailableError.

        Args:
            addresses: Task names to `host:port`.

        Raises:
            InvalidArgumentError: A task has another address in the cluster that this task was
                started with.
        """
        left: list[tuple[Asker, UnavailableError]] = []
        with self._lock:
            for task, address in addresses.items():
                known = self._addresses.get(task, address)
                if known == address:
                    continue
                if task in self._given:
                    raise InvalidArgumentError(
                        message=f"The session's cluster has {task} at {address}, and the server's "
                        f"cluster has it at {known}"
                    )
                self._stubs.pop(task, None)
                self._without.pop(task, None)
                asker = self._askers.pop(task, None)
                if asker is not None:
                    text = f"Task {task} was at {known} and is at {address} now"
                    left.append((asker, UnavailableError(message=text)))
            self._addresses.update(addresses)
        for asker, error in left:
            asker.close(error)

    def lose(self, task: str) -> None:
        """Gives a task up: its calls end at once, and no new ones are sent to it."""
        with self._lock:
            self._lost.add(task)
            stub, asker = self._stubs.pop(task, None), self._askers.pop(task, None)
        if asker is not None:
            asker.close(_given_up(task))
        if stub is not None:
            stub.close()

    def _require_there(self, task: str) -> None:
        if task in self._lost:
            raise _given_up(task)

    def close(self) -> None:
        """Closes all channels, which ends the calls on them; no new one is opened."""
        with self._lock:
            self._closed = True
            used = list(self._used)
            self._stubs.clear()
            askers, self._askers = list(self._askers.values()), {}
        for asker in askers:
            asker.close(CancelledError(message="The channels of this task were closed"))
        for stub in used:
            stub.close()

    def _dial(self, task: str) -> Asker | None:
        me, where = self._self, self._addresses.get(task)
        place = self._locate(task)
        if place is None:
            self._do_without(task, "it has none")
            return None
        address, incarnation = place
        must = me.transport if me.transport != "auto" else ""
        if must in ("unix", "shm") and not address.is_here:
            raise FailedPreconditionError(
                message=f"Transport {must!r} was requested, but {task} is on another host"
            )
        try:
            opened = dial(
                address,
                me,
                expected_task=task,
                expected_incarnation=incarnation,
                timeout_s=DIAL_TIMEOUT_S,
            )
            asker = Asker(opened, reactor, me.arena)
        except (UnavailableError, OSError, RuntimeError) as error:  # or a lack of descriptors
            if must:
                raise
            self._do_without(task, str(error))
            return None
        with self._lock:
            has_moved = self._addresses.get(task) != where
            is_lost = task in self._lost
            if not (self._closed or has_moved or is_lost):
                self._askers[task] = asker
                return asker
        asker.close()
        if is_lost:
            raise _given_up(task)
        if has_moved:
            return self._dial(task)
        raise CancelledError(message=f"The channels to {task} and others were closed")

    def _do_without(self, task: str, reason: str) -> None:
        _log.info("No tensor channel to %s, gRPC is used: %s", task, reason)
        with self._lock:
            self._without[task] = time.monotonic() + RETRY_S

    def _locate(self, task: str) -> tuple[ChannelAddress, int] | None:
        stub = self.stub(task)
        status = worker_pb2.GetStatusResponse
        answer = stub.call(
            "GetStatus", worker_pb2.GetStatusRequest(), status.FromString, LOCATE_TIMEOUT_S
        )
        stub.is_known = True
        address = ChannelAddress.from_proto(answer.channel_address, self._addresses[task])
        return None if address is None else (address, answer.incarnation)


def _given_up(task: str) -> UnavailableError:
    return UnavailableError(message=f"Task {task} was given up")


class StepReceiver:
    """Receives the bundles of a step from other tasks, over channels or gRPC.

    Used by one thread per key; `cancel` by any. `_lock` guards `_streams` and `_wakers`.
    """

    def __init__(self, peers: Peers, step_id: int, check: Callable[[], None]) -> None:
        self._peers = peers
        self._step_id = step_id
        self._check = check
        self._lock = threading.Lock()
        self._streams: dict[tuple[str, str], Stream] = {}
        self._wakers: set[Waker] = set()
        self._asked: dict[tuple[str, int], Any] = {}
        self._cancelled = False

    def ask(
        self,
        wanted: Mapping[str, Sequence[str]],
        loops: bool,
        told: Mapping[str, Told] = _NOTHING,
        held: Collection[str] = (),
    ) -> None:
        """Requests bundles from tasks before they are waited for.

        Args:
            wanted: Task names to keys.
            loops: Whether more than one iteration may come.
            told: By task, see `Asker.ask`.
            held: The tasks whose requests are held back, see `is_held` there.

        Raises:
            OpError: A task refuses to open a channel.
        """
        for task, keys in wanted.items():
            asker = self._peers.channel(task)
            if asker is not None:
                streams = asker.ask(
                    self._step_id, keys, loops, told=told.get(task), is_held=task in held
                )
                with self._lock:
                    for key, stream in zip(keys, streams, strict=True):
                        self._streams[task, key] = stream

    def receive(self, task: str, key: str, iteration: int, more: bool) -> tuple[Any, ...] | None:
        """Waits for a bundle; None when the sender's loop has ended.

        Args:
            task: The sending task, `/job:ps/replica:0/task:0`.
            key: The bundle's key.
            iteration: Iteration of the step loop.
            more: Whether another iteration may follow, so that its bundle can be requested in
                advance.

        Raises:
            OpError: The sender failed or is gone, or the step has ended.
        """
        found = self._streams.get((task, key))
        if found is None:
            asker = self._peers.channel(task)
            if asker is None:
                return self._receive_by_rpc(task, key, iteration, more)
            [found] = asker.ask(self._step_id, [key], more, iteration)
            self._streams[task, key] = found
        waker = Waker.of_this_thread(self._check_cancelled)
        with self._lock:
            self._wakers.add(waker)
        try:
            values = found.take(iteration, waker, more)
        finally:
            with self._lock:
                self._wakers.discard(waker)
        return None if values is None else tuple(values)

    def transport(self, task: str, key: str) -> str:
        """Returns how the bundles of a key travel, for the trace."""
        found = self._streams.get((task, key))
        return "grpc" if found is None else found.transport

    def cancel(self, ended_well: bool = False) -> None:
        """Ends all waits and drops what was requested in advance."""
        self._cancelled = True
        for call in list(self._asked.values()):
            call.cancel()
        with self._lock:
            streams = list(self._streams.values())
            self._streams.clear()
            for waker in self._wakers:
                waker.wake()
        for stream in streams:
            stream.cancel(ended_well)

    def _check_cancelled(self) -> None:
        self._check()
        if self._cancelled:
            raise CancelledError(message="Waiting for other tasks was cancelled")

    # ------------------------------------------------------------------------- without channels

    def _receive_by_rpc(
        self, task: str, key: str, iteration: int, more: bool
    ) -> tuple[Any, ...] | None:
        """Receives by RecvTensor; requests the next iteration's bundle when one has arrived."""
        stub = self._peers.stub(task)
        place = (key, iteration)
        call = self._asked.get(place) or self._ask_by_rpc(stub, key, iteration)
        try:
            message = call.result()
        except grpc.RpcError as error:
            raise stub.error_of(error) from None
        except grpc.FutureCancelledError:
            raise CancelledError(message=f"Waiting for {stub.peer} was cancelled") from None
        finally:
            self._asked.pop(place, None)
        if more and not self._cancelled:
            self._ask_by_rpc(stub, key, iteration + 1)
        return codec.decode(message)

    def _ask_by_rpc(self, stub: rpc.Stub, key: str, iteration: int) -> Any:
        request = RecvTensorRequest(step_id=self._step_id, rendezvous_key=f"{key};{iteration}")
        call = self._asked[key, iteration] = stub.future("RecvTensor", request, None)
        if self._cancelled:
            call.cancel()
        return call

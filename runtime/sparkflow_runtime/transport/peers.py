"""How a step takes tensors from other tasks: the interface, and gRPC RecvTensor behind it.

A faster transport implements `Receiver` as well; the worker does not know which one it uses.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any, Protocol

import grpc

from sparkflow_runtime.errors import CancelledError, NotFoundError
from sparkflow_runtime.protos.cluster_pb2 import ClusterDef
from sparkflow_runtime.protos.worker_pb2 import RecvTensorRequest
from sparkflow_runtime.transport import codec, rpc, status

WORKER_SERVICE = "sparkflow_runtime.protos.WorkerService"


def task_name(job: str, index: int) -> str:
    """The full name of a task: `/job:ps/replica:0/task:1`."""
    return f"/job:{job}/replica:0/task:{index}"


def addresses(cluster: ClusterDef) -> dict[str, str]:
    """Task name -> `host:port` for every task of a cluster."""
    return {
        task_name(job.name, index): address
        for job in cluster.job
        for index, address in job.tasks.items()
    }


class Receiver(Protocol):
    """Takes bundles of one step from other tasks. Used by one thread; `cancel` by any."""

    def receive(self, task: str, key: str, iteration: int, more: bool) -> tuple[Any, ...] | None:
        """Waits for a bundle; None when the sender's loop has ended.

        Args:
            task: The sending task, `/job:ps/replica:0/task:0`.
            key: The bundle's key.
            iteration: Turn of the step loop.
            more: Whether a next turn may follow, so that its bundle can be asked for in advance.
        """

    def cancel(self) -> None:
        """Ends waiting and drops what was asked for in advance."""


class Peers:
    """Channels to the other tasks of a cluster, opened when first used.

    `_lock` guards `_stubs`, `_channels` and `_closed`. `addresses` maps task names to `host:port`.
    """

    def __init__(self, addresses: Mapping[str, str], token: str | None) -> None:
        self._addresses = dict(addresses)
        self._token = token
        self._lock = threading.Lock()
        self._stubs: dict[str, rpc.Stub] = {}
        self._channels: list[grpc.Channel] = []
        self._closed = False

    def stub(self, task: str) -> rpc.Stub:
        """The worker service of a task.

        Raises:
            NotFoundError: The cluster has no such task.
            CancelledError: The channels were closed.
        """
        with self._lock:
            found = self._stubs.get(task)
            if found is None:
                if self._closed:
                    raise CancelledError(message=f"The channels to {task} and others were closed")
                address = self._addresses.get(task)
                if address is None:
                    raise NotFoundError(
                        message=f"Task {task} is not in the cluster of "
                        f"{', '.join(sorted(self._addresses)) or 'no tasks'}"
                    )
                link = rpc.channel(address)
                self._channels.append(link)
                peer = f"Task {task} at {address}"
                found = self._stubs[task] = rpc.Stub(link, WORKER_SERVICE, self._token, peer)
            return found

    def receiver(self, step_id: int) -> Receiver:
        """A receiver for one partition's run of a step."""
        return _GrpcReceiver(self, step_id)

    def close(self) -> None:
        """Closes all channels, which ends the calls on them; no new one is opened."""
        with self._lock:
            self._closed = True
            channels, self._channels = self._channels, []
            self._stubs.clear()
        for link in channels:
            link.close()


class _GrpcReceiver:
    """RecvTensor, with the bundle of the next turn asked for as soon as one has arrived."""

    def __init__(self, peers: Peers, step_id: int) -> None:
        self._peers = peers
        self._step_id = step_id
        self._asked: dict[tuple[str, int], Any] = {}
        self._cancelled = False

    def receive(self, task: str, key: str, iteration: int, more: bool) -> tuple[Any, ...] | None:
        stub = self._peers.stub(task)
        place = (key, iteration)
        call = self._asked.get(place) or self._ask(stub, key, iteration)
        try:
            message = call.result()
        except grpc.RpcError as error:
            raise status.from_rpc(error, stub.peer) from None
        except grpc.FutureCancelledError:
            raise CancelledError(message=f"Waiting for {stub.peer} was cancelled") from None
        finally:
            self._asked.pop(place, None)
        if more and not self._cancelled:
            self._ask(stub, key, iteration + 1)
        return codec.decode(message)

    def cancel(self) -> None:
        self._cancelled = True
        for call in list(self._asked.values()):
            call.cancel()

    def _ask(self, stub: rpc.Stub, key: str, iteration: int) -> Any:
        request = RecvTensorRequest(step_id=self._step_id, rendezvous_key=f"{key};{iteration}")
        call = self._asked[key, iteration] = stub.future("RecvTensor", request, None)
        if self._cancelled:
            call.cancel()
        return call

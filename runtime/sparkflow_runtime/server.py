"""A task's server: a worker and a master behind one gRPC port."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from sparkflow_runtime.device.device import count_gpus
from sparkflow_runtime.errors import (
    FailedPreconditionError,
    InvalidArgumentError,
    UnavailableError,
)
from sparkflow_runtime.master.links import LocalLink, RemoteLink, WorkerLink
from sparkflow_runtime.master.service import SERVICE, TENSORFLOW_SERVICE, MasterService
from sparkflow_runtime.master.session import MasterSession
from sparkflow_runtime.protos.cluster_pb2 import ClusterDef
from sparkflow_runtime.protos.config_pb2 import ConfigProto
from sparkflow_runtime.resources.container import Resources
from sparkflow_runtime.transport import rpc
from sparkflow_runtime.transport.peers import WORKER_SERVICE, addresses, task_name
from sparkflow_runtime.worker import service as worker_service
from sparkflow_runtime.worker.worker import Worker


class Server:
    """Serves one task until stopped. `start`, `stop` and `join` may be called from any thread.

    Args:
        cluster: All tasks, or None when it is told later by `set_cluster`.
        job: The task's job.
        task: Its index in the job.
        port: Port to listen on, 0 for a free one; None takes the one the cluster names.
        host: Address to listen on; loopback unless asked otherwise.
        advertised_host: The host others reach this one by; `host` when not given.
        token: What callers must show; needed off loopback.
        insecure: Accept callers without credentials even off loopback.
        gpus: How many GPUs the worker uses; None for all it sees.

    Raises:
        PermissionDeniedError: Off loopback without a token.
        InvalidArgumentError: The cluster has no such task.
        UnavailableError: The port cannot be had.
    """

    def __init__(
        self,
        cluster: ClusterDef | None,
        job: str,
        task: int,
        *,
        port: int | None = None,
        host: str = "127.0.0.1",
        advertised_host: str | None = None,
        token: str | None = None,
        insecure: bool = False,
        gpus: int | None = None,
    ) -> None:
        self._token = token
        self._addresses = addresses(cluster) if cluster is not None else {}
        self.task = task_name(job, task)
        if cluster is not None and self.task not in self._addresses:
            raise InvalidArgumentError(
                message=f"Task {task} of job {job!r} is not in the cluster of "
                f"{', '.join(sorted(self._addresses)) or 'no tasks'}"
            )
        if port is None:
            port = _port(self._addresses.get(self.task, ":0"))
        self.worker = Worker(job, task, gpus=count_gpus() if gpus is None else gpus)
        self._local = LocalLink(self.worker)
        self._remote: dict[str, RemoteLink] = {}
        self._master = MasterService(self._make_session)
        self._server = rpc.RpcServer(
            [
                rpc.handlers(WORKER_SERVICE, worker_service.methods(self.worker)),
                rpc.handlers(SERVICE, self._master.methods()),
                rpc.handlers(TENSORFLOW_SERVICE, self._master.methods()),
            ],
            host=host,
            port=port,
            token=token,
            insecure=insecure,
        )
        shown = advertised_host or host
        shown = f"[{shown}]" if ":" in shown and not shown.startswith("[") else shown
        self.address = f"{shown}:{self._server.port}"
        self._stopped = False
        self._link_cluster()

    @property
    def port(self) -> int:
        """The port listened on."""
        return self._server.port

    @property
    def target(self) -> str:
        """What a Session on this server is given: `grpc://host:port`."""
        return f"grpc://{self.address}"

    @property
    def resources(self) -> Resources:
        """What outlives steps on this task; hosts put batch sources here."""
        return self.worker.resources

    def set_cluster(self, cluster: ClusterDef) -> None:
        """Tells the server where all tasks are.

        Raises:
            InvalidArgumentError: This task is not among them.
        """
        found = addresses(cluster)
        if self.task not in found:
            raise InvalidArgumentError(
                message=f"{self.task} is not in the cluster of {', '.join(sorted(found))}"
            )
        self._addresses = found
        self._link_cluster()

    def start(self) -> None:
        """Begins to answer."""
        if self._stopped:
            raise FailedPreconditionError(message="A stopped server cannot be started again")
        self._server.start()

    def join(self, timeout_s: float | None = None) -> bool:
        """Blocks until the server is stopped; False when `timeout_s` passed first."""
        return self._server.wait(timeout_s)

    def stop(self) -> None:
        """Ends all sessions and steps and frees the port. May be called again."""
        if self._stopped:
            return
        self._stopped = True
        self._master.close()
        # Other tasks' steps lose this task, as they do when its process dies.
        self.worker.close(UnavailableError)
        self._server.stop()
        self._local.close()
        for link in self._remote.values():
            link.close()

    def _link_cluster(self) -> None:
        others = {t: a for t, a in self._addresses.items() if t != self.task}
        self.worker.connect(others, self._token)
        for link in self._remote.values():
            link.close()
        self._remote = {
            task: RemoteLink(task, address, self._token) for task, address in others.items()
        }

    def _make_session(
        self, config: ConfigProto, is_wanted: Callable[[], bool] | None
    ) -> MasterSession:
        links: Mapping[str, WorkerLink] = {self.task: self._local, **self._remote}
        return MasterSession(
            links,
            default_task=self.task,
            device_filters=config.device_filters,
            allow_soft_placement=config.allow_soft_placement,
            timeout_s=config.operation_timeout_in_ms / 1000 or None,
            log_placement=config.log_device_placement,
            isolate=config.isolate_session_state,
            is_wanted=is_wanted,
        )


def _port(address: str) -> int:
    text = address.rpartition(":")[2]
    if not text.isdecimal() or int(text) > 65535:
        raise InvalidArgumentError(message=f"{address!r} is not an address ('host:port')")
    return int(text)

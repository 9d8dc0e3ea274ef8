"""A task's server: a worker and a master behind one gRPC port."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping, Sequence

from sparkflow_runtime.device.device import count_gpus
from sparkflow_runtime.device.shared_memory import SharedArena
from sparkflow_runtime.errors import (
    FailedPreconditionError,
    InvalidArgumentError,
    UnavailableError,
)
from sparkflow_runtime.master.cost_graph import CostModel
from sparkflow_runtime.master.links import LocalLink, WorkerLink
from sparkflow_runtime.master.loop_service import LoopService
from sparkflow_runtime.master.remote_link import RemoteLink
from sparkflow_runtime.master.repeated_runs.server_side import RepeatedRuns
from sparkflow_runtime.master.service import (
    SERVICE,
    TENSORFLOW_SERVICE,
    MasterService,
    masters_here,
)
from sparkflow_runtime.master.session import MasterSession, filtered
from sparkflow_runtime.protos.cluster_pb2 import ClusterDef
from sparkflow_runtime.protos.config_pb2 import ConfigProto
from sparkflow_runtime.resources.container import Resources
from sparkflow_runtime.security import Tls
from sparkflow_runtime.security.defaults import server_credentials, trust
from sparkflow_runtime.transport import rpc
from sparkflow_runtime.transport.channel.address import SHARING, Transport, require_transport
from sparkflow_runtime.transport.channel.handshake import Self
from sparkflow_runtime.transport.channel.listener import Listener
from sparkflow_runtime.transport.channel.reactor import available
from sparkflow_runtime.transport.peers import WORKER_SERVICE, Peers
from sparkflow_runtime.transport.task_names import addresses, task_name
from sparkflow_runtime.worker import service as worker_service
from sparkflow_runtime.worker.sessions import MasterId
from sparkflow_runtime.worker.worker import Worker


class Server:
    """Serves one task until stopped. `start`, `stop` and `join` may be called from any thread.

    Args:
        cluster: All tasks, or None if `set_cluster` sets them later.
        job: The task's job.
        task: Its index in the job.
        port: Port to listen on, 0 for a free one; None for the one in `cluster`.
        host: Address to listen on; loopback unless asked otherwise.
        advertised_host: The host under which others reach this one; `host` when not given.
        token: The token that callers must send. By default it is, on loopback and without TLS, this
            user's own, which the user's sessions send by default; on other addresses one is
            required.
        insecure: Accept callers without credentials, including other users and machines.
        tls: The task's certificate and key, which all tasks and sessions then need; None for none.
        gpus: How many GPUs the worker uses; None for all visible ones.
        gpu_memory_bytes: Maximum memory used of each; None for no limit.
        transport: How tensors travel from other tasks, see `transport.channel.address.Transport`.
        channel_port: Port for tensor channels, 0 for a free one.
        session_config: Default options of sessions on this server.

    Raises:
        PermissionDeniedError: There is no token and `host` is not loopback, or the user's token
            cannot be stored safely.
        InvalidArgumentError: The cluster has no such task.
        UnavailableError: The port is not available.
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
        tls: Tls | None = None,
        gpus: int | None = None,
        gpu_memory_bytes: int | None = None,
        transport: Transport = "auto",
        channel_port: int = 0,
        session_config: ConfigProto | None = None,
    ) -> None:
        self._session_config = session_config or ConfigProto()
        self._transport = require_transport(transport)
        if token is None and tls is None:
            found = server_credentials(host, insecure)
            token, tls = found.token, found.tls
        self._token = token
        self._tls = tls
        self._addresses = addresses(cluster) if cluster is not None else {}
        self.task = task_name(job, task)
        if cluster is not None and self.task not in self._addresses:
            raise InvalidArgumentError(
                message=f"Task {task} of job {job!r} is not in the cluster of "
                f"{', '.join(sorted(self._addresses)) or 'no tasks'}"
            )
        if port is None:
            port = _port(self._addresses.get(self.task, ":0"))
        self.worker = Worker(
            job,
            task,
            gpus=count_gpus() if gpus is None else gpus,
            arena=SharedArena() if transport in SHARING else None,
            gpu_memory_bytes=gpu_memory_bytes,
        )
        self._local = LocalLink(self.worker)
        self._remote: dict[str, RemoteLink] = {}
        # Those that only the clusters of sessions have, by name and address.
        self._met: dict[tuple[str, str], RemoteLink] = {}
        self._master = MasterService(self._make_session, self._links)
        self.worker.answering.clients = RepeatedRuns(self._master.find_callable)
        loops = LoopService(self._master.find)
        self._stopped = False
        with contextlib.ExitStack() as undo:
            undo.callback(self.worker.close)
            self._server = rpc.RpcServer(
                [
                    rpc.handlers(WORKER_SERVICE, worker_service.methods(self.worker)),
                    rpc.handlers(SERVICE, {**self._master.methods(), **loops.methods()}),
                    rpc.handlers(TENSORFLOW_SERVICE, self._master.methods()),
                ],
                host=host,
                port=port,
                token=token,
                insecure=insecure,
                tls=tls,
            )
            undo.callback(self._server.stop)  # its port is free for another attempt
            self._listener: Listener | None = None
            if available() and transport != "grpc":
                self._listener = self._listen(host, channel_port, advertised_host, insecure)
                undo.callback(self._listener.stop)
                self.worker.channel_address = self._listener.address
            shown = advertised_host or host
            shown = f"[{shown}]" if ":" in shown and not shown.startswith("[") else shown
            self.address = f"{shown}:{self._server.port}"
            trust(self.address)
            self._link_cluster()
            undo.pop_all()

    @property
    def port(self) -> int:
        """The port on which the server listens."""
        return self._server.port

    @property
    def target(self) -> str:
        """The target of a Session on this server: `grpc://host:port`."""
        return f"grpc://{self.address}"

    @property
    def resources(self) -> Resources:
        """The task's resources, which outlive steps; hosts add batch sources here."""
        return self.worker.resources

    def set_cluster(self, cluster: ClusterDef) -> None:
        """Sets the addresses of all tasks.

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
        """Begins to serve."""
        if self._stopped:
            raise FailedPreconditionError(message="A stopped server cannot be started again")
        if self._listener is not None:
            self._listener.start()
        self._server.start()
        masters_here[self.address] = self._master

    def join(self, timeout_s: float | None = None) -> bool:
        """Blocks until the server is stopped; returns False if `timeout_s` passed first."""
        return self._server.wait(timeout_s)

    def stop(self) -> None:
        """Ends all sessions and steps and frees the port. May be called again."""
        if self._stopped:
            return
        self._stopped = True
        masters_here.pop(self.address, None)
        self._master.close()
        if self._listener is not None:
            self._listener.stop()
        # Other tasks' steps fail, as they do when this process dies.
        self.worker.close(UnavailableError)
        self._server.stop()
        self._local.close()
        for link in (*self._remote.values(), *self._met.values()):
            link.close()

    def _link_cluster(self) -> None:
        others = {t: a for t, a in self._addresses.items() if t != self.task}
        me = Self(
            self.task,
            self.worker.incarnation,
            self._token,
            self._tls,
            self._transport,
            self.worker.arena,
        )
        peers = Peers(others, me)
        self.worker.connect(peers)
        for link in (*self._remote.values(), *self._met.values()):
            link.close()
        self._met.clear()
        self._remote = {
            task: RemoteLink(task, address, self._token, self._tls, peers)
            for task, address in others.items()
        }

    def _listen(
        self, host: str, port: int, advertised_host: str | None, insecure: bool
    ) -> Listener:
        return Listener(
            self.task,
            self.worker.incarnation,
            host=host,
            port=port,
            advertised_host=advertised_host,
            token=self._token,
            insecure=insecure,
            tls=self._tls,
            on_opened=self.worker.answering.accept,
        )

    def _links(self, filters: Sequence[str]) -> Mapping[str, WorkerLink]:
        return filtered({self.task: self._local, **self._remote}, filters, self.task)

    def _make_session(
        self, config: ConfigProto, is_wanted: Callable[[], bool] | None
    ) -> MasterSession:
        asked = config
        config = ConfigProto()
        config.CopyFrom(self._session_config)
        config.MergeFrom(asked)
        cluster = config.cluster_def
        known = self._known(cluster) if cluster.job else self._addresses
        return MasterSession(
            {self.task: self._local, **self._links_to(known)},
            default_task=self.task,
            device_filters=config.device_filters,
            allow_soft_placement=config.allow_soft_placement,
            timeout_s=config.operation_timeout_in_ms / 1000 or None,
            log_placement=config.log_device_placement,
            cost_model=CostModel.of(config.graph_options),
            isolate=config.isolate_session_state,
            master=MasterId(self.task, self.worker.incarnation),
            is_wanted=is_wanted,
            hosts={task: where.rpartition(":")[0] for task, where in known.items()},
            cluster=cluster,
        )

    def _known(self, cluster: ClusterDef) -> dict[str, str]:
        """Returns the tasks of a session that has its own cluster.

        Raises:
            InvalidArgumentError: This task is not among them.
        """
        found = addresses(cluster)
        if self.task not in found:
            raise InvalidArgumentError(
                message="The cluster_def of the session's config has "
                f"{', '.join(sorted(found))}, and the server that it was given is {self.task}: "
                "name each task as its server was started"
            )
        return found

    def _links_to(self, known: Mapping[str, str]) -> Mapping[str, WorkerLink]:
        """The tasks but this one; those that the server was not started with are met here."""
        found: dict[str, WorkerLink] = {}
        for task, address in known.items():
            if task == self.task:
                continue
            if task in self._remote:
                found[task] = self._remote[task]
                continue
            if (task, address) not in self._met:
                link = RemoteLink(task, address, self._token, self._tls, self.worker.peers)
                self._met[task, address] = link
            found[task] = self._met[task, address]
        return found


def _port(address: str) -> int:
    text = address.rpartition(":")[2]
    if not text.isdecimal() or int(text) > 65535:
        raise InvalidArgumentError(message=f"{address!r} is not an address ('host:port')")
    return int(text)

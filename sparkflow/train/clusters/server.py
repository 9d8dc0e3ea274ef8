"""`Server`: one task of a cluster in this process, as TensorFlow 1 starts it."""

from __future__ import annotations

from typing import Any

from sparkflow import logging
from sparkflow._api import export
from sparkflow.train.clusters.cluster_spec import ClusterSpec
from sparkflow_runtime import security, server as runtime
from sparkflow_runtime.errors import InternalError, UnavailableError, UnknownError
from sparkflow_runtime.process import apply_threads
from sparkflow_runtime.protos import cluster_pb2, config_pb2, tensorflow_server_pb2
from sparkflow_runtime.security import Tls
from sparkflow_runtime.transport.channel.address import Transport


@export("train.Server")
class Server:
    """One task: a worker that executes, and a master that sessions can connect to.

    Args:
        server_or_cluster_def: A `ServerDef`, `ClusterDef`, `ClusterSpec`, or a dictionary of
            addresses by job.
        job_name: The job of this task; may be left out where the cluster has one job.
        task_index: Its index; may be left out where the job has one task.
        protocol: `grpc`.
        config: Options for sessions on this server; `intra_op_parallelism_threads` is for the whole
            process.
        start: Start at once.
        token: The secret that every caller must show. Where neither that nor TLS is given it is the
            user's own on loopback, which sessions of the same user show; off loopback it is needed.
        insecure: Let in every caller, also one that shows nothing: other users of this machine and,
            off loopback, whoever reaches it.
        tls: The task's certificate and key, and the authority of all of them: all tasks and
            sessions of the cluster must have some then. None for no TLS.
        channel_port: The port for tensor channels from other tasks, besides the one of the address;
            0 for a free one.
        transport: How tensors come from other tasks: "auto" (what is fastest), "shm", "unix",
            "tcp" or "grpc".

    Raises:
        TypeError: The first argument is none of those.
        ValueError: The job or the task cannot be told.
        InternalError: The job or the task is not in the cluster.
        FailedPreconditionError: `transport` is none of these.
        PermissionDeniedError: The address is not a loopback one, and there is neither a token nor
            `insecure=True`; or the user's token cannot be kept safely.
        UnknownError: The port is in use.
    """

    def __init__(
        self,
        server_or_cluster_def: Any,
        job_name: str | None = None,
        task_index: int | None = None,
        protocol: str | None = None,
        config: config_pb2.ConfigProto | None = None,
        start: bool = True,
        *,
        token: str | None = None,
        insecure: bool = False,
        tls: Tls | None = None,
        channel_port: int = 0,
        transport: Transport = "auto",
    ) -> None:
        self._server_def = _server_def(
            server_or_cluster_def, job_name, task_index, protocol, config
        )
        apply_threads(self._server_def.default_session_config)
        job, task = self._server_def.job_name, self._server_def.task_index
        host, port = _host_and_port(ClusterSpec(self._server_def).task_address(job, task))
        try:
            self._server = runtime.Server(
                self._server_def.cluster,
                job,
                task,
                port=self._server_def.port or port,
                host=_listening_on(host),
                advertised_host=host,
                token=token,
                insecure=insecure,
                tls=tls,
                channel_port=channel_port,
                transport=transport,
                session_config=self._server_def.default_session_config,
            )
        except UnavailableError as error:
            # TensorFlow's class and words, so that programs find what they look for.
            raise UnknownError(
                None, None, f"Could not start gRPC server for {host}:{port}. {error.message}"
            ) from error
        self._started = False
        if start:
            try:
                self.start()
            except BaseException:
                self.stop()
                raise

    @staticmethod
    def create_local_server(
        config: config_pb2.ConfigProto | None = None, start: bool = True
    ) -> Server:
        """A cluster of one task in this process, at a port that is free."""
        return Server({"localhost": ["localhost:0"]}, protocol="grpc", config=config, start=start)

    @property
    def server_def(self) -> tensorflow_server_pb2.ServerDef:
        """The server's definition, as a message."""
        return self._server_def

    @property
    def target(self) -> str:
        """The target for `Session`: `grpc://host:port`."""
        return self._server.target

    def start(self) -> None:
        """Starts to answer; nothing when it does already."""
        if not self._started:
            self._started = True
            self._server.start()
            logging.info("Started server with target: %s", self.target)

    def join(self) -> None:
        """Blocks until the server stops, which for most programs is for ever."""
        self._server.join()

    def stop(self) -> None:
        """Stops to answer, and drops variables and queues; may be called again."""
        self._server.stop()


def _host_and_port(address: str) -> tuple[str, int]:
    host, colon, port = address.rpartition(":")
    if not colon or not port.isdecimal() or int(port) > 65535:
        raise ValueError(f"{address!r} is not the address of a task; expected 'host:port'")
    return host, int(port)


def _listening_on(host: str) -> str:
    """The address to listen on for a task that others reach at `host`."""
    bare = "127.0.0.1" if host == "localhost" else host.strip("[]")
    if security.is_loopback(bare):
        return bare
    return "::" if ":" in bare else "0.0.0.0"  # noqa: S104  (refused without credentials)


def _server_def(
    given: Any,
    job_name: str | None,
    task_index: int | None,
    protocol: str | None,
    config: config_pb2.ConfigProto | None,
) -> tensorflow_server_pb2.ServerDef:
    message = tensorflow_server_pb2.ServerDef()
    if isinstance(given, tensorflow_server_pb2.ServerDef):
        message.CopyFrom(given)
    else:
        message.cluster.CopyFrom(_cluster_def(given))
    spec = ClusterSpec(message.cluster)
    job = job_name or message.job_name
    if not job:
        if len(spec.jobs) != 1:
            raise ValueError("Must specify an explicit `job_name`.")
        job = spec.jobs[0]
    if task_index is None and not isinstance(given, tensorflow_server_pb2.ServerDef):
        indices = spec.task_indices(job)
        if len(indices) != 1:
            raise ValueError("Must specify an explicit `task_index`.")
        task_index = indices[0]
    message.job_name = job
    if task_index is not None:
        message.task_index = task_index
    if job not in spec.jobs:
        raise InternalError(None, None, f'Job "{job}" was not defined in cluster {spec}')
    if message.task_index not in spec.task_indices(job):
        raise InternalError(
            None, None, f'Task {message.task_index} was not defined in job "{job}" of {spec}'
        )
    message.protocol = protocol or message.protocol or "grpc"
    if config is not None:
        message.default_session_config.MergeFrom(config)
    return message


def _cluster_def(given: Any) -> cluster_pb2.ClusterDef:
    try:
        return ClusterSpec(given).as_cluster_def()
    except TypeError as error:
        if isinstance(given, dict):
            raise
        raise TypeError(
            "Could not convert `server_or_cluster_def` to a `tf.train.ServerDef` or "
            "`tf.train.ClusterSpec`."
        ) from error

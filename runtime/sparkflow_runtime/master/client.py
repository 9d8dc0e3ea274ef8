"""A front end's connection to a master: in this process, or behind grpc://."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol

import numpy as np

from sparkflow_runtime.device.device import count_gpus
from sparkflow_runtime.errors import NotFoundError
from sparkflow_runtime.ir.graph_def import import_graph
from sparkflow_runtime.master.links import LocalLink
from sparkflow_runtime.master.session import Feeds, MasterSession, StepCall, run_session
from sparkflow_runtime.worker.worker import Worker

if TYPE_CHECKING:
    from sparkflow_runtime.master.running_loops import LoopRegister, RunningLoop
    from sparkflow_runtime.protos.config_pb2 import ConfigProto, RunMetadata, RunOptions
    from sparkflow_runtime.protos.device_attributes_pb2 import DeviceAttributes
    from sparkflow_runtime.protos.graph_pb2 import GraphDef
    from sparkflow_runtime.security import Credentials
    from sparkflow_runtime.worker.loop import LoopTerms

SCHEME: Final = "grpc://"


class SessionClient(Protocol):
    """A session on some master. Names are `node:0` for tensors, `node` for targets."""

    def extend(self, graph_def: GraphDef) -> None:
        """Adds nodes to the session's graph."""

    def run(
        self,
        fetches: Sequence[str],
        feeds: Feeds,
        targets: Sequence[str],
        options: RunOptions | None = None,
    ) -> tuple[list[Any], RunMetadata | None]:
        """Runs one step; fetched values are copies. Metadata only when `options` are given."""

    def make_callable(
        self, fetches: Sequence[str], feed_names: Sequence[str], targets: Sequence[str]
    ) -> StepCall:
        """Returns a function from fed arrays, in the order of `feed_names`, to fetched values."""

    def make_repeated(self, targets: Sequence[str]) -> Callable[[], list[Any]]:
        """Returns a function that runs a step, or several one after another.

        If one remote task runs the whole step, a single request runs it repeatedly, and returns
        with the first step that ends after a tenth of a second. In this process, runs of 5 ms share
        what surrounds a step, and threads with the same targets may do so in turn.
        """

    def partial_run_setup(
        self, fetches: Sequence[str], feed_names: Sequence[str], targets: Sequence[str]
    ) -> str:
        """Announces a step that is run in several calls; returns its handle."""

    def partial_run(self, handle: str, fetches: Sequence[str], feeds: Feeds) -> list[Any]:
        """Runs one call of a partial run."""

    def start_loop(
        self, fetches: Sequence[str], feeds: Feeds, targets: Sequence[str], terms: LoopTerms
    ) -> RunningLoop:
        """Starts a step loop, with the same feeds in every step."""

    def list_devices(self) -> list[DeviceAttributes]:
        """Returns the devices that the session may use."""

    def reset(self, containers: Sequence[str]) -> None:
        """Drops the resources (variables, queues) of these containers; of all if none are given."""

    def close(self) -> None:
        """Ends the session; may be called again."""


def open_session(
    target: str = "",
    *,
    config: ConfigProto | None = None,
    credentials: str | Credentials | None = None,
    create_timeout_s: float | None = None,
) -> SessionClient:
    """Opens a session on the master at `target`; waits for it and its cluster's tasks to start.

    Args:
        target: "" for this process, or `grpc://host:port` of any server.
        config: Placement options.
        credentials: The server's token, or `Credentials` if it uses TLS.
        create_timeout_s: The longest wait; None: the operation timeout of `config`, if it has one,
            otherwise no limit.

    Raises:
        NotFoundError: `target` is neither of these.
        DeadlineExceededError: The master or a task did not answer in time.
    """
    if not target:
        return LocalSession(config)
    if not target.startswith(SCHEME):
        raise NotFoundError(
            message="No session factory registered for the given session options: "
            f"{{target: \"{target}\"}}: the target is neither '' nor 'grpc://host:port'"
        )
    # The gRPC modules are loaded only for remote masters.
    from sparkflow_runtime.master.remote_session import connect
    from sparkflow_runtime.protos.config_pb2 import ConfigProto

    config = config or ConfigProto()
    if create_timeout_s is None:
        create_timeout_s = config.operation_timeout_in_ms / 1000 or None
    return connect(target[len(SCHEME) :], config, credentials, create_timeout_s)


_local_lock = threading.Lock()
_local_sessions: weakref.WeakSet[LocalSession] = weakref.WeakSet()
"""The sessions of this process, for `reset`; `_local_lock` guards it."""


class LocalSession:
    """A session on a master and worker in this process, called without encoding tensors."""

    def __init__(self, config: ConfigProto | None = None) -> None:
        wanted: dict[str, int] = {}
        options: dict[str, Any] = {}
        if config is not None:
            from sparkflow_runtime.master.cost_graph import CostModel
            from sparkflow_runtime.process import apply_threads

            apply_threads(config)
            wanted = dict(config.device_count)
            options = {
                "allow_soft_placement": config.allow_soft_placement,
                "timeout_s": config.operation_timeout_in_ms / 1000 or None,
                "log_placement": config.log_device_placement,
                "cost_model": CostModel.of(config.graph_options),
            }
        gpus = min(count_gpus(), wanted.get("GPU", 1 << 30))
        self._worker = Worker(gpus=gpus, cpus=max(wanted.get("CPU", 1), 1))
        self._link = LocalLink(self._worker)
        self._loops: LoopRegister | None = None
        self._session = MasterSession(
            {self._worker.task: self._link}, default_task=self._worker.task, **options
        )
        with _local_lock:
            _local_sessions.add(self)

    def extend(self, graph_def: GraphDef) -> None:
        """See `SessionClient`."""
        self._session.extend(import_graph(graph_def), graph_def.library.function)

    def run(
        self,
        fetches: Sequence[str],
        feeds: Feeds,
        targets: Sequence[str],
        options: RunOptions | None = None,
    ) -> tuple[list[Any], RunMetadata | None]:
        """See `SessionClient`."""
        return run_session(self._session, fetches, feeds, targets, options)

    def make_callable(
        self, fetches: Sequence[str], feed_names: Sequence[str], targets: Sequence[str]
    ) -> StepCall:
        """See `SessionClient`."""
        return self._session.prepare(feed_names, fetches, targets).callable()

    def make_repeated(self, targets: Sequence[str]) -> Callable[[], list[Any]]:
        """See `SessionClient`."""
        return self._session.prepare((), (), targets).callable(repeats=True)

    def partial_run_setup(
        self, fetches: Sequence[str], feed_names: Sequence[str], targets: Sequence[str]
    ) -> str:
        """See `SessionClient`."""
        return self._session.start_partial_run(feed_names, fetches, targets)

    def partial_run(self, handle: str, fetches: Sequence[str], feeds: Feeds) -> list[Any]:
        """See `SessionClient`."""
        arrays = {name: np.asarray(value) for name, value in feeds.items()}
        return self._session.partial_run(handle, arrays, fetches)

    def start_loop(
        self, fetches: Sequence[str], feeds: Feeds, targets: Sequence[str], terms: LoopTerms
    ) -> RunningLoop:
        """See `SessionClient`."""
        from sparkflow_runtime.master.running_loops import LoopRegister

        with _local_lock:
            loops = self._loops = self._loops or LoopRegister()
        return loops.add(self._session.start_loop(feeds, fetches, targets, terms))

    def list_devices(self) -> list[DeviceAttributes]:
        """See `SessionClient`."""
        return self._worker.describe_devices()

    def reset(self, containers: Sequence[str]) -> None:
        """See `SessionClient`; every other session of this process is closed, as in TensorFlow."""
        with _local_lock:
            sessions = list(_local_sessions)
        for each in sessions:
            each._session.reset(containers)
            if each is not self:
                each._session.close()

    def close(self) -> None:
        """See `SessionClient`."""
        self._session.close()
        with _local_lock:
            loops = self._loops
        if loops is not None:
            loops.await_end()
        self._worker.close()
        self._link.close()

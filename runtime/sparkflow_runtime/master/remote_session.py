"""Sessions on a master behind grpc://."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np

from sparkflow_runtime.errors import (
    DeadlineExceededError,
    UnavailableError,
    from_status,
)
from sparkflow_runtime.master.loops.remote_loop import RemoteLoop
from sparkflow_runtime.master.repeated_runs.client_side import Key, Preparing, RepeatedRuns
from sparkflow_runtime.master.running_loops import LoopRegister, RunningLoop
from sparkflow_runtime.master.service import ANSWER_TIME_S, SERVICE, MasterService, masters_here
from sparkflow_runtime.master.session import Feeds, StepCall, run_session
from sparkflow_runtime.master.waiting import TELL_INTERVAL_S
from sparkflow_runtime.protos import master_pb2
from sparkflow_runtime.protos.config_pb2 import (
    CallableOptions,
    ConfigProto,
    RunMetadata,
    RunOptions,
)
from sparkflow_runtime.protos.device_attributes_pb2 import DeviceAttributes
from sparkflow_runtime.protos.graph_pb2 import GraphDef
from sparkflow_runtime.security import Credentials, shown_at
from sparkflow_runtime.security.defaults import session_credentials
from sparkflow_runtime.tensor_proto import export_tensor, import_tensor
from sparkflow_runtime.transport import rpc
from sparkflow_runtime.worker.loop import LoopTerms

_CLOSE_PAUSES_S: Final = (0.0, 0.05, 0.1, 0.2)
"""The delay before a request to end a session is repeated."""
LATE_ANSWER_S: Final = 10.0
"""How long after a step's deadline the master may report that it ended the step."""

_log = logging.getLogger("tensorflow")


def connect(
    address: str,
    config: ConfigProto,
    credentials: str | Credentials | None,
    create_timeout_s: float | None,
) -> RemoteSession:
    """Opens a session on the master at an address, see `client.open_session`.

    Raises:
        DeadlineExceededError: The master or a task did not answer in time.
    """
    shown = session_credentials(address) if credentials is None else Credentials.of(credentials)
    master = masters_here.get(address.replace("localhost:", "127.0.0.1:"))
    if master is not None:
        return InProcessSession(address, config, shown, create_timeout_s, master)
    return RemoteSession(address, config, shown, create_timeout_s)


class RemoteSession:
    """A session on a server's master, over gRPC."""

    def __init__(
        self,
        address: str,
        config: ConfigProto,
        credentials: Credentials,
        create_timeout_s: float | None,
    ) -> None:
        self._channel = rpc.channel(address, credentials.tls)
        peer = f"The master at {address}"
        token = shown_at(credentials.token, address)
        self._stub = rpc.Stub(self._channel, SERVICE, token, peer)
        self._closed = False
        self._loops = LoopRegister()
        self._filters = list(config.device_filters)
        request = master_pb2.CreateSessionRequest(config=config)
        try:
            remaining_s = _await_master(self._channel, peer, create_timeout_s)
            if remaining_s is not None:
                remaining_s += ANSWER_TIME_S
            answer = self._call(
                "CreateSession", request, master_pb2.CreateSessionResponse, remaining_s
            )
        except BaseException:  # Ctrl-C also ends the master's wait for tasks.
            self._channel.close()
            raise
        self._handle = answer.session_handle
        self._version = answer.graph_version
        preparing = Preparing(self._make_callable, self._release_callable)
        self._repeated = RepeatedRuns(self._channel, address, credentials, self._handle, preparing)

    def extend(self, graph_def: GraphDef) -> None:
        """See `client.SessionClient`."""
        request = master_pb2.ExtendSessionRequest(
            session_handle=self._handle,
            graph_def=graph_def,
            current_graph_version=self._version,
        )
        answer = self._call("ExtendSession", request, master_pb2.ExtendSessionResponse)
        self._version = answer.new_graph_version

    def run(
        self,
        fetches: Sequence[str],
        feeds: Feeds,
        targets: Sequence[str],
        options: RunOptions | None = None,
    ) -> tuple[list[Any], RunMetadata | None]:
        """See `client.SessionClient`."""
        if options is None:
            values = self._repeated.run(fetches, feeds, targets)
            if values is not None:
                return values, None
        return self._run_step(fetches, feeds, targets, options, "")

    def _run_step(
        self,
        fetches: Sequence[str],
        feeds: Feeds,
        targets: Sequence[str],
        options: RunOptions | None,
        partial_run_handle: str,
    ) -> tuple[list[Any], RunMetadata | None]:
        request = master_pb2.RunStepRequest(
            session_handle=self._handle,
            partial_run_handle=partial_run_handle,
            fetch=fetches,
            target=targets,
            store_errors_in_response_body=True,
            options=options,
        )
        for name, value in feeds.items():
            request.feed.add(name=name, tensor=export_tensor(value))
        # The master ends a step that takes too long, and answers once it has ended.
        timeout_s = None
        if options is not None and options.timeout_in_ms > 0:
            timeout_s = options.timeout_in_ms / 1000 + LATE_ANSWER_S
        answer = self._call("RunStep", request, master_pb2.RunStepResponse, timeout_s)
        if answer.status_code:
            raise from_status(answer.status_code, answer.status_error_message)
        by_name = {item.name: import_tensor(item.tensor) for item in answer.tensor}
        values = [_scalar(by_name[name]) for name in fetches]
        return values, answer.metadata if options is not None else None

    def make_callable(
        self, fetches: Sequence[str], feed_names: Sequence[str], targets: Sequence[str]
    ) -> StepCall:
        """See `client.SessionClient`."""
        names, wanted, run_too = tuple(feed_names), tuple(fetches), tuple(targets)

        def call(*args: Any) -> list[Any]:
            return self.run(wanted, dict(zip(names, args, strict=True)), run_too)[0]

        return call

    def make_repeated(self, targets: Sequence[str]) -> Callable[[], list[Any]]:
        """See `client.SessionClient`."""
        return self.make_callable((), (), targets)

    def partial_run_setup(
        self, fetches: Sequence[str], feed_names: Sequence[str], targets: Sequence[str]
    ) -> str:
        """See `client.SessionClient`."""
        request = master_pb2.PartialRunSetupRequest(
            session_handle=self._handle, feed=feed_names, fetch=fetches, target=targets
        )
        answer = self._call("PartialRunSetup", request, master_pb2.PartialRunSetupResponse)
        return str(answer.partial_run_handle)

    def partial_run(self, handle: str, fetches: Sequence[str], feeds: Feeds) -> list[Any]:
        """See `client.SessionClient`."""
        return self._run_step(fetches, feeds, (), None, handle)[0]

    def start_loop(
        self, fetches: Sequence[str], feeds: Feeds, targets: Sequence[str], terms: LoopTerms
    ) -> RunningLoop:
        """See `client.SessionClient`."""
        return self._loops.add(RemoteLoop(self._stub, self._handle, feeds, fetches, targets, terms))

    def list_devices(self) -> list[DeviceAttributes]:
        """See `client.SessionClient`."""
        request = master_pb2.ListDevicesRequest(session_handle=self._handle)
        answer = self._call("ListDevices", request, master_pb2.ListDevicesResponse)
        return [*answer.local_device, *answer.remote_device]

    def reset(self, containers: Sequence[str]) -> None:
        """See `client.SessionClient`."""
        request = master_pb2.ResetRequest(container=containers, device_filters=self._filters)
        self._call("Reset", request, master_pb2.ResetResponse)

    def close(self) -> None:
        """See `client.SessionClient`."""
        if self._closed:
            return
        self._closed = True
        try:
            self._close_at_master()
            self._loops.await_end()
        finally:
            self._repeated.close()
            self._channel.close()

    def _close_at_master(self) -> None:
        """Ends the session on the master, which would otherwise keep it; unknown ones are ignored.

        A broken connection may be noticed only after one or several calls.
        """
        request = master_pb2.CloseSessionRequest(session_handle=self._handle)
        for pause_s in (*_CLOSE_PAUSES_S, None):
            try:
                self._call("CloseSession", request, master_pb2.CloseSessionResponse, 10.0)
            except UnavailableError:
                if pause_s is None:
                    raise
                time.sleep(pause_s)
            else:
                return

    def _make_callable(self, key: Key) -> int:
        fetches, feeds, targets = key
        options = CallableOptions(feed=feeds, fetch=fetches, target=targets)
        request = master_pb2.MakeCallableRequest(session_handle=self._handle, options=options)
        answer = self._call("MakeCallable", request, master_pb2.MakeCallableResponse)
        return int(answer.handle)

    def _release_callable(self, number: int) -> None:
        request = master_pb2.ReleaseCallableRequest(session_handle=self._handle, handle=number)
        response = master_pb2.ReleaseCallableResponse.FromString
        self._stub.post("ReleaseCallable", request, response, ANSWER_TIME_S)

    def _call(self, name: str, request: Any, response: Any, timeout_s: float | None = None) -> Any:
        return self._stub.call(name, request, response.FromString, timeout_s)


class InProcessSession(RemoteSession):
    """A session on the master of a server in this process: steps are called, not sent.

    Everything else goes over gRPC, so that access is checked in one place.
    """

    def __init__(
        self,
        address: str,
        config: ConfigProto,
        credentials: Credentials,
        create_timeout_s: float | None,
        master: MasterService,
    ) -> None:
        super().__init__(address, config, credentials, create_timeout_s)
        self._master = master

    def run(
        self,
        fetches: Sequence[str],
        feeds: Feeds,
        targets: Sequence[str],
        options: RunOptions | None = None,
    ) -> tuple[list[Any], RunMetadata | None]:
        """See `client.SessionClient`."""
        session = self._master.find(self._handle)
        return run_session(session, fetches, feeds, targets, options)

    def make_callable(
        self, fetches: Sequence[str], feed_names: Sequence[str], targets: Sequence[str]
    ) -> StepCall:
        """See `client.SessionClient`."""
        executable = self._master.find(self._handle).prepare(feed_names, fetches, targets)
        return executable.callable()

    def make_repeated(self, targets: Sequence[str]) -> Callable[[], list[Any]]:
        """See `client.SessionClient`."""
        return self._master.find(self._handle).prepare((), (), targets).callable(repeats=True)


def _await_master(channel: Any, peer: str, timeout_s: float | None) -> float | None:
    """Waits until the master answers; returns what is left of `timeout_s`."""
    start = time.monotonic()
    while True:
        waited_s = time.monotonic() - start
        remaining_s = None if timeout_s is None else timeout_s - waited_s
        if remaining_s is not None and remaining_s <= 0:
            raise DeadlineExceededError(
                message=f"{peer} cannot be reached: nothing answered for {timeout_s:g} s"
                f"{rpc.tls_trouble(channel)}"
            )
        try:
            rpc.await_ready(channel, peer, min(TELL_INTERVAL_S, remaining_s or TELL_INTERVAL_S))
            return remaining_s
        except UnavailableError:
            if remaining_s is None or remaining_s > TELL_INTERVAL_S:
                trouble = rpc.tls_trouble(channel)
                _log.warning("Session still waiting for response from %s%s", peer, trouble)


def _scalar(array: np.ndarray[Any, Any]) -> Any:
    """Returns fetched values as writable arrays or numpy scalars, as a local session does."""
    return array.copy() if array.ndim else array[()]

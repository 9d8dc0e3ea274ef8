"""MasterService over gRPC, under our name and under TensorFlow's: thin handlers around sessions."""

from __future__ import annotations

import itertools
import threading
import weakref
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from typing import Any, Final

from sparkflow_runtime.errors import (
    AbortedError,
    CancelledError,
    InvalidArgumentError,
    to_status,
)
from sparkflow_runtime.ir.graph_def import import_graph
from sparkflow_runtime.master.executable import Executable
from sparkflow_runtime.master.links import WorkerLink
from sparkflow_runtime.master.options import run_with_options
from sparkflow_runtime.master.session import MasterSession, reset_containers
from sparkflow_runtime.protos import config_pb2, device_attributes_pb2, master_pb2
from sparkflow_runtime.tensor_proto import export_tensor, import_tensor
from sparkflow_runtime.transport.rpc import Method
from sparkflow_runtime.transport.status import printable

SERVICE: Final = "sparkflow_runtime.protos.MasterService"
TENSORFLOW_SERVICE: Final = "tensorflow.MasterService"
"""Stock TensorFlow clients call this name; the messages are the same on the wire."""

ANSWER_TIME_S: Final = 1.0
"""How long before a call's deadline the master reports that a session was not created in time."""

MakeSession = Callable[[config_pb2.ConfigProto, Callable[[], bool] | None], MasterSession]
"""Creates a session; the second argument is `is_wanted` of `MasterSession`."""
LinksOf = Callable[[Sequence[str]], Mapping[str, WorkerLink]]
"""Returns the tasks that match device filters."""


masters_here: Final[MutableMapping[str, MasterService]] = weakref.WeakValueDictionary()
"""The masters served by this process, by `host:port`: sessions call them directly."""


class MasterService:
    """The sessions of one master. `_lock` guards `_sessions` and `_callables`."""

    def __init__(self, make_session: MakeSession, links: LinksOf) -> None:
        self._make_session = make_session
        self._links = links
        self._lock = threading.Lock()
        self._sessions: dict[str, MasterSession] = {}
        self._callables: dict[tuple[str, int], tuple[Executable, config_pb2.RunOptions]] = {}
        self._numbers = itertools.count(1)

    def methods(self) -> Mapping[str, Method]:
        """Returns the rpc table."""
        return {
            "CreateSession": Method(
                self.create_session, master_pb2.CreateSessionRequest, wants_context=True
            ),
            "ExtendSession": Method(self.extend_session, master_pb2.ExtendSessionRequest),
            "PartialRunSetup": Method(self.partial_run_setup, master_pb2.PartialRunSetupRequest),
            "RunStep": Method(self.run_step, master_pb2.RunStepRequest, wants_context=True),
            "CloseSession": Method(self.close_session, master_pb2.CloseSessionRequest),
            "ListDevices": Method(self.list_devices, master_pb2.ListDevicesRequest),
            "Reset": Method(self.reset, master_pb2.ResetRequest),
            "MakeCallable": Method(self.make_callable, master_pb2.MakeCallableRequest),
            "RunCallable": Method(
                self.run_callable, master_pb2.RunCallableRequest, wants_context=True
            ),
            "ReleaseCallable": Method(self.release_callable, master_pb2.ReleaseCallableRequest),
        }

    def create_session(self, request: Any, context: Any) -> master_pb2.CreateSessionResponse:
        """Opens a session on a first graph, which may be empty.

        Waits for tasks of the cluster that have not started, for as long as the client waits.
        """

        def is_wanted() -> bool:
            remaining_s = context.time_remaining()
            in_time = remaining_s is None or remaining_s > ANSWER_TIME_S
            return in_time and bool(context.is_active())

        session = self._make_session(request.config, is_wanted)
        try:
            if not context.is_active():
                raise CancelledError(message="The client of this session is gone")
            version = session.extend(
                import_graph(request.graph_def), request.graph_def.library.function
            )
        except Exception:
            session.close()
            raise
        with self._lock:
            self._sessions[session.handle] = session
        return master_pb2.CreateSessionResponse(
            session_handle=session.handle, graph_version=version
        )

    def extend_session(self, request: Any) -> master_pb2.ExtendSessionResponse:
        """Adds nodes to a session's graph if it has the version that the client expects."""
        version = self.find(request.session_handle).extend(
            import_graph(request.graph_def),
            request.graph_def.library.function,
            request.current_graph_version,
        )
        return master_pb2.ExtendSessionResponse(new_graph_version=version)

    def partial_run_setup(self, request: Any) -> master_pb2.PartialRunSetupResponse:
        """Announces a step that is run in several calls."""
        session = self.find(request.session_handle)
        handle = session.start_partial_run(request.feed, request.fetch, request.target)
        return master_pb2.PartialRunSetupResponse(partial_run_handle=handle)

    def run_step(self, request: Any, context: Any) -> master_pb2.RunStepResponse:
        """Runs one step; returns an error in the response if the client asks for that."""
        response = master_pb2.RunStepResponse()
        try:
            self._run_step(request, response, context)
        except Exception as error:
            if not request.store_errors_in_response_body:
                raise
            response = master_pb2.RunStepResponse()
            code, text = to_status(error)
            response.status_code = int(code)  # type: ignore[assignment]  # the enum's numbers are ints
            response.status_error_message = printable(text)
        return response

    def close_session(self, request: Any) -> master_pb2.CloseSessionResponse:
        """Closes a session; unknown ones are ignored."""
        with self._lock:
            found = self._sessions.pop(request.session_handle, None)
            for key in [key for key in self._callables if key[0] == request.session_handle]:
                del self._callables[key]
        if found is not None:
            found.close()
        return master_pb2.CloseSessionResponse()

    def list_devices(self, request: Any) -> master_pb2.ListDevicesResponse:
        """Returns the devices a session may use."""
        if request.session_handle:
            session = self.find(request.session_handle)
        else:
            session = self._make_session(config_pb2.ConfigProto(), None)
            session.close()
        return master_pb2.ListDevicesResponse(
            local_device=[
                device_attributes_pb2.DeviceAttributes(
                    name=spec.to_string(), device_type=str(spec.device_type)
                )
                for spec in session.devices
            ]
        )

    def reset(self, request: Any) -> master_pb2.ResetResponse:
        """Closes all sessions and drops the resources of the named containers."""
        with self._lock:
            sessions = list(self._sessions.values())
            self._sessions.clear()
            self._callables.clear()
        try:
            reset_containers(self._links(request.device_filters), request.container)
        finally:
            for session in sessions:
                session.close()
        return master_pb2.ResetResponse()

    def make_callable(self, request: Any) -> master_pb2.MakeCallableResponse:
        """Prepares a step that can be run by its number."""
        session = self.find(request.session_handle)
        options = request.options
        executable = session.prepare(options.feed, options.fetch, options.target)
        number = next(self._numbers)
        with self._lock:
            self._callables[session.handle, number] = executable, options.run_options
        return master_pb2.MakeCallableResponse(handle=number)

    def run_callable(self, request: Any, context: Any) -> master_pb2.RunCallableResponse:
        """Runs a prepared step."""
        with self._lock:
            found = self._callables.get((request.session_handle, request.handle))
        if found is None:
            raise InvalidArgumentError(message=f"No such callable handle: {request.handle}")
        executable, options = found
        args = [import_tensor(tensor) for tensor in request.feed]
        response = master_pb2.RunCallableResponse()
        values = _run(executable, args, context, options, response.metadata)
        response.fetch.extend(export_tensor(value) for value in values)
        return response

    def release_callable(self, request: Any) -> master_pb2.ReleaseCallableResponse:
        """Forgets a prepared step."""
        with self._lock:
            self._callables.pop((request.session_handle, request.handle), None)
        return master_pb2.ReleaseCallableResponse()

    def close(self) -> None:
        """Closes all sessions."""
        with self._lock:
            sessions = list(self._sessions.values())
            self._sessions.clear()
            self._callables.clear()
        for session in sessions:
            session.close()

    def _run_step(self, request: Any, response: master_pb2.RunStepResponse, context: Any) -> None:
        session = self.find(request.session_handle)
        if request.partial_run_handle:
            given = {feed.name: import_tensor(feed.tensor) for feed in request.feed}
            found = session.partial_run(request.partial_run_handle, given, request.fetch)
            for name, value in zip(request.fetch, found, strict=True):
                response.tensor.add(name=name, tensor=export_tensor(value))
            return
        feeds = [feed.name for feed in request.feed]
        executable = session.prepare(feeds, request.fetch, request.target)
        args = [import_tensor(feed.tensor) for feed in request.feed]
        values = _run(executable, args, context, request.options, response.metadata)
        for name, value in zip(request.fetch, values, strict=True):
            response.tensor.add(name=name, tensor=export_tensor(value))

    def find_callable(self, handle: str, number: int) -> Executable:
        """Returns a prepared step of a session.

        Raises:
            AbortedError: The session is not known here.
            InvalidArgumentError: The session has no such step.
        """
        with self._lock:
            found = self._callables.get((handle, number))
        if found is None:
            self.find(handle)
            raise InvalidArgumentError(message=f"No such callable handle: {number}")
        return found[0]

    def find(self, handle: str) -> MasterSession:
        """Returns a session.

        Raises:
            AbortedError: It is not known here.
        """
        with self._lock:
            found = self._sessions.get(handle)
        if found is None:
            raise AbortedError(
                message=f"Session {handle!r} is not known here; the server may have restarted"
            )
        return found


def _run(
    executable: Executable,
    args: Sequence[Any],
    context: Any,
    options: config_pb2.RunOptions,
    metadata: config_pb2.RunMetadata,
) -> list[Any]:
    """Runs a step that is cancelled when its client disconnects."""
    gone = CancelledError(message="The client of this step is gone")
    return run_with_options(
        executable,
        args,
        options,
        metadata,
        on_begin=lambda cancel: context.add_callback(lambda: cancel(gone)),
    )

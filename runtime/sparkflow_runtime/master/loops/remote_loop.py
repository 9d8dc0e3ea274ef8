"""The client's side of a step loop on a remote master."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import Any
from uuid import uuid4

import grpc

from sparkflow_runtime.errors import CancelledError, InternalError, from_status
from sparkflow_runtime.master.remote_link import import_update
from sparkflow_runtime.master.running_loops import END_TIMEOUT_S
from sparkflow_runtime.master.updates import LoopUpdates
from sparkflow_runtime.protos.run_loop_pb2 import (
    LoopBound,
    RunLoopRequest,
    RunLoopUpdate,
    StopLoopRequest,
    StopLoopResponse,
)
from sparkflow_runtime.tensor_proto import export_tensor
from sparkflow_runtime.transport import rpc
from sparkflow_runtime.worker.loop import LoopEnd, LoopTerms, LoopUpdate


class RemoteLoop:
    """A step loop on a master behind gRPC, see `running_loops.RunningLoop`.

    Args:
        stub: Calls the master.
        session: The session's handle.
        feeds: Host arrays by name.
        fetches: The values reported for every step.
        targets: The operations to run as well.
        terms: How long it lasts.
    """

    def __init__(
        self,
        stub: rpc.Stub,
        session: str,
        feeds: Mapping[str, Any],
        fetches: Sequence[str],
        targets: Sequence[str],
        terms: LoopTerms,
    ) -> None:
        request = RunLoopRequest(
            session_handle=session,
            loop=uuid4().hex,
            fetch=fetches,
            target=targets,
            num_steps=terms.num_steps or 0,
            until_end_of_data=terms.num_steps is None,
            first_step=terms.first_step,
            bound=[LoopBound(index=i, bound=bound) for i, bound in terms.bounds.items()],
        )
        for name, value in feeds.items():
            request.feed.add(name=name, tensor=export_tensor(value))
        self._stub = stub
        self._end = StopLoopRequest(session_handle=session, loop=request.loop)
        self._updates = LoopUpdates()
        self._lock = threading.Lock()
        self._begun = False
        # Requests made before the master knew the loop.
        self._asked: list[StopLoopRequest] = []
        self._stream = stub.stream("RunLoop", request, RunLoopUpdate.FromString)
        threading.Thread(target=self._follow, name="loop-updates", daemon=True).start()

    @property
    def done(self) -> bool:
        """See `RunningLoop`."""
        return self._updates.done

    def updates(self) -> Iterator[LoopUpdate]:
        """See `RunningLoop`."""
        return self._updates.follow()

    def poll(self, interval_s: float | None) -> Iterator[LoopUpdate | None]:
        """See `RunningLoop`."""
        return self._updates.poll(interval_s)

    def wait(self, timeout_s: float | None = None) -> LoopEnd:
        """See `RunningLoop`."""
        return self._updates.wait(timeout_s)

    def stop(self) -> None:
        """See `RunningLoop`."""
        self._ask(self._end)

    def cancel(self, reason: str = "The loop was cancelled") -> None:
        """See `RunningLoop`."""
        request = StopLoopRequest(cancel_reason=reason)
        request.MergeFrom(self._end)
        self._ask(request)

    def _ask(self, request: StopLoopRequest) -> None:
        with self._lock:
            if not self._begun:
                self._asked.append(request)
                return
        if not self.done:
            with contextlib.suppress(CancelledError):  # The channel is closed.
                call = self._stub.future(
                    "StopLoop", request, StopLoopResponse.FromString, END_TIMEOUT_S
                )
                call.add_done_callback(self._answered)

    def _answered(self, call: Any) -> None:
        if call.code() is not grpc.StatusCode.OK:
            self._stream.cancel()  # An unreachable master notices that.

    def _follow(self) -> None:
        try:
            for update in self._stream:
                if update.status_code:
                    raise from_status(update.status_code, update.status_error_message)
                if update.end:
                    self._updates.finish(LoopEnd(update.first_step, update.end_reason))
                    return
                if update.num_steps:
                    self._updates.publish(import_update(update))
                else:
                    self._ask_what_was_asked()
            raise InternalError(
                message=f"{self._stub.peer} closed its loop's stream without a final update"
            )
        except grpc.RpcError as error:
            self._updates.finish(self._stub.error_of(error))
        except Exception as error:
            self._updates.finish(error)

    def _ask_what_was_asked(self) -> None:
        with self._lock:
            self._begun = True
            asked, self._asked = self._asked, []
        for request in asked:
            self._ask(request)

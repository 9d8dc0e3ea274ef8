"""The rpcs of step loops on a master: `RunLoop` streams the steps' results, `StopLoop` ends it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from sparkflow_runtime.errors import to_status
from sparkflow_runtime.master.loops.step_loop import Loop
from sparkflow_runtime.master.session import MasterSession
from sparkflow_runtime.protos.named_tensor_pb2 import NamedTensorProto
from sparkflow_runtime.protos.run_loop_pb2 import (
    RunLoopRequest,
    RunLoopUpdate,
    StopLoopRequest,
    StopLoopResponse,
)
from sparkflow_runtime.tensor_proto import export_tensor, import_tensor
from sparkflow_runtime.transport.rpc import Method
from sparkflow_runtime.transport.status import printable
from sparkflow_runtime.worker.loop import LoopTerms, LoopUpdate


class LoopService:
    """The running loops of a master's clients. `_lock` guards `_loops`.

    Args:
        find: Returns a session by its handle.
    """

    def __init__(self, find: Callable[[str], MasterSession]) -> None:
        self._find = find
        self._lock = threading.Lock()
        self._loops: dict[tuple[str, str], Loop] = {}

    def methods(self) -> Mapping[str, Method]:
        """Returns the rpc table."""
        return {
            "RunLoop": Method(self.run_loop, RunLoopRequest, streams=True, wants_context=True),
            "StopLoop": Method(self.stop_loop, StopLoopRequest),
        }

    def run_loop(self, request: Any, context: Any) -> Iterator[RunLoopUpdate]:
        """Runs a loop, which ends at the latest with its client's call."""
        terms = LoopTerms(
            None if request.until_end_of_data else request.num_steps,
            request.first_step,
            {each.index: each.bound for each in request.bound},
        )
        feeds = {feed.name: import_tensor(feed.tensor) for feed in request.feed}
        session = self._find(request.session_handle)
        loop = session.start_loop(feeds, request.fetch, request.target, terms)
        key = (request.session_handle, request.loop)
        with self._lock:
            self._loops[key] = loop

        def gone() -> None:
            loop.cancel("The client of this loop is gone")

        try:
            if not context.add_callback(gone):
                gone()
            yield RunLoopUpdate(first_step=request.first_step)
            for update in loop.updates():
                yield _export(request.fetch, update)
            end = loop.wait()
            yield RunLoopUpdate(first_step=end.num_steps, end=True, end_reason=end.out_of_range)
        except Exception as error:
            code, text = to_status(error)
            yield RunLoopUpdate(
                end=True, status_code=int(code), status_error_message=printable(text)
            )
        finally:
            gone()
            with self._lock:
                self._loops.pop(key, None)

    def stop_loop(self, request: Any) -> StopLoopResponse:
        """Ends a loop; one that is over is ignored."""
        with self._lock:
            loop = self._loops.get((request.session_handle, request.loop))
        if loop is not None:
            if request.cancel_reason:
                loop.cancel(request.cancel_reason)
            else:
                loop.stop()
        return StopLoopResponse()


def _export(fetches: Any, update: LoopUpdate) -> RunLoopUpdate:
    return RunLoopUpdate(
        first_step=update.first_step,
        num_steps=update.num_steps,
        waited_s=update.waited_s,
        elapsed_s=update.elapsed_s,
        num_dropped=update.num_dropped,
        value=[
            NamedTensorProto(name=name, tensor=export_tensor(value))
            for name, value in zip(fetches, update.values, strict=True)
        ],
    )

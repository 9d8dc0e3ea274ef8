"""What others get of a task over tensor channels: bundles of steps, and runs of partitions."""

from __future__ import annotations

import contextlib
import struct
import threading
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, Protocol

from sparkflow_runtime.errors import (
    CancelledError,
    InvalidArgumentError,
    OpError,
    UnavailableError,
)

if TYPE_CHECKING:
    from sparkflow_runtime.device.shared_memory import SharedArena
    from sparkflow_runtime.transport.channel.opening import Opened
    from sparkflow_runtime.transport.channel.serving import Serving, Sink
    from sparkflow_runtime.worker.worker import Worker

CLIENTS_STEP: Final = 1 << 63
"""Numbers from here on are of steps that a client asks the task's master for."""
_NAMES: Final = struct.Struct("<?HH")


class Clients(Protocol):
    """The master of a task, which runs prepared steps for clients. Called by any thread."""

    def call(self, step_id: int, text: bytes, args: Sequence[Any]) -> Sequence[Any]:
        """Runs one; blocks until it is done.

        Raises:
            OpError: It failed, or the call is none.
        """

    def cancel(self, step_id: int) -> None:
        """The client of a step is gone, or wants it no more."""


@lru_cache(maxsize=4096)
def pack_run(session: str, handle: str, alone: bool = False) -> bytes:
    """The text of a call that runs a partition; its arguments go along in ascending order.

    Args:
        session: The session.
        handle: The partition's.
        alone: Whether it is the only one of the step, which is then over with it.
    """
    names = session.encode(), handle.encode()
    return _NAMES.pack(alone, *map(len, names)) + b"".join(names)


@lru_cache(maxsize=4096)
def unpack_run(text: bytes) -> tuple[str, str, bool]:
    """Session, handle and whether it is alone, of a call.

    Raises:
        InvalidArgumentError: It is none.
    """
    if len(text) >= _NAMES.size:
        alone, first, second = _NAMES.unpack_from(text)
        rest = text[_NAMES.size :]
        if len(rest) == first + second:
            with contextlib.suppress(UnicodeDecodeError):
                return rest[:first].decode(), rest[first:].decode(), alone
    raise InvalidArgumentError(message="A malformed call")


class Answering:
    """The channels that others have opened to a task. Safe to use from several threads.

    `_lock` guards `_channels` and `_closed`.

    Args:
        worker: The task.
        arena: Its memory that others may read; None to share none.

    Attributes:
        clients: Runs steps for clients; None where the task is no master.
    """

    def __init__(self, worker: Worker, arena: SharedArena | None) -> None:
        self.clients: Clients | None = None
        self._worker = worker
        self._arena = arena
        self._lock = threading.Lock()
        self._channels: set[Serving] = set()
        self._closed = False

    def accept(self, opened: Opened) -> None:
        """Serves a channel from now on; closes it when this was closed."""
        from sparkflow_runtime.transport.channel.reactor import reactor
        from sparkflow_runtime.transport.channel.serving import Serving

        serving = Serving(opened, self, reactor, self._arena, self._forget)
        with self._lock:
            if not self._closed:
                self._channels.add(serving)
                return
        serving.close()

    def subscribe(self, step_id: int, key: str, sink: Sink) -> None:
        """See `serving.Task`."""
        self._worker.rendezvous.find(step_id).subscribe(key, sink)

    def unsubscribe(self, step_id: int, key: str, sink: Sink, gone: bool) -> None:
        """See `serving.Task`."""
        step = self._worker.rendezvous.peek(step_id)
        if step is not None:
            step.unsubscribe(key, sink)
            if gone:
                step.abort(UnavailableError(message=f"{sink.receiver} is gone"))

    def call(self, step_id: int, text: bytes, args: Sequence[Any]) -> Sequence[Any]:
        """See `serving.Task`: runs a partition; its results come back in ascending order."""
        if step_id >= CLIENTS_STEP:
            return self._master().call(step_id, text, args)
        worker = self._worker
        session, handle, alone = unpack_run(text)
        graph = worker.graph(session, handle)
        program = graph.program
        if len(args) != len(program.args):
            raise InvalidArgumentError(
                message=f"The step takes {len(program.args)} arguments, got {len(args)}"
            )
        by_index = dict(zip(sorted(program.args), args, strict=True))
        if graph.last_sent:
            from sparkflow_runtime.transport.channel.serving import send_with_reply

            send_with_reply(graph.last_sent)
        try:
            values = worker.run(graph, step_id, [by_index[index] for index in program.args])
        finally:
            if alone and graph.takes_step:
                worker.finish_step(step_id)
        results = dict(zip(program.results, values, strict=True))
        return [results[index] for index in sorted(results)]

    def abandon(self, step_id: int) -> None:
        """See `serving.Task`."""
        if step_id >= CLIENTS_STEP:
            self._master().cancel(step_id)
            return
        error = CancelledError(message="The master that ran this step is gone")
        self._worker.finish_step(step_id, error)

    def finish(self, step_id: int) -> None:
        """See `serving.Task`."""
        if step_id >= CLIENTS_STEP:
            self._master().cancel(step_id)
            return
        self._worker.finish_step(step_id)

    def close(self, error: OpError) -> None:
        """Ends all channels; may be called again."""
        with self._lock:
            self._closed = True
            channels = list(self._channels)
        for channel in channels:
            channel.close(error)

    def _master(self) -> Clients:
        if self.clients is None:
            raise InvalidArgumentError(message=f"{self._worker.task} runs no steps for clients")
        return self.clients

    def _forget(self, channel: Serving) -> None:
        with self._lock:
            self._channels.discard(channel)

"""Serves a task's peers over tensor channels: sends bundles of steps, and runs partitions."""

from __future__ import annotations

import contextlib
import struct
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

import numpy as np

from sparkflow_runtime.errors import (
    InvalidArgumentError,
    OpError,
    UnavailableError,
)
from sparkflow_runtime.worker.step import Shortcuts

if TYPE_CHECKING:
    from sparkflow_runtime.compiler.parts import Parts
    from sparkflow_runtime.device.shared_memory import SharedArena
    from sparkflow_runtime.transport.channel.opening import Opened
    from sparkflow_runtime.transport.channel.serving import Answer, Serving, Sink
    from sparkflow_runtime.worker.parted import Outcome
    from sparkflow_runtime.worker.worker import RegisteredGraph, Worker

CLIENTS_STEP: Final = 1 << 63
"""Step ids from here on belong to steps that clients request from the task's master."""
MOST_KEPT_BYTES: Final = 1 << 14
"""A larger bundle is not sent with the results, as that would copy it."""
REPEATED_S: Final = 0.1
"""The reply to a repeating call is that of the first run that ends after this time."""
_MOST_CALLS: Final = 8
"""Maximum number of a partition's calls that are cached; normally there are at most two."""
_NAMES: Final = struct.Struct("<BHH")
_SIZE: Final = struct.Struct("<H")
_MALFORMED: Final = "A malformed call"
_ALONE: Final = 1
_BRINGS: Final = 2
_ENDS: Final = 4
_REPEATS: Final = 8


class Clients(Protocol):
    """The master of a task, which runs prepared steps for clients. Called by any thread."""

    def call(self, step_id: int, text: bytes, args: Sequence[Any]) -> Sequence[Any]:
        """Runs a prepared step; blocks until it is done.

        Raises:
            OpError: The step failed, or the call is malformed.
        """

    def cancel(self, step_id: int) -> None:
        """Ends a step whose client is gone, or has cancelled it."""


class Run(NamedTuple):
    """A call that runs a partition; its arguments are sent along in ascending order.

    Attributes:
        session: The session.
        handle: The partition's handle.
        alone: Whether it is the step's only partition; the step then ends with it.
        brings: The key of the bundle that follows the arguments, "" for none.
        unasked: The keys of bundles that the partition must not send, as the caller reads them in
            place.
        ends: The key of a bundle that may follow the results if it is small, or if the run can be
            parked; "" for none.
        repeats: Whether to run it repeatedly, for `REPEATED_S` or until it fails; only without a
            bundle.
    """

    session: str
    handle: str
    alone: bool = False
    brings: str = ""
    unasked: tuple[str, ...] = ()
    ends: str = ""
    repeats: bool = False


def pack_run(run: Run) -> bytes:
    """Returns the text of a call.

    Peers understand calls with a bundle from `handshake.TAKES_BUNDLES` on, and repeating ones from
    `handshake.REPEATS` on.
    """
    names = run.session.encode(), run.handle.encode()
    flags = run.alone * _ALONE | bool(run.brings) * _BRINGS | bool(run.ends) * _ENDS
    flags |= run.repeats * _REPEATS
    text = _NAMES.pack(flags, *map(len, names)) + b"".join(names)
    if run.brings:
        for key in (run.brings, *run.unasked, *([run.ends] if run.ends else [])):
            text += _SIZE.pack(len(key.encode())) + key.encode()
    return text


def unpack_run(text: bytes) -> Run:
    """Parses the text of a call.

    Raises:
        InvalidArgumentError: The text is malformed.
    """
    session, handle = _partition(text)
    with contextlib.suppress(UnicodeDecodeError, struct.error):
        flags, first, second = _NAMES.unpack_from(text)
        keys = _keys(text[_NAMES.size + first + second :])
        ends = keys.pop() if flags & _ENDS and len(keys) > 1 else ""
        alone, repeats = bool(flags & _ALONE), bool(flags & _REPEATS)
        if bool(keys) == bool(flags & _BRINGS) and not (keys and repeats):
            brings, unasked = (keys[0], tuple(keys[1:])) if keys else ("", ())
            return Run(session, handle, alone, brings, unasked, ends, repeats)
    raise InvalidArgumentError(message=_MALFORMED)


def _partition(text: bytes) -> tuple[str, str]:
    """Returns the session and the handle that a call names.

    Raises:
        InvalidArgumentError: The text is malformed.
    """
    with contextlib.suppress(UnicodeDecodeError, struct.error):
        _, first, second = _NAMES.unpack_from(text)
        middle, end = _NAMES.size + first, _NAMES.size + first + second
        if len(text) >= end:
            return text[_NAMES.size : middle].decode(), text[middle:end].decode()
    raise InvalidArgumentError(message=_MALFORMED)


def _keys(text: bytes) -> list[str]:
    """Parses the keys that follow the names of a call.

    Raises:
        struct.error: The text is truncated.
        UnicodeDecodeError: The text is not UTF-8.
    """
    found: list[str] = []
    while text:
        (size,) = _SIZE.unpack_from(text)
        (key,) = struct.unpack_from(f"{size}s", text, _SIZE.size)
        found.append(key.decode())
        text = text[_SIZE.size + size :]
    return found


def _drop(values: Sequence[Any], lent: Sequence[int], check: Callable[[], None]) -> bool:
    """Drops a bundle that the caller has read in place; returns True, as it must not be sent."""
    return True


def _keep_small(
    kept: list[Any], values: Sequence[Any], lent: Sequence[int], check: Callable[[], None]
) -> bool:
    """Keeps a bundle that is sent with the results; returns False if it is too large for that."""
    if sum(np.asarray(value).nbytes for value in values) > MOST_KEPT_BYTES:
        return False
    kept += [np.array(value) for value in values]
    return True


def _keep(
    kept: list[Any], values: Sequence[Any], lent: Sequence[int], check: Callable[[], None]
) -> bool:
    """Keeps a bundle of any size that is sent with the results; returns True."""
    kept += [np.array(value) for value in values]
    return True


class Answering:
    """The channels that peers have opened to a task. Safe to use from several threads.

    `_lock` guards `_channels` and `_closed`.

    Args:
        worker: The task.
        arena: Its memory that peers may read; None to share none.

    Attributes:
        clients: Runs steps for clients; None if the task is not a master.
    """

    def __init__(self, worker: Worker, arena: SharedArena | None) -> None:
        self.clients: Clients | None = None
        self._worker = worker
        self._arena = arena
        self._lock = threading.Lock()
        self._channels: set[Serving] = set()
        self._closed = False

    def accept(self, opened: Opened) -> None:
        """Serves a channel from now on; closes it if this has been closed."""
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

    def unsubscribe(self, step_id: int, key: str, sink: Sink, broke: OpError | None) -> None:
        """See `serving.Task`."""
        step = self._worker.rendezvous.peek(step_id)
        if step is not None:
            step.unsubscribe(key, sink)
            if broke is not None:
                # The other task may be alive, and be the master that receives this error.
                text = f"Tensors of this step cannot be sent: {broke.message}"
                step.abort(UnavailableError(message=text))

    def call(
        self, step_id: int, text: bytes, args: Sequence[Any], later: Answer
    ) -> Sequence[Any] | None:
        """See `serving.Task`: runs a partition and returns its results in ascending order."""
        if step_id >= CLIENTS_STEP:
            return self._master().call(step_id, text, args)
        worker = self._worker
        graph = worker.graph(*_partition(text))
        asked = graph.calls.get(text)
        if asked is None:
            if len(graph.calls) >= _MOST_CALLS:
                graph.calls.clear()
            asked = graph.calls[text] = unpack_run(text)
        program = graph.program
        shortcuts: Shortcuts | None = None
        last: list[Any] = []
        if asked.brings:
            args, brought = args[: len(program.args)], args[len(program.args) :]
            shortcuts = Shortcuts({asked.brings: tuple(brought)})
            shortcuts.taken.update(dict.fromkeys(asked.unasked, _drop))
            if asked.ends:
                shortcuts.taken[asked.ends] = partial(_keep_small, last)
        if len(args) != len(program.args):
            raise InvalidArgumentError(
                message=f"The step takes {len(program.args)} arguments, got {len(args)}"
            )
        by_index = dict(zip(sorted(program.args), args, strict=True))
        parts = graph.parts()
        if parts is not None:
            left = shortcuts or Shortcuts()
            if parts.received <= left.given.keys() and parts.sent <= left.taken.keys():
                if asked.ends:
                    left.taken[asked.ends] = partial(_keep, last)
                self._begin(graph, parts, step_id, by_index, left, last, asked, later)
                return None
        if graph.last_sent:
            from sparkflow_runtime.transport.channel.serving import send_with_reply

            send_with_reply(graph.last_sent)
        try:
            given = [by_index[index] for index in program.args]
            until = time.monotonic() + REPEATED_S
            values = worker.run(graph, step_id, given, shortcuts=shortcuts)
            while asked.repeats and time.monotonic() < until:
                values = worker.run(graph, step_id, given)
        finally:
            if asked.alone and graph.takes_step:
                worker.finish_step(step_id)
        results = dict(zip(program.results, values, strict=True))
        return [*(results[index] for index in sorted(results)), *last]

    def _begin(
        self,
        graph: RegisteredGraph,
        parts: Parts,
        step_id: int,
        args: dict[int, Any],
        shortcuts: Shortcuts,
        last: list[Any],
        asked: Run,
        later: Answer,
    ) -> None:
        """Runs a partition whose runs can be parked, then continues the runs that it unblocks."""
        from sparkflow_runtime.resources.parking import run_to_completion

        worker = self._worker

        def answer(outcome: Outcome) -> None:
            if asked.alone:
                worker.finish_step(step_id)
            if isinstance(outcome, BaseException):
                later(outcome)
                return
            later([*(outcome[index] for index in sorted(outcome)), *last])

        begin = partial(worker.run_parted, graph, parts, step_id, args, shortcuts)
        run: Callable[[], None] = partial(begin, answer)
        if asked.repeats:
            from sparkflow_runtime.worker.parted import RepeatedRun

            run = RepeatedRun(begin, time.monotonic() + REPEATED_S, answer).go_on
        try:
            if parts.holds_up:
                run()
            else:
                run_to_completion(run)
        except BaseException:  # it did not begin
            if asked.alone:
                worker.finish_step(step_id)
            raise

    def abandon(self, step_id: int) -> None:
        """See `serving.Task`."""
        if step_id >= CLIENTS_STEP:
            self._master().cancel(step_id)
            return
        self._worker.abandon_step(step_id)

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

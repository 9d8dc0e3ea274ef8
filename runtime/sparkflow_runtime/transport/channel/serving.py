"""The serving end of a channel: sends the tensors and runs the calls that another task requests."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import Any, Protocol, TypeAlias

import numpy as np

from sparkflow_runtime.device.shared_memory import SharedArena
from sparkflow_runtime.errors import OpError, UnavailableError, from_status, to_status
from sparkflow_runtime.resources.parking import at_the_end
from sparkflow_runtime.transport.channel import frames
from sparkflow_runtime.transport.channel.buffers import BufferPool
from sparkflow_runtime.transport.channel.end import HELD_BYTES, End
from sparkflow_runtime.transport.channel.frames import Header, Kind
from sparkflow_runtime.transport.channel.layout import Describer, parse
from sparkflow_runtime.transport.channel.memory import LEAST_SHARED_BYTES
from sparkflow_runtime.transport.channel.opening import Opened
from sparkflow_runtime.transport.channel.reactor import Reactor

_CREDIT_CHECK_S = 0.2

Outcome: TypeAlias = Sequence[Any] | BaseException
"""The results of a call, or the error if it failed."""
Answer = Callable[[Outcome], None]
Check = Callable[[], None]
"""Raises the error that ended the step, if one did."""


class Task(Protocol):
    """The task whose tensors and steps are requested. All methods may be called by any thread."""

    def subscribe(self, step_id: int, key: str, sink: Sink) -> None:
        """Sends the bundles of a key to `sink` from now on, including those already available."""

    def unsubscribe(self, step_id: int, key: str, sink: Sink, broke: OpError | None) -> None:
        """Undoes `subscribe`; `broke`: the error that ended the channel, if that is the reason."""

    def call(
        self, step_id: int, text: bytes, args: Sequence[Any], later: Answer
    ) -> Sequence[Any] | None:
        """Runs a call; blocks until it is done, or until it waits for other steps.

        Args:
            step_id: The step it belongs to.
            text: Names what is called.
            args: Arrays.
            later: Receives the outcome if this returns None: once, in any thread, which may be this
                one before this returns.

        Raises:
            OpError: The call failed; `later` is not called.
        """

    def abandon(self, step_id: int) -> None:
        """Reports that the task that called this step is gone."""

    def finish(self, step_id: int) -> None:
        """Reports that the step is over."""


class _Answered(threading.local):
    """The call that a thread runs."""

    serving: Serving | None = None
    last_key = ""


_answered = _Answered()


def send_with_reply(key: str) -> None:
    """Sends the bundle of this key, the last of the thread's call, together with its reply."""
    _answered.last_key = key


class Sink:
    """The destination of the bundles of one key of a step: a stream of another task.

    `_changed` guards all fields; `_sending` keeps bundles in order.
    """

    def __init__(
        self,
        serving: Serving,
        number: int,
        step_id: int,
        key: str,
        first: int,
        credit: int,
        tells: bool = False,
    ) -> None:
        self.step_id = step_id
        self.key = key
        self._serving = serving
        self._number = number
        self._credit = credit
        self._tells = tells  # the locations of a whole bundle, see `readings`
        self._loops = credit - first > 1
        self._changed = threading.Condition(threading.Lock())
        self._sending = threading.RLock()
        self._describer = Describer(serving.memory.locate, LEAST_SHARED_BYTES)
        self._layout: bytes | None = None
        self._cancelled = False
        self._told = False

    @property
    def ordered(self) -> AbstractContextManager[Any]:
        """Held while several bundles are sent in order."""
        return self._sending

    def wants(self, iteration: int) -> bool:
        """Whether that iteration's bundle may still be requested; forgets a complete sink."""
        if self._loops and not self._cancelled:
            return True
        if iteration >= self._credit:
            self._serving.forget(self)
            return False
        return not self._cancelled

    @property
    def transport(self) -> str:
        """How bundles travel: "tcp", "unix" or "shm"."""
        return self._serving.transport

    def send(
        self, iteration: int, values: Sequence[Any], lent: Sequence[int], check: Check
    ) -> None:
        """Sends a bundle; waits until the other task has consumed enough of the earlier ones.

        Args:
            iteration: Ascending.
            values: Arrays, which may change once this returns.
            lent: The indices of the arrays that the other task may read in place.
            check: Raises when waiting has become pointless.

        Raises:
            UnavailableError: The other task is gone.
            OpError: Raised by `check`.
        """
        with self._sending:
            if iteration >= self._credit:
                self._await_credit(iteration, check)
            if self._cancelled:
                return
            message = self._describer.describe(values, lent)
            same = message.layout is self._layout
            self._layout = message.layout
            text = b""
            if self._tells and 0 < len(values) == len(lent):
                text = self._serving.memory.places(values)
            with_reply = (
                _answered.serving is self._serving
                and _answered.last_key == self.key
                and not self._loops
            )
            self._serving.send(
                Kind.BUNDLE, self._number, iteration, text, message, same, check, is_held=with_reply
            )

    def end(self, iteration: int) -> None:
        """Announces that nothing follows from this iteration on."""
        self._tell(frames.pack(Kind.END, self._number, iteration))

    def fail(self, error: BaseException) -> None:
        """Announces that nothing more follows, with the reason."""
        self._tell(frames.pack(Kind.FAIL, self._number, text=frames.pack_status(error)))

    def extend(self, credit: int) -> None:
        """Records that the other task accepts bundles up to this iteration."""
        with self._changed:
            self._credit = max(credit, self._credit)
            self._changed.notify_all()

    def cancel(self) -> None:
        """Records that the other task needs nothing more."""
        with self._changed:
            self._cancelled = True
            self._changed.notify_all()

    def _tell(self, head: bytes) -> None:
        with self._changed:
            if self._told or self._cancelled:
                return
            self._told = True
        self._serving.post(head)

    def _await_credit(self, iteration: int, check: Check) -> None:
        while True:
            with self._changed:
                if iteration < self._credit or self._cancelled:
                    return
                self._changed.wait(_CREDIT_CHECK_S)
            if self._serving.wire.closed is not None:
                raise UnavailableError(message=self._serving.wire.closed.message)
            check()


class Serving(End):
    """The serving end of a channel. `attend` is called by one thread at a time.

    `_lock` guards the sinks and calls.

    Args:
        opened: The socket after its handshake.
        task: The task that serves.
        reactor: Reads the socket.
        arena: Memory of the task that the other task may read; None to share none.
        on_closed: Called once when the channel has closed.
    """

    is_always_read = True

    def __init__(
        self,
        opened: Opened,
        task: Task,
        reactor: Reactor,
        arena: SharedArena | None,
        on_closed: Callable[[Serving], None],
    ) -> None:
        super().__init__(opened, arena, reactor.read_all)
        self._task = task
        self._reactor = reactor
        self._on_closed = on_closed
        self._lock = threading.Lock()
        self._sinks: dict[int, Sink] = {}
        self._running: dict[int, int] = {}
        self._todo: list[tuple[bool, partial[None]]] = []  # whether it may block, and what
        self._pool = BufferPool()
        self._closed = False
        self.be_read(reactor.add)

    @property
    def transport(self) -> str:
        """How tensors travel: "tcp", "unix" or "shm"."""
        return "shm" if self.memory.is_lent else self.wire.transport

    def attend(self) -> None:
        """Reads what has arrived and serves it, while another thread may continue reading."""
        super().attend()
        todo, self._todo = self._todo, []
        self._reactor.resume(self)
        for may_block, each in todo[:-1]:
            if may_block:
                self._reactor.hand_over(partial(self._do, each))
            else:  # a request for the next call, or the end of the previous step
                self._do(each)
        if todo:
            self._do(todo[-1][1])

    def _do(self, asked: partial[None]) -> None:
        try:
            asked()
        except Exception as error:  # The thread is the reactor's, and reads other channels, too.
            self.close(from_status(*to_status(error)))

    def post(self, head: bytes) -> None:
        """See `End`; closes this end on failure."""
        try:
            self.wire.send(head)
        except OpError as error:
            self.close(error)

    def buffer(self, header: Header, size_bytes: int) -> np.ndarray[Any, Any]:
        """See `End`."""
        return self._pool.take(size_bytes)

    def handle(self, header: Header, head: bytes, body: np.ndarray[Any, Any] | None) -> None:
        """See `End`."""
        kind = header.kind
        if kind is Kind.CALL:
            self._todo.append((True, partial(self._call, header, head, body)))
        elif kind is Kind.REQUEST:
            step_id, credit, key = frames.unpack_request(head)
            tells = bool(header.flags & frames.TELL)
            sink = Sink(self, header.number, step_id, key, header.place, credit, tells)
            with self._lock:
                self._sinks[header.number] = sink
            self._todo.append((False, partial(self._subscribe, sink)))
        elif kind is Kind.CREDIT:
            with self._lock:
                found = self._sinks.get(header.number)
            if found is not None:
                found.extend(header.place)
        elif kind is Kind.CANCEL:
            with self._lock:
                found = self._sinks.pop(header.number, None)
            if found is not None:
                found.cancel()
                self._task.unsubscribe(found.step_id, found.key, found, broke=None)
        elif kind is Kind.FINISH:
            self._todo.append((False, partial(self._task.finish, header.number)))
        else:
            self.handle_other(header)

    def forget(self, sink: Sink) -> None:
        """Forgets a sink to which nothing more is sent."""
        with self._lock:
            self._sinks.pop(sink._number, None)

    def close(self, error: OpError | None = None) -> None:
        """Closes the channel; unsent data is lost. May be called again."""
        self.wire.close(error)
        with self._lock:
            if self._closed:
                return
            self._closed = True
            sinks = list(self._sinks.values())
            self._sinks.clear()
            steps = set(self._running.values())
        self._reactor.remove(self)
        try:
            for sink in sinks:
                sink.cancel()
                self._task.unsubscribe(sink.step_id, sink.key, sink, self.wire.closed)
            for step_id in steps:
                with contextlib.suppress(OpError):  # a step that the task does not know
                    self._task.abandon(step_id)
        finally:
            self.memory.close()
            self.wire.release()
            self._on_closed(self)

    def _subscribe(self, sink: Sink) -> None:
        try:
            self._task.subscribe(sink.step_id, sink.key, sink)
        except OpError as error:
            sink.fail(error)
            self.forget(sink)
            return
        with self._lock:
            is_closed = self._closed
        if is_closed:  # since the request; `close` may have run before this
            self._task.unsubscribe(sink.step_id, sink.key, sink, self.wire.closed)

    def _call(self, header: Header, head: bytes, body: np.ndarray[Any, Any] | None) -> None:
        number, step_id = header.number, header.place
        with self._lock:
            if self._closed:
                return  # since the call; nothing would abandon the step any more
            self._running[number] = step_id
        _answered.serving, _answered.last_key = self, ""
        try:
            args: list[Any] = []
            if header.tensors:
                layout = parse(head[header.text_bytes :], header.tensors)
                args = self.memory.read(layout, header, head, body)
            text = self.memory.text(header, head)
            outcome = self._task.call(step_id, text, args, partial(self._answer_later, number))
        except Exception as error:
            self._answer(number, error)
        else:
            if outcome is not None:
                self._answer(number, outcome)
        finally:
            _answered.serving = None

    def _answer_later(self, number: int, outcome: Outcome) -> None:
        """Answers a call, after the thread has continued the runs that must not wait for that."""
        at_the_end(self._answer_all, (number, outcome))

    def _answer_all(self, answers: list[tuple[int, Outcome]]) -> None:
        """Answers calls together; another thread sends answers that would take long."""
        small: list[tuple[int, Outcome]] = []
        has_room = self.wire.has_room()
        for number, outcome in answers:
            if has_room and _is_small(outcome):
                small.append((number, outcome))
            else:
                self._reactor.hand_over(partial(self._answer, number, outcome))
        for place, (number, outcome) in enumerate(reversed(small), 1):
            self._answer(number, outcome, is_held=place < len(small))

    def _answer(self, number: int, outcome: Outcome, is_held: bool = False) -> None:
        """Answers a call; `is_held`: another answer follows at once."""
        try:
            if isinstance(outcome, BaseException):
                raise outcome
            message = self.describe(outcome)
        except BaseException as error:
            refusal = frames.pack_status(error)
            self.post(frames.pack(Kind.REFUSAL, number, text=refusal))
            return
        finally:
            with self._lock:
                del self._running[number]
        try:
            self.send(Kind.REPLY, number, 0, b"", message, is_held=is_held)
        except OpError as error:
            self.close(error)


def _is_small(outcome: Outcome) -> bool:
    if isinstance(outcome, BaseException):
        return True
    return sum(np.asarray(value).nbytes for value in outcome) <= HELD_BYTES

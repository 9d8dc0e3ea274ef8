"""The asking end of a channel: tensors and calls that another task answers.

A thread that waits for an answer reads the socket itself, so no thread has to wake another: with a
dedicated reading thread, a round trip of four bytes takes twice as long. If several threads wait,
one reads for all. If answers are outstanding and no thread waits, `Reactor` reads.
"""

from __future__ import annotations

import itertools
import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

import numpy as np

from sparkflow_runtime.device.shared_memory import SharedArena
from sparkflow_runtime.errors import (
    InvalidArgumentError,
    OpError,
    from_status,
    to_status,
)
from sparkflow_runtime.transport.channel import frames, handshake
from sparkflow_runtime.transport.channel.buffers import BufferPool
from sparkflow_runtime.transport.channel.end import End
from sparkflow_runtime.transport.channel.frames import SAME_LAYOUT, TELL, Header, Kind
from sparkflow_runtime.transport.channel.layout import Layout, parse
from sparkflow_runtime.transport.channel.opening import Opened
from sparkflow_runtime.transport.channel.reactor import Reactor
from sparkflow_runtime.transport.channel.readings import Readings, Told, Wish
from sparkflow_runtime.transport.waking import Waker

T = TypeVar("T")

AHEAD: Final = 4
"""How many bundles of a loop may be sent before the first is consumed. Work on bundles that nobody
consumes is wasted when the loop ends."""
_SECOND_LOOK_S: Final = 0.02
"""How often a thread for which another one reads checks whether it should read itself."""


class Stream:
    """The bundles of one key of a step, in the order of iterations. See `Asker`."""

    __slots__ = (
        "_asker",
        "_credit",
        "_ended",
        "_error",
        "_layout",
        "_number",
        "_pool",
        "_values",
        "key",
        "wish",
    )

    def __init__(
        self, asker: Asker, number: int, pool: BufferPool, key: str, wish: Wish | None
    ) -> None:
        self.key = key
        self.wish = wish
        self._asker = asker
        self._number = number
        self._pool = pool
        self._values: dict[int, list[Any]] = {}
        self._layout: Layout | None = None
        self._ended = 1 << 62
        self._error: OpError | None = None
        self._credit = 0

    def take(self, iteration: int, waker: Waker, more: bool) -> list[Any] | None:
        """Waits for the bundle of an iteration; None when the sender's loop ended before it.

        Args:
            iteration: Each is requested once, in ascending order.
            waker: Interrupts the wait.
            more: Whether the next iteration will be requested.

        Raises:
            OpError: The sender failed or is gone, or `waker` raised it.
        """
        values: list[Any] = self._asker.wait_for(lambda: self._find(iteration), waker)
        if values is _ENDED:
            return None
        if more and self._credit - iteration <= AHEAD // 2:
            self._credit = iteration + 1 + AHEAD
            self._asker.post(frames.pack(Kind.CREDIT, self._number, self._credit))
        return values

    def _find(self, iteration: int) -> Any:
        values = self._values.pop(iteration, None)
        if values is not None:
            return values
        if self._error is not None:
            raise from_status(*to_status(self._error))
        if iteration >= self._ended:
            return _ENDED
        return None

    @property
    def transport(self) -> str:
        """How its bundles travel: "tcp", "unix" or "shm"."""
        return self._asker.transport

    def cancel(self, ended_well: bool = False) -> None:
        """Ends the stream; the sender need not be notified if the step ended without an error."""
        self._asker.forget_stream(self._number, ended_well)


_ENDED: Final[list[Any]] = []


@dataclass(slots=True)
class PendingCall:
    """A call whose answer may not have arrived; `done`, `results` and `error` are set together.

    Attributes:
        on_done: Called once, in a thread of the channel, when the answer has arrived.
        is_attended: Whether a thread waits, or will wait, for the answer.
        done: Whether the answer has arrived.
        results: The answer.
        error: The error, if the call failed.
    """

    on_done: Callable[[PendingCall], None] | None = None
    is_attended: bool = True
    done: bool = False
    results: list[Any] = field(default_factory=list)
    error: OpError | None = None


class Asker(End):
    """The asking end of a channel. Safe to use from several threads.

    `_lock` guards streams, calls and what has arrived; `_arrived` signals arrivals.

    Args:
        opened: The socket after its handshake.
        reactor: Reads the channel while no other thread does.
        arena: Memory of this task that the other task may read; None to share none.

    Attributes:
        takes_bundles: Whether a call may carry a bundle.
        repeats: Whether the other task may repeat a call before it answers.
        readings: The locations of the other task's variables.
    """

    def __init__(self, opened: Opened, reactor: Reactor, arena: SharedArena | None = None) -> None:
        super().__init__(opened, arena, reactor.read_all)
        self._reactor = reactor
        # Used directly, as `Condition` enters it in Python code, which is slower.
        self._lock = threading.Lock()
        self._arrived = threading.Condition(self._lock)
        self._streams: dict[int, Stream] = {}
        self._calls: dict[int, PendingCall] = {}
        self._held: deque[bytes] = deque()  # frames that go with the next ones
        self._unattended = 0  # calls whose answers no thread waits for
        self._numbers = itertools.count(1)
        self._pools: dict[str, BufferPool] = {}
        self.takes_bundles = opened.minor >= handshake.TAKES_BUNDLES
        self.repeats = opened.minor >= handshake.REPEATS
        self.readings = Readings()
        self.be_read(reactor.add)

    @property
    def transport(self) -> str:
        """How tensors travel: "tcp", "unix" or "shm"."""
        return "shm" if self.memory.is_read else self.wire.transport

    @property
    def is_left_alone(self) -> bool:
        """Whether answers are outstanding and no thread reads them."""
        return bool(self._streams or self._calls) and not self.wire.reading.locked()

    # ------------------------------------------------------------------------------- asking

    def ask(
        self,
        step_id: int,
        keys: Sequence[str],
        loops: bool,
        first: int = 0,
        told: Told | None = None,
        is_held: bool = False,
    ) -> list[Stream]:
        """Requests the bundles of some keys of a step.

        Args:
            step_id: The step.
            keys: The bundles' keys.
            loops: Whether more than one iteration may follow.
            first: The first iteration requested.
            told: The bundles whose locations are requested as well.
            is_held: Whether the request may be held back and sent with the next call or wait.

        Raises:
            UnavailableError: The other end is gone.
        """
        credit = first + (AHEAD if loops else 1)
        streams: list[Stream] = []
        heads: list[bytes] = []
        wish = None if told is None else self.readings.wish(told.name)
        with self._lock:
            for key in keys:
                number = next(self._numbers)
                pool = self._pools.setdefault(key, BufferPool())
                own = wish if told is not None and key in told.keys else None
                stream = self._streams[number] = Stream(self, number, pool, key, own)
                stream._credit = credit
                streams.append(stream)
                text = frames.pack_request(step_id, credit, key)
                flags = 0 if own is None else TELL
                heads.append(frames.pack(Kind.REQUEST, number, first, flags=flags, text=text))
        if is_held and self.is_open:
            self._held.extend(heads)
            return streams
        heads += self._take_held()  # held calls last: their bundles are requested before they run
        try:
            self.wire.send(heads)
        except OpError:
            self.close()
            raise
        return streams

    def call(
        self,
        step_id: int,
        text: bytes,
        args: Sequence[Any],
        on_done: Callable[[PendingCall], None] | None = None,
        is_attended: bool = False,
        is_held: bool = False,
        lent: Sequence[int] = (),
        check: Callable[[], None] | None = None,
    ) -> PendingCall:
        """Starts a call.

        Args:
            step_id: The step it belongs to.
            text: Names what is called, see `serving`.
            args: Arrays; they may change once this returns.
            on_done: See `PendingCall`.
            is_attended: Whether a thread will wait for the answer in spite of `on_done`.
            is_held: Whether it may be held back and sent with the next request. The thread must
                `flush` before it waits for anything else.
            lent: The indices of the arrays that the other task may read in place.
            check: See `Wire.send`.

        Raises:
            UnavailableError: The other end is gone.
            OpError: Raised by `check`.
        """
        pending = PendingCall(on_done, on_done is None or is_attended)
        with self._lock:
            number = next(self._numbers)
            self._calls[number] = pending
            self._unattended += not pending.is_attended
        message = self.describe(args, lent)
        is_small = not message.body_bytes
        head = b""
        if is_small:
            layout, count = message.layout, message.count
            head = frames.pack(Kind.CALL, number, step_id, text=text, layout=layout, tensors=count)
            if is_held and self.is_open:
                self._held.append(head)
                return pending
        try:
            if is_small:
                self.wire.send([*self._take_held(), head], check=check)
            else:
                for each in self._take_held():
                    self.wire.hold(each, b"")
                self.send(Kind.CALL, number, step_id, text, message, check=check)
        except OpError:
            with self._lock:
                if self._calls.pop(number, None) is not None:
                    self._unattended -= not pending.is_attended
            self.close()
            raise
        if not pending.is_attended:
            self._reactor.watch(self)
        return pending

    @property
    def holds_back(self) -> bool:
        """See `End`."""
        return bool(self._held)

    def flush(self) -> None:
        """Sends what was held back."""
        if self._held:
            try:
                self.wire.send(self._take_held())
            except OpError:
                self.close()  # which ends those calls

    def post(self, head: bytes, is_held: bool = False) -> None:
        """See `End`.

        Args:
            head: The frame.
            is_held: Whether it may be held back until the next frame, or until the reactor sends
                it.
        """
        if is_held and self.is_open:
            self._held.append(head)
            return
        self.flush()
        super().post(head)

    def result(self, call: PendingCall, waker: Waker) -> list[Any]:
        """Waits for the answer to a call.

        Raises:
            OpError: The call failed, the other end is gone, or `waker` raised it.
        """

        def find() -> PendingCall | None:
            return call if call.done else None

        self.wait_for(find, waker)
        if call.error is not None:
            raise call.error
        return call.results

    def forget_stream(self, number: int, ended_well: bool) -> None:
        """Drops whatever still arrives for this stream; see `Stream.cancel`."""
        with self._lock:
            found = self._streams.pop(number, None)
        if found is not None and not ended_well and self.is_open:
            self.post(frames.pack(Kind.CANCEL, number))

    # ------------------------------------------------------------------------------ waiting

    def wait_for(self, find: Callable[[], T | None], waker: Waker) -> T:
        """Returns the first result of `find` that is not None; calls it with `_lock` held.

        Raises:
            OpError: Raised by `find` or `waker`, or the channel was closed.
        """
        self.flush()
        while True:
            with self._lock:
                found = find()
                if found is not None:
                    return found
                if self.wire.closed is not None:
                    raise from_status(*to_status(self.wire.closed))
            waker.check()
            if self.wire.reading.acquire(blocking=False):
                try:
                    with self._lock:
                        found = find()
                    if found is not None:
                        return found
                    self._reactor.unwatch(self)
                    self.wire.wait(None, waker.fileno())
                    self.read()
                finally:
                    self.wire.stop_reading()
                    if self._unattended:
                        self._reactor.watch(self)
            else:
                with self._lock:
                    found = find()
                    if found is not None:
                        return found
                    self._arrived.wait(_SECOND_LOOK_S)

    def _take_held(self) -> list[bytes]:
        taken: list[bytes] = []
        while self._held:
            try:
                taken.append(self._held.popleft())
            except IndexError:  # another thread took it
                break
        return taken

    # ----------------------------------------------------------------------------- arriving

    def buffer(self, header: Header, size_bytes: int) -> np.ndarray[Any, Any]:
        """See `End`."""
        with self._lock:
            stream = self._streams.get(header.number)
        return (stream._pool if stream is not None else BufferPool()).take(size_bytes)

    def handle(self, header: Header, head: bytes, body: np.ndarray[Any, Any] | None) -> None:
        """See `End`."""
        kind = header.kind
        if kind is Kind.BUNDLE:
            self._bundle(header, head, body)
        elif kind is Kind.REPLY:
            self._reply(header, head, body)
        elif kind is Kind.REFUSAL:
            self._finish_call(header.number, [], frames.unpack_status(head))
        elif kind is Kind.END or kind is Kind.FAIL:
            with self._lock:
                stream = self._streams.get(header.number)
                if stream is None:
                    return
                if kind is Kind.END:
                    stream._ended = min(stream._ended, header.place)
                else:
                    stream._error = frames.unpack_status(head)
                self._arrived.notify_all()
        else:
            self.handle_other(header)

    def _bundle(self, header: Header, head: bytes, body: np.ndarray[Any, Any] | None) -> None:
        with self._lock:
            stream = self._streams.get(header.number)
        if stream is None:
            self.memory.skip(header, head)
            return  # Nobody waits for it any longer.
        if header.flags & SAME_LAYOUT:
            layout = stream._layout
            if layout is None:
                raise InvalidArgumentError(
                    message="A bundle refers to a layout that was never sent"
                )
        else:
            layout = parse(head[header.text_bytes :], header.tensors)
            stream._layout = layout
        values = self.memory.read(layout, header, head, body)
        if stream.wish is not None:
            self._note_places(stream.wish, stream.key, layout, self.memory.text(header, head))
        with self._lock:
            stream._values[header.place] = values
            self._arrived.notify_all()

    def _note_places(self, wish: Wish, key: str, layout: Layout, text: bytes) -> None:
        if not text:
            return  # not all of them are in its arena
        moves, *places = frames.unpack_places(text, 1 + len(layout.tensors))
        arrays = [
            self.memory.view(place, each.dtype, each.shape)
            for place, each in zip(places, layout.tensors, strict=True)
        ]
        self.readings.note(wish, key, self.memory.view(moves, np.dtype(np.int64), (1,)), arrays)

    def _reply(self, header: Header, head: bytes, body: np.ndarray[Any, Any] | None) -> None:
        layout = parse(head[header.text_bytes :], header.tensors)
        self._finish_call(header.number, self.memory.read(layout, header, head, body), None)

    def _finish_call(self, number: int, results: list[Any], error: OpError | None) -> None:
        with self._lock:
            call = self._calls.pop(number, None)
            if call is None:
                return
            self._unattended -= not call.is_attended
            call.results, call.error, call.done = results, error, True
            self._arrived.notify_all()
        if call.on_done is not None:
            call.on_done(call)

    # ------------------------------------------------------------------------------ the end

    def close(self, error: OpError | None = None) -> None:
        """Ends all calls and streams with an error; may be called again."""
        self.wire.close(error)
        reason = self.wire.closed
        assert reason is not None
        with self._lock:
            calls = list(self._calls.items())
            for stream in self._streams.values():
                if stream._error is None:
                    stream._error = reason
            self._streams.clear()  # They refer to this object: without a cycle it is freed at once.
            self._arrived.notify_all()
        for number, _ in calls:
            self._finish_call(number, [], from_status(*to_status(reason)))
        self.readings.clear()
        self.memory.close()
        self._reactor.remove(self)
        self.wire.release()

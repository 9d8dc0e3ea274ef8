"""The client's side of repeated runs, which use a tensor channel to the master.

The first run of a set of fetches, feeds and targets goes over gRPC. Later ones name the set by a
number, and are one frame each way, which the calling thread itself reads: four bytes take a quarter
of the time that they take over gRPC. Runs with fed strings still go over gRPC, as do all runs while
there is no channel to the master.
"""

from __future__ import annotations

import functools
import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from sparkflow_runtime.device.names import DeviceSpec
from sparkflow_runtime.errors import CancelledError, OpError, UnauthenticatedError
from sparkflow_runtime.master.remote_link import own
from sparkflow_runtime.master.repeated_runs.server_side import pack_call
from sparkflow_runtime.master.running import StepIds
from sparkflow_runtime.protos import worker_pb2
from sparkflow_runtime.security import Credentials, UserToken, shown_at
from sparkflow_runtime.transport import rpc
from sparkflow_runtime.transport.channel import frames
from sparkflow_runtime.transport.channel.address import ChannelAddress
from sparkflow_runtime.transport.channel.asking import Asker
from sparkflow_runtime.transport.channel.dialling import dial
from sparkflow_runtime.transport.channel.frames import Kind
from sparkflow_runtime.transport.channel.handshake import Self
from sparkflow_runtime.transport.channel.reactor import available, reactor
from sparkflow_runtime.transport.peers import (
    DIAL_TIMEOUT_S,
    LOCATE_TIMEOUT_S,
    RETRY_S,
    WORKER_SERVICE,
)
from sparkflow_runtime.transport.waking import Waker
from sparkflow_runtime.worker.answering import CLIENTS_STEP

MAX_PREPARED: Final = 256
"""Maximum number of a session's sets of fetches, feeds and targets that are known by number."""

Key = tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]
"""The names of fetches, feeds and targets."""

_log = logging.getLogger(__name__)
_step_ids: Final = StepIds(CLIENTS_STEP)


@dataclass(frozen=True, slots=True)
class Preparing:
    """The requests that prepare steps on a master.

    Attributes:
        make: Prepares a step; returns its number.
        release: Forgets a number; does not wait.
    """

    make: Callable[[Key], int]
    release: Callable[[int], None]


class RepeatedRuns:
    """The repeated runs of a session. Safe to use from several threads; `_lock` guards all fields.

    Args:
        link: The gRPC channel to the master.
        address: Its `host:port`.
        credentials: The session's credentials.
        session: The session's handle.
        preparing: How steps are prepared.
    """

    def __init__(
        self,
        link: Any,
        address: str,
        credentials: Credentials,
        session: str,
        preparing: Preparing,
    ) -> None:
        self._address = address
        self._credentials = credentials
        self._peer = f"The master at {address}"
        token = shown_at(credentials.token, address)
        self._stub = rpc.Stub(link, WORKER_SERVICE, token, self._peer)
        self._session = session
        self._preparing = preparing
        self._lock = threading.Lock()
        self._numbers: dict[Key, int] = {}  # 0 until it is prepared; the last used one is last
        self._asker: Asker | None = None
        self._dials_at = 0.0 if available() else float("inf")
        self._closed = False

    def run(
        self, fetches: Sequence[str], feeds: Mapping[str, Any], targets: Sequence[str]
    ) -> list[Any] | None:
        """Runs a step; returns the fetched values, or None if it must go over gRPC.

        Raises:
            OpError: The step failed, or the master is gone.
        """
        key = tuple(fetches), tuple(feeds), tuple(targets)
        number = self._number_of(key)
        if number is None:
            return None
        asker = self._asker
        if asker is None or not asker.is_open:
            self._dial_in_background()
            return None
        args = list(feeds.values())
        if not all(map(_travels, args)):
            return None
        if not number:
            number = self._prepare(key)
        step_id = next(_step_ids.unused)
        call = asker.call(step_id, pack_call(self._session, number), args)
        try:
            values = asker.result(call, Waker.of_this_thread(_go_on))
        except OpError:
            raise
        except BaseException:  # Ctrl-C also ends the step
            asker.post(frames.pack(Kind.FINISH, step_id))
            raise
        return list(map(own, values))

    def close(self) -> None:
        """Closes the channel, which ends the runs on it."""
        with self._lock:
            self._closed = True
            asker, self._asker = self._asker, None
        if asker is not None:
            asker.close(CancelledError(message="The session was closed"))

    def _number_of(self, key: Key) -> int | None:
        """Returns the master's number for it; 0 if it has none yet; None the first time."""
        with self._lock:
            number = self._numbers.pop(key, None)
            self._numbers[key] = number or 0
            if len(self._numbers) <= MAX_PREPARED:
                return number
            oldest = self._numbers.pop(next(iter(self._numbers)))
        if oldest:
            self._preparing.release(oldest)
        return number

    def _prepare(self, key: Key) -> int:
        made = self._preparing.make(key)
        with self._lock:
            number = self._numbers.get(key) or made
            self._numbers[key] = number
        if number != made:  # another thread was faster
            self._preparing.release(made)
        return number

    def _dial_in_background(self) -> None:
        with self._lock:
            if self._closed or time.monotonic() < self._dials_at:
                return
            self._dials_at = float("inf")
        try:
            threading.Thread(target=self._dial, name="dial-master", daemon=True).start()
        except RuntimeError as error:  # no thread can be started; runs go over gRPC meanwhile
            self._note_dialled(RETRY_S, error)

    def _dial(self) -> None:
        retry_s = float("inf")
        try:
            asker = self._open()
            if asker is not None:
                retry_s = 0.0  # at once if it is lost
                with self._lock:
                    if not self._closed:
                        self._asker, asker = asker, None
                if asker is not None:
                    asker.close()
        except (OpError, OSError, RuntimeError) as error:  # or a lack of descriptors or threads
            self._note_dialled(RETRY_S, error)
        else:
            self._note_dialled(retry_s)

    def _note_dialled(self, retry_s: float, error: Exception | None = None) -> None:
        if error is not None:
            _log.info("Runs on %s go over gRPC: %s", self._peer, error)
        with self._lock:
            self._dials_at = time.monotonic() + retry_s

    def _open(self) -> Asker | None:
        """Returns the channel to the master; None if it has none."""
        request, response = worker_pb2.GetStatusRequest(), worker_pb2.GetStatusResponse
        status = self._stub.call("GetStatus", request, response.FromString, LOCATE_TIMEOUT_S)
        place = ChannelAddress.from_proto(status.channel_address, self._address)
        if place is None or not status.device_attributes:
            return None
        dialled = functools.partial(
            dial,
            place,
            expected_task=DeviceSpec.from_string(status.device_attributes[0].name).task_name,
            expected_incarnation=status.incarnation,
            timeout_s=DIAL_TIMEOUT_S,
        )
        token, tls = self._credentials.token, self._credentials.tls
        try:
            opened = dialled(Self(token=token, tls=tls))
        except UnauthenticatedError:
            if not isinstance(token, UserToken):
                raise
            opened = dialled(Self(tls=tls))  # a server without a token, as gRPC has found
        return Asker(opened, reactor)


def _travels(value: Any) -> bool:
    """Whether a channel can send a fed value unchanged."""
    return isinstance(value, (np.ndarray, np.generic)) and value.dtype.kind not in "OSU"


def _go_on() -> None:
    """Does nothing: the master reports what ends a step."""

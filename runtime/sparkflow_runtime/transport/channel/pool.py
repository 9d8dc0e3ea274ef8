"""The channels of one task to others: dialled when first needed, and again when one was lost."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Literal

from sparkflow_runtime.device.shared_memory import SharedArena
from sparkflow_runtime.errors import (
    CancelledError,
    FailedPreconditionError,
    OpError,
    UnavailableError,
)
from sparkflow_runtime.security import Tls
from sparkflow_runtime.transport.channel.address import ChannelAddress
from sparkflow_runtime.transport.channel.asking import Asker
from sparkflow_runtime.transport.channel.dialling import dial
from sparkflow_runtime.transport.channel.reactor import available, reactor

Transport = Literal["auto", "tcp", "unix", "shm", "grpc"]
"""How tensors travel. "auto": in shared memory and through unix sockets within a host, by TCP to
others, and by gRPC where a task has no channel. "unix": without shared memory. "tcp", "grpc":
nothing else. "shm": as "auto", but nothing else within a host."""
TRANSPORTS: Final = ("auto", "tcp", "unix", "shm", "grpc")

SHARING: Final = ("auto", "shm")
"""Those with which memory is shared."""

DIAL_TIMEOUT_S: Final = 5.0
RETRY_S: Final = 30.0
"""A task whose channel could not be opened is spoken to over gRPC for so long."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Caller:
    """Who dials, and how.

    Attributes:
        task: Its name; "" for a master without a task.
        incarnation: A number that differs each time it starts.
        token: The job's token; None without one.
        tls: For TLS; None without.
        transport: What to use.
        arena: Its memory that others may read; None to share none.
    """

    task: str = ""
    incarnation: int = 0
    token: str | None = None
    tls: Tls | None = None
    transport: Transport = "auto"
    arena: SharedArena | None = None


class Channels:
    """Safe to use from several threads; each task is dialled by one at a time.

    `_lock` guards all fields but the locks of tasks, which are held while one is dialled.

    Args:
        caller: Who dials.
        locate: Where a task listens, and its incarnation; None where it has no channel. May block.
    """

    def __init__(
        self, caller: Caller, locate: Callable[[str], tuple[ChannelAddress, int] | None]
    ) -> None:
        self._caller = caller
        self._locate = locate
        self._lock = threading.Lock()
        self._askers: dict[str, Asker] = {}
        self._dialling: dict[str, threading.Lock] = {}
        self._without: dict[str, float] = {}
        self._closed = False

    def find(self, task: str) -> Asker | None:
        """The channel to a task; None where gRPC is to be used.

        Raises:
            CancelledError: The channels were closed.
            OpError: The task refuses, or a transport that was asked for cannot be had.
        """
        found = self._askers.get(task)
        if found is not None and found.is_open:
            return found
        if self._caller.transport == "grpc" or not available():
            return None
        with self._lock:
            if self._closed:
                raise CancelledError(message=f"The channels to {task} and others were closed")
            until = self._without.get(task)
            if until is not None and time.monotonic() < until:
                return None
            dialling = self._dialling.setdefault(task, threading.Lock())
        with dialling:
            found = self._askers.get(task)
            if found is not None and found.is_open:
                return found
            return self._dial(task)

    def peek(self, task: str) -> Asker | None:
        """The channel to a task, if one is open."""
        found = self._askers.get(task)
        return found if found is not None and found.is_open else None

    def _dial(self, task: str) -> Asker | None:
        caller = self._caller
        place = self._locate(task)
        if place is None:
            self._do_without(task, "it has none")
            return None
        address, incarnation = place
        must = caller.transport if caller.transport != "auto" else ""
        if must in ("unix", "shm") and not address.is_here:
            raise FailedPreconditionError(
                message=f"Transport {must!r} was asked for, but {task} is on another host"
            )
        try:
            opened = dial(
                address,
                task=caller.task,
                incarnation=caller.incarnation,
                expected_task=task,
                expected_incarnation=incarnation,
                token=caller.token,
                tls=caller.tls,
                transport="unix" if must == "shm" else must or "auto",  # type: ignore[arg-type]  # one of them
                timeout_s=DIAL_TIMEOUT_S,
            )
        except UnavailableError as error:
            if must:
                raise
            self._do_without(task, str(error))
            return None
        asker = Asker(opened, reactor, caller.arena)
        with self._lock:
            if not self._closed:
                self._askers[task] = asker
                return asker
        asker.close()
        raise CancelledError(message=f"The channels to {task} and others were closed")

    def _do_without(self, task: str, reason: str) -> None:
        _log.info("No tensor channel to %s, gRPC is used: %s", task, reason)
        with self._lock:
            self._without[task] = time.monotonic() + RETRY_S

    def close(self, error: OpError | None = None) -> None:
        """Closes all channels, which ends what is asked for over them; may be called again."""
        with self._lock:
            self._closed = True
            askers, self._askers = list(self._askers.values()), {}
        for asker in askers:
            asker.close(error or CancelledError(message="The channels of this task were closed"))


def require_transport(transport: Any) -> Transport:
    """The transport as asked for.

    Raises:
        FailedPreconditionError: It is none of them.
    """
    if transport not in TRANSPORTS:
        raise FailedPreconditionError(
            message=f"The transport {transport!r} is none of {', '.join(TRANSPORTS)}"
        )
    return transport  # type: ignore[no-any-return]  # checked

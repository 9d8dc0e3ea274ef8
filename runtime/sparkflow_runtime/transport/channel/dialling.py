"""Opens a tensor channel to another task: connects and runs the dialler's handshake."""

from __future__ import annotations

import socket
import ssl
import struct
import sys
import time
from typing import Final

from sparkflow_runtime.errors import (
    FailedPreconditionError,
    OpError,
    PermissionDeniedError,
    UnauthenticatedError,
    UnavailableError,
)
from sparkflow_runtime.security import Tls
from sparkflow_runtime.transport.channel import handshake, opening, records, sockets
from sparkflow_runtime.transport.channel.address import ChannelAddress
from sparkflow_runtime.transport.channel.handshake import Dialogue, Self
from sparkflow_runtime.transport.channel.opening import Opened

_TIME: Final = struct.Struct("@ll")


def dial(
    address: ChannelAddress,
    me: Self,
    *,
    expected_task: str,
    expected_incarnation: int | None = None,
    timeout_s: float,
) -> Opened:
    """Opens a channel. Blocks for at most `timeout_s`, not counting the time of name resolution.

    Args:
        address: The other task's listener.
        me: The dialling task and its transport: "auto" uses the unix socket if it can be reached,
            otherwise TCP. A unix socket needs no TLS, as nobody can eavesdrop on it.
        expected_task: The task that must answer.
        expected_incarnation: Its incarnation; None for any.
        timeout_s: Deadline for everything together.

    Raises:
        UnavailableError: Nobody answers in time.
        FailedPreconditionError: Another task or another version answers, or something that does not
            speak the protocol; only one side uses TLS; or "unix" was requested and there is no unix
            socket.
        AbortedError: The task answers in another incarnation: it was restarted.
        UnauthenticatedError: The tokens differ, or the certificate is invalid.
        PermissionDeniedError: The unix socket belongs to another user.
        OpError: Any other refusal by the other side.
    """
    is_unix_needed = me.transport in ("unix", "shm")
    deadline = time.monotonic() + timeout_s
    if is_unix_needed or (me.transport == "auto" and address.is_here):
        peer = f"Task {expected_task} at the unix socket {address.unix_name!r}"
        link = _connect_unix(address, peer, deadline, needed=is_unix_needed)
        if link is not None:
            words = handshake.dialler(me, expected_task, expected_incarnation, peer)
            return _converse(link, words, peer, deadline)
    peer = f"Task {expected_task} at {address}"
    may_record = me.tls is not None and records.available()
    words = handshake.dialler(me, expected_task, expected_incarnation, peer, may_record)
    link = _connect_tcp(address, peer, deadline)
    if me.tls is not None:
        link = _within(link, me.tls, address.host)
    return _converse(link, words, peer, deadline)


def _connect_unix(
    address: ChannelAddress, peer: str, deadline: float, *, needed: bool
) -> socket.socket | None:
    """Returns the connected unix socket; None if there is none and it is not required.

    Raises:
        FailedPreconditionError: It is required and there is none.
        PermissionDeniedError: It is required and belongs to another user.
        UnavailableError: It is required and nobody listens, or too many callers are being admitted.
    """
    if sys.platform != "linux" or not address.unix_name:
        if needed:
            raise FailedPreconditionError(
                message=f"{peer} cannot be reached: it has no unix socket, or this system has none"
            )
        return None
    link = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        # If the listen queue is full, a connect with Python's timeout fails at once.
        link.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, _time(_left(deadline)))
        link.connect(address.unix_address)
        link.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, _time(0))
        if sockets.is_same_user(link):
            sockets.prepare(link)
            return link
        error: OSError | None = None
    except OSError as caught:
        error = caught
    except BaseException:
        link.close()
        raise
    link.close()
    if not needed:
        return None  # Another container or another user: TCP reaches them as well.
    if error is None:
        raise PermissionDeniedError(message=f"{peer} runs as another user: use TCP")
    raise UnavailableError(message=f"{peer} cannot be reached: {error}") from error


def _time(seconds: float) -> bytes:
    """Returns a `struct timeval`; 0 is no deadline."""
    return _TIME.pack(int(seconds), int(seconds % 1 * 1e6))


def _connect_tcp(address: ChannelAddress, peer: str, deadline: float) -> socket.socket:
    """Returns a socket connected to the first of the host's addresses that answers."""
    try:
        places = socket.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
    except (OSError, ValueError) as error:  # ValueError: not a host name
        raise UnavailableError(message=f"{peer} cannot be reached: {error}") from error
    failure: OSError | None = None
    for number, (family, kind, protocol, _, place) in enumerate(places):
        link = socket.socket(family, kind, protocol)
        try:
            sockets.prepare(link)
            # An address that drops all packets leaves time for the others.
            link.settimeout(_left(deadline) / (len(places) - number))
            link.connect(place)
        except OSError as error:
            link.close()
            failure = error
        except BaseException:
            link.close()
            raise
        else:
            return link
    raise UnavailableError(message=f"{peer} cannot be reached: {failure}") from failure


def _within(link: socket.socket, tls: Tls, host: str) -> ssl.SSLSocket:
    """Returns the connection wrapped in TLS, before TLS's handshake."""
    try:
        return tls.client_context().wrap_socket(
            link, server_hostname=tls.server_name or host, do_handshake_on_connect=False
        )
    except BaseException:
        link.close()
        raise


def _converse(
    link: socket.socket | ssl.SSLSocket, words: Dialogue, peer: str, deadline: float
) -> Opened:
    """Runs the dialler's side of the handshake; closes the socket if it fails."""
    steps = opening.open_channel(link, words)
    try:
        with sockets.Selector() as selector:
            selector.register(link, next(steps))
            while True:
                if not selector.select(_left(deadline)):
                    raise TimeoutError
                selector.modify(link, next(steps))
    except StopIteration as end:
        opened: Opened = end.value
        return opened
    except BaseException as error:
        link.close()
        if isinstance(error, OSError):
            raise _explained(error, peer) from error
        raise


def _left(deadline: float) -> float:
    left_s = deadline - time.monotonic()
    if left_s <= 0:
        raise TimeoutError
    return left_s


def _explained(error: OSError, peer: str) -> OpError:
    """Returns the error that a failure of the socket means."""
    if isinstance(error, TimeoutError):
        return UnavailableError(message=f"{peer} did not answer in time")
    if isinstance(error, ssl.SSLCertVerificationError):
        return UnauthenticatedError(
            message=f"{peer} presents an invalid certificate: {error.verify_message}"
        )
    if isinstance(error, ssl.SSLError) and "_ALERT_" in (error.reason or ""):
        return UnauthenticatedError(
            message=f"{peer} rejects this task's certificate or TLS version: {error.reason}"
        )
    if isinstance(error, ssl.SSLError) and not isinstance(error, ssl.SSLEOFError):
        return FailedPreconditionError(
            message=f"{peer} cannot set up TLS with this task: {error.reason}. "
            "Do all tasks have tls=...?"
        )
    return UnavailableError(message=f"{peer} cannot be reached: {error}")

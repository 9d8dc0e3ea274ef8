"""gRPC channels and servers with our options: sizes, keep-alive, tokens.

Services are tables of method name -> handler over protobuf messages (or ready bytes); there is no
generated service code.
"""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, InvalidStateError
from dataclasses import dataclass
from typing import Any, Final

import grpc

from sparkflow_runtime import security
from sparkflow_runtime.errors import CancelledError, OpError, UnavailableError
from sparkflow_runtime.security.strangers import strangers
from sparkflow_runtime.transport import status
from sparkflow_runtime.transport.sums import checked, with_sum
from sparkflow_runtime.transport.threads import MAX_THREADS, DaemonThreads

MAX_MESSAGE_BYTES: Final = (1 << 31) - 1
"""protobuf's own limit."""

_OPTIONS: Final = (
    ("grpc.max_receive_message_length", MAX_MESSAGE_BYTES),
    ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
    ("grpc.so_reuseport", 0),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.http2.min_ping_interval_without_data_ms", 1_000),
    ("grpc.enable_http_proxy", 0),
    # A restarted task is reached within two seconds; gRPC's own limit is two minutes.
    ("grpc.initial_reconnect_backoff_ms", 200),
    ("grpc.max_reconnect_backoff_ms", 2_000),
)


@dataclass(frozen=True, slots=True)
class Patience:
    """When one side of a connection gives up on a silent peer: keep-alive time and timeout.

    The answer needs no Python: a peer that computes answers; one that is stopped or unreachable
    does not.

    Attributes:
        ask_s: Seconds of silence after which it sends a ping.
        wait_s: Seconds without an answer after which the connection is closed.
    """

    ask_s: float = 20.0
    wait_s: float = 10.0

    def options(self) -> tuple[tuple[str, int], ...]:
        """Returns the gRPC options."""
        wait_ms = round(self.wait_s * 1000)
        return (
            ("grpc.keepalive_time_ms", round(self.ask_s * 1000)),
            ("grpc.keepalive_timeout_ms", wait_ms),
            ("grpc.http2.ping_timeout_ms", wait_ms),
        )


_PATIENCE: Final = Patience()
"""A peer that vanished without closing its socket is noticed within half a minute."""
HANDSHAKE_TIMEOUT_S: Final = 10.0
"""Time within which a new connection must complete its handshake."""
_MOST_CONNECTIONS: Final = 1 << 16
_OTHER_DESCRIPTORS: Final = 256
"""Number of descriptors that connections leave to the rest of the process, including channels."""
_PROBE: Final = "/sparkflow_runtime.protos.Probe/Ready"


@dataclass(frozen=True, slots=True)
class Method:
    """An rpc of a service.

    Attributes:
        handle: `(request) -> response`, or an iterator of responses when `streams`.
        request: The protobuf class of the request.
        streams: Whether the response is a stream.
        wants_context: Whether `handle` has the rpc's context as its second parameter.
    """

    handle: Callable[..., Any]
    request: Any
    streams: bool = False
    wants_context: bool = False


def channel(
    address: str, tls: security.Tls | None = None, patience: Patience = _PATIENCE
) -> grpc.Channel:
    """Returns a separate channel to `host:port`, optionally with TLS; connects on first use."""
    options: tuple[tuple[str, Any], ...] = (
        *_OPTIONS,
        *patience.options(),
        ("grpc.use_local_subchannel_pool", 1),
    )
    if tls is None:
        return grpc.insecure_channel(address, options=options)
    if tls.server_name:
        options += (("grpc.ssl_target_name_override", tls.server_name),)
    return grpc.secure_channel(address, tls.channel_credentials(), options=options)


def handlers(service: str, methods: Mapping[str, Method]) -> grpc.GenericRpcHandler[Any, Any]:
    """Returns the methods as a gRPC handler; their errors become the rpc's status."""
    table = {name: _handler(method) for name, method in methods.items()}
    return grpc.method_handlers_generic_handler(service, table)


def _serialize(message: Any) -> bytes:
    return with_sum(message if isinstance(message, bytes) else message.SerializeToString())


def _parser(parse: Callable[[bytes], Any] | None) -> Callable[[bytes], Any]:
    """Returns the parser of a message that verifies the checksum; None for plain bytes."""
    return checked if parse is None else lambda data: parse(bytes(checked(data)))


def _handler(method: Method) -> grpc.RpcMethodHandler[Any, Any]:
    parse = _parser(method.request.FromString)

    def call(request: Any, context: grpc.ServicerContext) -> Any:
        strangers.admit(context.peer())
        try:
            return (
                method.handle(request, context) if method.wants_context else method.handle(request)
            )
        except Exception as error:
            status.abort(context, error)

    def stream(request: Any, context: grpc.ServicerContext) -> Iterator[Any]:
        strangers.admit(context.peer())
        try:
            yield from method.handle(request, context)
        except Exception as error:
            status.abort(context, error)

    if method.streams:
        return grpc.unary_stream_rpc_method_handler(stream, parse, _serialize)
    return grpc.unary_unary_rpc_method_handler(call, parse, _serialize)


def max_connections() -> int:
    """Returns how many connections a server holds; more are closed at once, and clients retry.

    Otherwise strangers that connect and send nothing would use up the process's descriptors.
    """
    return max(64, min(allowed_descriptors() - _OTHER_DESCRIPTORS, _MOST_CONNECTIONS))


def allowed_descriptors() -> int:
    """Returns this process's limit of descriptors; a large number if there is none."""
    if sys.platform == "win32":  # which has no such limit
        return 2 * _MOST_CONNECTIONS
    import resource

    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return 2 * _MOST_CONNECTIONS if soft == resource.RLIM_INFINITY else soft


class RpcServer:
    """A gRPC server on one port. `stop` may be called more than once, from any thread.

    A client that sends nothing for `HANDSHAKE_TIMEOUT_S` after connecting is disconnected;
    `max_connections` are held at a time, half of them reserved for clients that have made an
    authorized call.
    """

    def __init__(
        self,
        services: list[grpc.GenericRpcHandler[Any, Any]],
        *,
        host: str,
        port: int,
        token: str | None,
        insecure: bool = False,
        tls: security.Tls | None = None,
        patience: Patience = _PATIENCE,
    ) -> None:
        security.require_credentials(host, token, insecure)
        interceptors: list[grpc.ServerInterceptor[Any, Any]] = []
        guard = security.TokenInterceptor() if token is not None else None
        if guard is not None:
            interceptors.append(guard)
        self._threads = DaemonThreads(MAX_THREADS, "rpc")
        self._started = False
        self._stopped = threading.Event()
        most = max_connections()
        self._most_strangers = most // 2
        self._server = grpc.server(
            self._threads,  # type: ignore[arg-type]  # any executor does; the stubs ask for a pool
            handlers=services,
            interceptors=interceptors,
            options=(
                *_OPTIONS,
                *patience.options(),
                ("grpc.server_handshake_timeout_ms", round(HANDSHAKE_TIMEOUT_S * 1000)),
                ("grpc.max_allowed_incoming_connections", most),
            ),
        )
        bracketed = f"[{host}]" if ":" in host and not host.startswith("[") else host
        try:
            place = f"{bracketed}:{port}"
            self.port = (
                self._server.add_insecure_port(place)
                if tls is None
                else self._server.add_secure_port(place, tls.server_credentials())
            )
        except RuntimeError as error:
            raise UnavailableError(
                message=f"Cannot listen on {bracketed}:{port}: {error}. "
                "Is the port in use? Port 0 takes a free one"
            ) from error
        if self.port == 0:
            raise UnavailableError(
                message=f"Cannot listen on {bracketed}:{port}. Is the port in use?"
            )
        try:
            if guard is not None and token is not None:
                if isinstance(token, security.UserToken):
                    token = token.at(self.port)  # it has another form at each port
                guard.expect(token)
        except BaseException:
            self.stop()
            raise

    def start(self) -> None:
        """Begins to answer."""
        strangers.watch(self.port, self._most_strangers)
        self._server.start()
        self._started = True

    def stop(self, grace_s: float = 0.5) -> None:
        """Refuses new calls and ends running ones after `grace_s` seconds; returns when done.

        The port is then free, also if the server was never started.
        """
        if not self._started:  # gRPC would keep the port of a server that was never started
            self._started = True
            self._server.start()
            grace_s = 0
        self._server.stop(grace_s).wait(grace_s + 5)
        strangers.forget(self.port)
        self._threads.shutdown(cancel_futures=True)
        self._stopped.set()

    def wait(self, timeout_s: float | None = None) -> bool:
        """Blocks until `stop` has been called; False when `timeout_s` passed first."""
        return self._stopped.wait(timeout_s)


def await_ready(link: grpc.Channel, peer: str, timeout_s: float) -> None:
    """Returns once the other end answers; it may still be starting.

    Raises:
        UnavailableError: Nothing answered for `timeout_s` seconds.
    """
    # Any answer will do, even a refusal. Not grpc.channel_ready_future: its thread runs for another
    # 0.2 s and raises an error that nobody can catch if the channel is closed meanwhile (grpcio
    # 1.85).
    probe = link.unary_unary(_PROBE, bytes, bytes)
    try:
        probe(b"", timeout=timeout_s, wait_for_ready=True)
    except grpc.RpcError as error:
        if error.code() is grpc.StatusCode.DEADLINE_EXCEEDED:
            raise UnavailableError(
                message=f"{peer} cannot be reached: nothing answered for {timeout_s:g} s"
                f"{tls_trouble(link)}"
            ) from None
    except ValueError as error:  # raised by grpc if the channel was closed
        raise CancelledError(message=f"The channel to {peer} was closed: {error}") from error


def tls_trouble(link: grpc.Channel) -> str:
    """Returns a hint to append to "nothing answered" if TLS may be the reason; else "".

    gRPC retries connecting whatever the reason; a call that does not wait reveals it.
    """
    try:
        link.unary_unary(_PROBE, bytes, bytes)(b"", timeout=1.0)
    except grpc.RpcError as error:
        details: str = getattr(error, "details", str)() or ""
        last = details.partition("last error: ")[2]
        if any(sign in last for sign in ("SSL", "Tls", "Socket closed")):
            return f" ({last}). Do both sides have tls=..., with certificates of one authority?"
    except ValueError:  # raised by grpc if the channel was closed
        pass
    return ""


def when_ready(link: grpc.Channel, peer: str) -> Future[None]:
    """Returns a future that is done once the other end answers; it may be cancelled.

    It fails with CancelledError when the channel is closed.
    """
    ready: Future[None] = Future()
    probe = link.unary_unary(_PROBE, bytes, bytes)

    def ask() -> None:
        try:
            call = probe.future(b"", wait_for_ready=True)
        except ValueError as error:  # raised by grpc if the channel was closed
            ready.set_exception(
                CancelledError(message=f"The channel to {peer} was closed: {error}")
            )
            return
        call.add_done_callback(answered)
        cancel: Any = call.cancel  # grpc's type stubs have no type for it
        ready.add_done_callback(lambda _: cancel())

    def answered(call: Any) -> None:
        code = call.code()
        if ready.done():
            return
        if code is grpc.StatusCode.UNAVAILABLE:
            ask()  # The connection was lost during the call.
        elif code is grpc.StatusCode.CANCELLED:
            error = CancelledError(message=f"The channel to {peer} was closed")
            with contextlib.suppress(InvalidStateError):
                ready.set_exception(error)
        else:
            with contextlib.suppress(InvalidStateError):
                ready.set_result(None)

    ask()
    return ready


class Stub:
    """Client of one service at one address. Safe to use from several threads.

    Attributes:
        peer: The other side's name in messages.
        is_known: Set by the owner once the other side is known to have the token and the service: a
            later refusal means that the call was changed in transit, and counts as a broken
            connection.
        found_nobody: Whether a call did not reach the other side. gRPC waits before it reconnects,
            and until then fails every call in the same way, even if a server has started: only
            another channel notices.
    """

    def __init__(self, link: grpc.Channel, service: str, token: str | None, peer: str) -> None:
        self._channel = link
        self._service = service
        self._metadata = security.metadata(token)
        self.peer = peer
        self.is_known = False
        self.found_nobody = False
        self._methods: dict[tuple[str, Any], Any] = {}

    def call(self, name: str, request: Any, response: Any, timeout_s: float | None = None) -> Any:
        """Calls a unary rpc.

        Raises:
            OpError: Raised by the other side, or UnavailableError if it cannot be reached.
        """
        method = self._unary(name, response)
        try:
            return self._invoke(method, request, timeout=timeout_s)
        except grpc.RpcError as error:
            raise self.error_of(error) from None

    def error_of(self, error: Any) -> OpError:
        """Returns the OpError for a grpc.RpcError of one of its calls, see `status.from_rpc`."""
        self.found_nobody |= status.is_unreached(error)
        return status.from_rpc(error, self.peer, self.is_known)

    def future(self, name: str, request: Any, response: Any, timeout_s: float | None = None) -> Any:
        """Returns a unary rpc as a grpc.Future; its errors are grpc's, see `error_of`.

        The rpc is cancelled when the future is garbage-collected, unless it has a callback.
        """
        return self._invoke(self._unary(name, response).future, request, timeout=timeout_s)

    def post(self, name: str, request: Any, response: Any, timeout_s: float) -> None:
        """Sends a unary rpc and ignores its answer; does nothing if the channel is closed."""
        with contextlib.suppress(CancelledError):
            self.future(name, request, response, timeout_s).add_done_callback(_forget)

    def close(self) -> None:
        """Closes the channel, which ends the calls on it; may be called again."""
        self._channel.close()

    def stream(self, name: str, request: Any, response: Any) -> Any:
        """Returns a response-streaming rpc as a cancellable iterator; its errors are grpc's."""
        method = self._channel.unary_stream(
            f"/{self._service}/{name}", _serialize, _parser(response)
        )
        return self._invoke(method, request)

    def _invoke(self, method: Any, request: Any, **options: Any) -> Any:
        try:
            return method(request, metadata=self._metadata, **options)
        except ValueError as error:  # raised by grpc if the channel was closed
            raise CancelledError(
                message=f"The channel to {self.peer} was closed: {error}"
            ) from error

    def _unary(self, name: str, response: Any) -> Any:
        method = self._methods.get((name, response))
        if method is None:
            method = self._methods[name, response] = self._channel.unary_unary(
                f"/{self._service}/{name}", _serialize, _parser(response)
            )
        return method


def _forget(_: Any) -> None:
    """Keeps a posted rpc alive until it ends."""

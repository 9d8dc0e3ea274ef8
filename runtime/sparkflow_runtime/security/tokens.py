"""Job tokens, the loopback rule, and keeping secrets out of logs."""

from __future__ import annotations

import hmac
import ipaddress
import secrets
from collections.abc import Callable
from typing import Any, Final

import grpc

from sparkflow_runtime.errors import PermissionDeniedError

TOKEN_KEY: Final = "sparkflow-token"  # noqa: S105 - the name of the header, not a token
TOKEN_BYTES: Final = 32


def new_token() -> str:
    """Returns a new 256-bit token as text."""
    return secrets.token_hex(TOKEN_BYTES)


def metadata(token: str | None) -> tuple[tuple[str, str], ...]:
    """Returns the rpc metadata that carries a token; empty without one."""
    return () if token is None else ((TOKEN_KEY, token),)


def is_loopback(host: str) -> bool:
    """Whether a host name or address is reachable from this machine only."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def host_of(address: str) -> str:
    """The host of `host:port`."""
    return address.rpartition(":")[0]


def require_credentials(host: str, token: str | None, insecure: bool) -> None:
    """The loopback rule: a server that others can reach needs credentials.

    Raises:
        PermissionDeniedError: `host` is not loopback, there is no token, and nobody said
            `insecure=True`.
    """
    if not token and not insecure and not is_loopback(host):
        raise PermissionDeniedError(
            message=f"A server on {host!r} can be reached from other machines and has no "
            "credentials: pass a token, bind to a loopback address, or say insecure=True"
        )


class TokenInterceptor(grpc.ServerInterceptor):  # type: ignore[type-arg]  # generic in stubs only
    """Rejects every rpc without the token, before its request is read or parsed."""

    def __init__(self) -> None:
        self._token = b""

        def refuse(requests: Any, context: grpc.ServicerContext) -> Any:
            context.abort(grpc.StatusCode.UNAUTHENTICATED, "The job's token is missing or wrong")

        # As a stream the request is not received before the handler asks for it.
        self._refuse = grpc.stream_unary_rpc_method_handler(refuse)

    def expect(self, token: str) -> None:
        """Sets the token, before the server is started."""
        self._token = token.encode()

    def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], grpc.RpcMethodHandler[Any, Any] | None],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> grpc.RpcMethodHandler[Any, Any] | None:
        """Forwards the call if its token is correct."""
        for key, value in handler_call_details.invocation_metadata or ():
            if key == TOKEN_KEY and hmac.compare_digest(str(value).encode(), self._token):
                return continuation(handler_call_details)
        return self._refuse


def redact(text: str, token: str | None) -> str:
    """Returns `text` with the token redacted, for logs and error reports."""
    return text.replace(token, "<token>") if token else text

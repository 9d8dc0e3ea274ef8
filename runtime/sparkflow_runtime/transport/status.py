"""Converts errors to and from gRPC status: the same code and message at both ends."""

from __future__ import annotations

from typing import Any, Final, NoReturn
from urllib.parse import quote

import grpc

from sparkflow_runtime.errors import OpError, UnavailableError, from_status, to_status

MAX_DETAILS: Final = 6000
"""gRPC carries the message percent-encoded in a header; headers are limited to 8 KiB in all."""
RAISED_KEY: Final = "sparkflow-raised"
"""The trailing metadata that distinguishes errors raised by a handler from gRPC's own."""

_UNREADABLE: Final = {
    "Exception deserializing request!": "The request to {}",
    "Exception deserializing response!": "The response of {}",
}
"""gRPC's texts for messages that cannot be parsed. For our own messages that means they were
changed in transit, see `sums`."""

_OF_OURS: Final = "Exception "
"""Prefix of grpcio's text for a handler that failed other than by `abort`."""
_TOO_LARGE: Final = "eceived message larger than max"
"""Never true of a message that was sent: the limit is protobuf's own."""

_REFUSED: Final = (grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.UNIMPLEMENTED)
"""Codes for calls without the token, and for unknown methods."""

_BY_NUMBER = {code.value[0]: code for code in grpc.StatusCode}
_PLAIN = "".join(chr(code) for code in range(0x20, 0x7F) if chr(code) != "%")


def abort(context: grpc.ServicerContext, error: BaseException) -> NoReturn:
    """Ends the rpc with the error's code and message."""
    code, text = to_status(error)
    context.set_trailing_metadata(((RAISED_KEY, "1"),))
    context.abort(_BY_NUMBER[int(code)], clip(text))


def clip(text: str) -> str:
    """Returns the text, shortened in the middle if it is too long for a status."""
    clipped = text = printable(text)
    half = len(text)
    while (size := len(quote(clipped, safe=_PLAIN))) > MAX_DETAILS:
        half = min(half - 1, half * MAX_DETAILS // size, len(text) // 2)
        cut = len(text) - 2 * half
        clipped = f"{text[:half]}\n[... {cut} characters cut ...]\n{text[len(text) - half :]}"
    return clipped


def printable(text: str) -> str:
    """Returns the text without characters that UTF-8, and so protobuf and gRPC, cannot encode."""
    return text.encode("utf-8", "replace").decode()


def from_rpc(error: Any, peer: str, is_known: bool = False) -> OpError:
    """Returns the exception for a failed rpc: the other side's, or that it cannot be reached.

    Args:
        error: A grpc.RpcError that is also a grpc.Call.
        peer: The other side's name in the message if it could not be reached.
        is_known: Whether it is known to have the token and the service: a refused call was then
            changed in transit, which is possible for headers, as they have no checksum.
    """
    code = error.code().value[0]
    text = error.details() or error.code().name
    raised = _is_raised(error)
    if is_unreached(error):
        return UnavailableError(message=f"{peer} cannot be reached: {text}")
    if error.code() is grpc.StatusCode.CANCELLED and not raised and text == "CANCELLED":
        # A stopping server ends calls this way; calls that we cancel have grpc's own text.
        return UnavailableError(message=f"{peer} stopped serving")
    if error.code() is grpc.StatusCode.INTERNAL and not raised and text in _UNREADABLE:
        return UnavailableError(
            message=f"{_UNREADABLE[text].format(peer)} was corrupted in transit"
        )
    if not raised and _is_of_the_connection(error.code(), text):
        return UnavailableError(message=f"The connection to {peer} broke: {text}")
    if is_known and not raised and error.code() in _REFUSED:
        return UnavailableError(
            message=f"The connection to {peer} broke: it refuses a call that it knows: {text}"
        )
    return from_status(code, text)


def is_unreached(error: Any) -> bool:
    """Whether an rpc failed because the other side could not be reached, see `from_rpc`."""
    return error.code() is grpc.StatusCode.UNAVAILABLE and not _is_raised(error)


def _is_raised(error: Any) -> bool:
    return any(key == RAISED_KEY for key, _ in error.trailing_metadata() or ())


def _is_of_the_connection(code: grpc.StatusCode, text: str) -> bool:
    """Whether gRPC itself rejected the data: not HTTP/2, or not a message."""
    match code:
        case grpc.StatusCode.INTERNAL:
            return True
        case grpc.StatusCode.UNKNOWN:
            return not text.startswith(_OF_OURS)
        case grpc.StatusCode.RESOURCE_EXHAUSTED:
            return _TOO_LARGE in text
        case _:
            return False

"""Errors to and from gRPC status: the same numbers, the same text on both ends."""

from __future__ import annotations

from typing import Any, Final, NoReturn

import grpc

from sparkflow_runtime.errors import OpError, UnavailableError, from_status, to_status

MAX_DETAILS: Final = 6000
"""gRPC carries the text in a header, and headers are limited to 8 KiB in all."""

_BY_NUMBER = {code.value[0]: code for code in grpc.StatusCode}


def abort(context: grpc.ServicerContext, error: BaseException) -> NoReturn:
    """Ends the rpc with the error's code and text."""
    code, text = to_status(error)
    context.abort(_BY_NUMBER[int(code)], clip(text))


def clip(text: str) -> str:
    """The text, cut in the middle when it is too long for a status."""
    if len(text) <= MAX_DETAILS:
        return text
    half = MAX_DETAILS // 2
    return f"{text[:half]}\n[... {len(text) - 2 * half} characters cut ...]\n{text[-half:]}"


def from_rpc(error: Any, peer: str) -> OpError:
    """The exception for a failed rpc.

    Args:
        error: A grpc.RpcError that is also a grpc.Call.
        peer: How the text names the other side when it could not be reached.
    """
    code = error.code().value[0]
    text = error.details() or error.code().name
    if error.code() is grpc.StatusCode.UNAVAILABLE and "[[node" not in text:
        return UnavailableError(message=f"{peer} cannot be reached: {text}")
    return from_status(code, text)

"""What servers and sessions show to each other where the program names neither token nor TLS."""

from __future__ import annotations

import sys
from collections.abc import Iterable

from sparkflow_runtime.errors import PermissionDeniedError
from sparkflow_runtime.security.credentials import Credentials
from sparkflow_runtime.security.tokens import host_of, is_loopback
from sparkflow_runtime.security.user_token import user_token

_given: Credentials | None = None
_trusted: set[str] = set()
"""The places, `host:port`, that are shown what the process was given."""


def give_process(credentials: Credentials, addresses: Iterable[str]) -> None:
    """Has all servers and sessions of this process use these if they are given none.

    For processes that belong to one job as a whole. Call it before there is any. Sessions show them
    to the job's own servers, and to those of this process; no other learns them.

    Args:
        credentials: The job's.
        addresses: Where its servers are, `host:port` as programs name them.
    """
    global _given
    _given = credentials
    _trusted.update(addresses)


def trust(address: str) -> None:
    """Takes note of a server of this process at `host:port`."""
    _trusted.add(address)


def server_credentials(host: str, insecure: bool) -> Credentials:
    """Those of a server that listens on `host` and was given none.

    The process's own, which leave nobody out who has a right to come in; else this user's token on
    loopback, unless the server is to be `insecure`; else none.

    Raises:
        PermissionDeniedError: The user's token cannot be kept safely.
    """
    if _given is not None:
        return _given
    return Credentials() if insecure else _of_user(host)


def _of_user(host: str) -> Credentials:
    # Windows has neither users by number nor modes of files.
    guarded = is_loopback(host) and sys.platform != "win32"
    return Credentials(user_token()) if guarded else Credentials()


def session_credentials(address: str) -> Credentials:
    """Those that are shown to the server at `host:port` by who was given none."""
    if _given is not None and address in _trusted:
        return _given
    try:
        return _of_user(host_of(address))
    except PermissionDeniedError:
        return Credentials()  # the server may be one that asks for nothing

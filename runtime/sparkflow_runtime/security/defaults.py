"""The default credentials of servers and sessions, if the program gives neither token nor TLS."""

from __future__ import annotations

import sys
from collections.abc import Iterable

from sparkflow_runtime.errors import PermissionDeniedError
from sparkflow_runtime.security.credentials import Credentials
from sparkflow_runtime.security.tokens import host_of, is_loopback
from sparkflow_runtime.security.user_token import user_token

_given: Credentials | None = None
_trusted: set[str] = set()
"""The addresses, `host:port`, to which the process's credentials are sent."""


def give_process(credentials: Credentials, addresses: Iterable[str]) -> None:
    """Sets the default credentials of all servers and sessions of this process.

    For processes that belong entirely to one job. Call it before creating any. Sessions send them
    only to the job's servers and to those of this process.

    Args:
        credentials: The job's credentials.
        addresses: The addresses of its servers, `host:port` as used in programs.
    """
    global _given
    _given = credentials
    _trusted.update(addresses)


def trust(address: str) -> None:
    """Registers a server of this process at `host:port`."""
    _trusted.add(address)


def server_credentials(host: str, insecure: bool) -> Credentials:
    """Returns the credentials of a server that listens on `host` and was given none.

    The process's own, which exclude no authorized peer; else this user's token on loopback, unless
    the server is `insecure`; else none.

    Raises:
        PermissionDeniedError: The user's token cannot be stored safely.
    """
    if _given is not None:
        return _given
    return Credentials() if insecure else _of_user(host)


def _of_user(host: str) -> Credentials:
    # Windows has neither users by number nor modes of files.
    guarded = is_loopback(host) and sys.platform != "win32"
    return Credentials(user_token()) if guarded else Credentials()


def session_credentials(address: str) -> Credentials:
    """Returns the credentials for the server at `host:port` of a session that was given none."""
    if _given is not None and address in _trusted:
        return _given
    try:
        return _of_user(host_of(address))
    except PermissionDeniedError:
        return Credentials()  # the server may require none

"""The user's token on this machine, for servers on loopback without another token.

It is created on first use in a file that only this user can read, so that only this user's programs
find it.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import os
import secrets
import stat
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Final

from sparkflow_runtime.errors import PermissionDeniedError
from sparkflow_runtime.security.tokens import TOKEN_BYTES, is_loopback, new_token

_FILE: Final = "token"
_RUNTIME: Final = "/run/user/{}"
"""XDG_RUNTIME_DIR of a logged-in user, by user id."""
_FOLDER_FLAGS: Final = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_NOFOLLOW", 0)


class UserToken(str):
    """The user's own token. What a server receives is derived from it and valid for its port only.

    Over gRPC a token is sent in plain text. Any user can listen on a free loopback port, so a
    session may connect to another user's server; that must not learn what grants access elsewhere.
    """

    __slots__ = ()

    def at(self, port: int) -> str:
        """Returns the token that the server at a port expects."""
        return hmac.new(self.encode(), f"port {port}".encode(), hashlib.sha256).hexdigest()


def shown_at(token: str | None, address: str) -> str | None:
    """Returns the text to send for a token to the server at `host:port`.

    A job's token itself; for the user's own a text valid for this port only, and only if the server
    is on loopback.
    """
    if not isinstance(token, UserToken):
        return token
    host, _, port = address.rpartition(":")
    return token.at(int(port)) if is_loopback(host) and port.isdecimal() else None


def user_token() -> UserToken:
    """Returns this user's token on this machine; the same for all programs of the user.

    It is stored in `sparkflow/token` in `$XDG_RUNTIME_DIR` or, if that is unset, as in cron jobs,
    in `/run/user/<uid>`; or in `sparkflow-<uid>/token` in the directory for temporary files if
    neither is a directory of this user, or if one was created there earlier.

    Raises:
        PermissionDeniedError: The folder cannot be created, or others can write to it or to the
            file.
    """
    folder = _folder()
    try:
        with contextlib.suppress(FileExistsError):
            folder.mkdir(mode=0o700)
        opened = os.open(folder, _FOLDER_FLAGS)
        try:
            _require_private(folder, os.fstat(opened))
            return _token_in(folder, opened)
        finally:
            os.close(opened)
    except OSError as error:
        raise PermissionDeniedError(
            message=f"This user's token cannot be kept in {folder}: {error}. Set XDG_RUNTIME_DIR "
            "to a directory of this user's, pass a token, or say insecure=True"
        ) from error


def _folder() -> Path:
    usual = _RUNTIME.format(os.geteuid())
    named = os.environ.get("XDG_RUNTIME_DIR", "").rstrip("/")
    if named != usual and _is_own(named):
        return Path(named, "sparkflow")
    temporary = Path(tempfile.gettempdir(), f"sparkflow-{os.geteuid()}")
    folder = Path(usual, "sparkflow")
    if not _is_own(usual):
        return temporary
    # A cron job may have created one before the user's login, which creates the usual directory.
    return temporary if not _has_token(folder) and _has_token(temporary) else folder


def _is_own(path: str) -> bool:
    """Whether this is a directory of this user.

    `su` and `sudo -E` keep another user's, in which root would create files of its own.
    """
    with contextlib.suppress(OSError):
        found = os.stat(path)
        return os.path.isabs(path) and stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid()
    return False


def _has_token(folder: Path) -> bool:
    # Any user can create a link in the temporary directory to a file of this user.
    return not folder.is_symlink() and _is_own(str(folder)) and (folder / _FILE).is_file()


def _token_in(folder: Path, opened: int) -> UserToken:
    """Returns the token in an open folder; creates it if there is none."""
    while True:
        try:
            with open(_FILE, "rb", opener=_opener(opened)) as stream:
                _require_private(folder / _FILE, os.fstat(stream.fileno()))
                text = stream.read(2 * TOKEN_BYTES + 1)
        except FileNotFoundError:
            _make(opened)
            continue
        if len(text) != 2 * TOKEN_BYTES or not text.isalnum():
            raise OSError(f"{_FILE} is damaged: remove it")
        return UserToken(text.decode("ascii"))


def _make(opened: int) -> None:
    """Creates the file atomically, unless another process does so at the same time."""
    new = f".{_FILE}-{secrets.token_hex(8)}"
    try:
        with open(new, "xb", opener=_opener(opened)) as stream:
            stream.write(new_token().encode("ascii"))
        with contextlib.suppress(FileExistsError):
            os.link(new, _FILE, src_dir_fd=opened, dst_dir_fd=opened)
    finally:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(new, dir_fd=opened)


def _opener(folder: int) -> Callable[[str, int], int]:
    """Opens a file in an open folder; new ones are accessible only by this user."""
    return lambda name, flags: os.open(name, flags | os.O_NOFOLLOW, 0o600, dir_fd=folder)


def _require_private(path: Path, found: os.stat_result) -> None:
    if found.st_uid != os.geteuid():
        raise PermissionDeniedError(
            message=f"{path} belongs to user {found.st_uid}, not to this one ({os.geteuid()}): set "
            "XDG_RUNTIME_DIR to a directory of this user's, pass a token, or say insecure=True"
        )
    if stat.S_IMODE(found.st_mode) & 0o077:
        raise PermissionDeniedError(
            message=f"{path} has mode {stat.S_IMODE(found.st_mode):04o}, so others can read or "
            "change this user's token: remove it"
        )

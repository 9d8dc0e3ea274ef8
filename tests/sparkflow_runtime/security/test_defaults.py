"""What is shown where the program says nothing."""

from pathlib import Path

import pytest

from sparkflow_runtime.security import Credentials, defaults, user_token
from sparkflow_runtime.security.defaults import (
    give_process,
    server_credentials,
    session_credentials,
)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.setattr(defaults, "_given", None)
    return tmp_path


def test_loopback_has_the_users_token() -> None:
    for host in ("localhost", "127.0.0.1", "::1"):
        assert server_credentials(host, insecure=False) == Credentials(user_token())
        assert server_credentials(host, insecure=True) == Credentials()
    for address in ("localhost:1", "127.0.0.1:1", "[::1]:1"):
        assert session_credentials(address) == Credentials(user_token())


def test_elsewhere_there_is_none() -> None:
    assert server_credentials("0.0.0.0", insecure=False) == Credentials()
    assert session_credentials("example.com:1") == Credentials()


def test_what_a_process_was_given_counts_everywhere() -> None:
    mine = Credentials("a job's")
    give_process(mine)
    for host in ("localhost", "0.0.0.0"):
        assert server_credentials(host, insecure=True) is mine
        assert session_credentials(f"{host}:1") is mine


def test_a_session_goes_without_where_the_token_cannot_be_kept(folder: Path) -> None:
    (folder / "sparkflow").write_text("no folder")
    assert session_credentials("localhost:1") == Credentials()

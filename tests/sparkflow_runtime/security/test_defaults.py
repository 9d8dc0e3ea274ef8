"""The credentials if the program specifies none."""

from pathlib import Path

import pytest

from sparkflow_runtime.security import Credentials, defaults, user_token
from sparkflow_runtime.security.defaults import (
    give_process,
    server_credentials,
    session_credentials,
)
from sparkflow_runtime.server import Server


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    monkeypatch.setattr(defaults, "_given", None)
    monkeypatch.setattr(defaults, "_trusted", set())
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


def test_servers_of_a_process_have_what_it_was_given_and_its_job_alone_is_shown_it() -> None:
    mine = Credentials("a job's")
    give_process(mine, ["ps.example.com:1", "localhost:2"])
    for host in ("localhost", "0.0.0.0"):
        assert server_credentials(host, insecure=True) is mine
    for address in ("ps.example.com:1", "localhost:2"):
        assert session_credentials(address) is mine
    for address in ("ps.example.com:2", "other.example.com:1"):
        assert session_credentials(address) == Credentials()
    assert session_credentials("localhost:1") == Credentials(user_token())


def test_a_process_shows_what_it_was_given_to_servers_of_its_own() -> None:
    give_process(Credentials("a job's"), [])
    server = Server(None, "worker", 0, port=0)
    try:
        assert session_credentials(server.address) == Credentials("a job's")
    finally:
        server.stop()


def test_a_session_goes_without_where_the_token_cannot_be_kept(folder: Path) -> None:
    (folder / "sparkflow").write_text("no folder")
    assert session_credentials("localhost:1") == Credentials()

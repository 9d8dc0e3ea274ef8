"""The user's own token: where it is stored, who can read it, and what it opens."""

import contextlib
import os
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
import pytest

from sparkflow_runtime.errors import PermissionDeniedError, UnauthenticatedError
from sparkflow_runtime.master.client import open_session
from sparkflow_runtime.protos import worker_pb2
from sparkflow_runtime.security import TOKEN_KEY, UserToken, new_token, shown_at, user_token
from sparkflow_runtime.server import Server
from sparkflow_runtime.transport.channel.dialling import dial
from sparkflow_runtime.transport.channel.handshake import Self
from sparkflow_runtime.transport.peers import WORKER_SERVICE
from support.graphs import const, graph_def

NOBODY = 65534
MODULE = sys.modules[user_token.__module__]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of this test's token."""
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    return tmp_path / "sparkflow"


def test_it_is_made_once_and_for_this_user_only(folder: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        found = {each.result() for each in [pool.submit(user_token) for _ in range(64)]}
    assert len(found) == 1
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert [path.name for path in folder.iterdir()] == ["token"]
    assert stat.S_IMODE((folder / "token").stat().st_mode) == 0o600
    assert (folder / "token").stat().st_nlink == 1
    code = "from sparkflow_runtime.security import user_token; print(user_token())"
    other = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert other.stdout.strip() == user_token()


def test_without_a_runtime_directory_it_lies_among_temporary_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(MODULE, "_RUNTIME", "/missing/{}")
    found = user_token()
    assert (tmp_path / f"sparkflow-{os.geteuid()}" / "token").read_text() == found
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "missing"))
    assert user_token() == found


@pytest.mark.parametrize("end", ["", "/"])
@pytest.mark.parametrize("first", ["cron, before any login", "cron", "login"])
def test_jobs_of_cron_and_login_shells_have_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first: str, end: str
) -> None:
    runtime = tmp_path / "run" / "user"
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    place = str(runtime / "{}")
    monkeypatch.setattr(MODULE, "_RUNTIME", place)
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))

    def found(is_login: bool) -> str:
        with monkeypatch.context() as environment:
            environment.delenv("XDG_RUNTIME_DIR", raising=False)
            if is_login:
                environment.setenv("XDG_RUNTIME_DIR", place.format(os.geteuid()) + end)
            return user_token()

    if first != "cron, before any login":
        Path(place.format(os.geteuid())).mkdir(parents=True)
    one = found(first == "login")
    Path(place.format(os.geteuid())).mkdir(parents=True, exist_ok=True)
    assert found(first != "login") == one
    assert found(True) == found(False) == one


def test_a_link_among_temporary_files_does_not_lead_away_from_the_runtime_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Any user can create one, to a folder of this user that has a file with the name."""
    monkeypatch.setattr(MODULE, "_RUNTIME", str(tmp_path / "run-{}"))
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    Path(str(tmp_path / "run-{}").format(os.geteuid())).mkdir()
    other = tmp_path / "huggingface"
    other.mkdir()
    (other / "token").write_text("hf")
    (tmp_path / f"sparkflow-{os.geteuid()}").symlink_to(other)
    found = user_token()
    assert (tmp_path / f"run-{os.geteuid()}" / "sparkflow" / "token").read_text() == found


def test_the_runtime_directory_of_another_user_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path / "run"))  # as left by `sudo -E`
    (tmp_path / "run").mkdir()
    real = os.stat

    def stat_of(path: Any, *args: Any, **kwargs: Any) -> os.stat_result:
        found = real(path, *args, **kwargs)
        if path == str(tmp_path / "run"):
            return os.stat_result((*found[:4], os.geteuid() + 1, *found[5:]))
        return found

    monkeypatch.setattr(os, "stat", stat_of)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    found = user_token()
    assert list((tmp_path / "run").iterdir()) == []
    assert (tmp_path / f"sparkflow-{os.geteuid()}" / "token").read_text() == found


@pytest.mark.parametrize("what", ["folder", "file"])
def test_what_others_may_read_or_write_is_refused(folder: Path, what: str) -> None:
    user_token()
    (folder if what == "folder" else folder / "token").chmod(0o755)
    with pytest.raises(PermissionDeniedError, match=r"mode 0755, so others .* remove it"):
        user_token()


@pytest.mark.parametrize("what", ["folder", "file"])
def test_symbolic_links_are_not_followed(folder: Path, tmp_path: Path, what: str) -> None:
    user_token()
    link = folder if what == "folder" else folder / "token"
    link.rename(tmp_path / "elsewhere")
    link.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(PermissionDeniedError, match="pass a token, or say insecure=True"):
        user_token()


@pytest.mark.parametrize("text", ["", "short", "a" * 63, "a" * 65, "-" * 64])
def test_a_damaged_file_is_named(folder: Path, text: str) -> None:
    user_token()
    (folder / "token").write_text(text)
    with pytest.raises(PermissionDeniedError, match="damaged: remove it"):
        user_token()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
@pytest.mark.parametrize("what", ["folder", "file"])
def test_what_belongs_to_another_user_is_refused(folder: Path, what: str) -> None:
    user_token()
    os.chown(folder if what == "folder" else folder / "token", NOBODY, NOBODY)
    with pytest.raises(PermissionDeniedError, match=f"belongs to user {NOBODY}, not to this one"):
        user_token()


def test_a_port_and_no_other_machine_is_shown_what_is_made_of_it() -> None:
    token = UserToken(new_token())
    forms = {
        shown_at(token, f"{host}:{port}") for host in ("localhost", "[::1]") for port in (1, 2)
    }
    assert len(forms) == 2
    assert token not in forms
    assert shown_at(token, "10.0.0.7:1") is None
    assert shown_at(token, "example.com:1") is None
    assert shown_at("a job's", "10.0.0.7:1") == "a job's"
    assert shown_at(None, "localhost:1") is None


@pytest.fixture
def server(folder: Path) -> Iterator[Server]:
    made = Server(None, "worker", 0, port=0)
    with contextlib.closing(ClosingServer(made)):
        made.start()
        yield made


class ClosingServer:
    def __init__(self, server: Server) -> None:
        self.close = server.stop


def status_of(server: Server, *metadata: tuple[str, str]) -> grpc.StatusCode:
    with grpc.insecure_channel(server.address) as link:
        ask = link.unary_unary(f"/{WORKER_SERVICE}/GetStatus", bytes, bytes)
        try:
            ask(worker_pb2.GetStatusRequest().SerializeToString(), metadata=metadata, timeout=20)
        except grpc.RpcError as error:
            return error.code()
    return grpc.StatusCode.OK


def test_a_server_on_loopback_lets_in_who_has_the_users_token(server: Server) -> None:
    token = user_token()
    session = open_session(server.target)
    session.extend(graph_def(const("c", 2.0)))
    assert session.run(["c:0"], {}, [])[0][0] == 2.0
    session.close()
    assert status_of(server, (TOKEN_KEY, token.at(server.port))) is grpc.StatusCode.OK
    # Neither the token for a different port, nor the token itself.
    for shown in (token.at(server.port + 1), token, ""):
        assert status_of(server, (TOKEN_KEY, shown)) is grpc.StatusCode.UNAUTHENTICATED
    assert status_of(server) is grpc.StatusCode.UNAUTHENTICATED
    with pytest.raises(UnauthenticatedError):
        open_session(server.target, credentials="a guess")


@pytest.mark.parametrize("transport", ["tcp", "unix"])
def test_tensor_channels_ask_for_it_too(server: Server, transport: str) -> None:
    address = server.worker.channel_address
    assert address is not None
    for token in (None, new_token()):
        with pytest.raises(UnauthenticatedError):
            dial(
                address,
                Self(token=token, transport=transport),  # type: ignore[arg-type]
                expected_task=server.task,
                timeout_s=20,
            )


def test_insecure_lets_in_who_shows_nothing(folder: Path) -> None:
    made = Server(None, "worker", 0, port=0, insecure=True)
    made.start()
    try:
        assert status_of(made) is grpc.StatusCode.OK
        open_session(made.target).close()
    finally:
        made.stop()
    assert not folder.exists() or [path.name for path in folder.iterdir()] == ["token"]


def test_a_server_does_not_start_where_the_token_cannot_be_kept(folder: Path) -> None:
    folder.write_text("no folder")
    with pytest.raises(PermissionDeniedError, match="pass a token, or say insecure=True"):
        Server(None, "worker", 0, port=0)
    Server(None, "worker", 0, port=0, insecure=True).stop()


_STRANGER = """
import os, sys
from sparkflow_runtime.errors import UnauthenticatedError
from sparkflow_runtime.master import remote_session  # the interpreter may be root's alone
from sparkflow_runtime.master.client import open_session
os.setgid({nobody}); os.setuid({nobody})
os.environ["XDG_RUNTIME_DIR"] = ""
try:
    open(sys.argv[2])
except PermissionError:
    print("cannot read the token")
try:
    open_session(sys.argv[1], create_timeout_s=30)
except UnauthenticatedError:
    print("was not let in")
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_another_user_of_the_machine_is_not_let_in(server: Server, folder: Path) -> None:
    stranger = subprocess.run(
        [sys.executable, "-c", _STRANGER.format(nobody=NOBODY), server.target, folder / "token"],
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert stranger.stdout.splitlines() == ["cannot read the token", "was not let in"], (
        stranger.stderr
    )

import socket
import threading
import time
from collections.abc import Callable, Iterator

import pytest

from sparkflow_runtime.errors import FailedPreconditionError, UnavailableError
from sparkflow_runtime.master.client import open_session
from sparkflow_runtime.testing.faulty_link import FaultyLink
from sparkflow_runtime.testing.leaks import assert_nothing_left
from sparkflow_runtime.testing.local_cluster import LocalCluster
from support.graphs import const, graph_def, node, variable

WAIT_S = 20


class Echo:
    """Answers every byte with itself."""

    def __init__(self) -> None:
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        threading.Thread(target=self._serve, daemon=True).start()

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _serve(self) -> None:
        while True:
            try:
                each, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._answer, args=(each,), daemon=True).start()

    def _answer(self, each: socket.socket) -> None:
        with each:
            while data := each.recv(1 << 16):
                each.sendall(data)


@pytest.fixture
def link() -> Iterator[FaultyLink]:
    with assert_nothing_left():
        echo = Echo()
        made = FaultyLink(echo.address)
        yield made
        made.close()
        made.close()
        echo.close()


@pytest.fixture
def client(link: FaultyLink) -> Iterator[socket.socket]:
    host, port = link.address.split(":")
    with socket.create_connection((host, int(port)), WAIT_S) as made:
        yield made


def test_a_piece_is_spoilt_once(link: FaultyLink, client: socket.socket) -> None:
    link.spoil(lambda data: data[::-1] + b"!", spared=1)
    for sent, wanted in ((b"ab", b"ba!"), (b"cd", b"cd")):  # the first piece is the request
        client.sendall(sent)
        assert client.recv(10) == wanted
        assert not link.spoils


def test_each_direction_is_disturbed_for_itself(link: FaultyLink) -> None:
    made: list[list[bytes]] = []

    def disturbance() -> Callable[[bytes], bytes | None]:
        seen: list[bytes] = []
        made.append(seen)

        def change(piece: bytes) -> bytes | None:
            seen.append(piece)
            return None if piece == b"end" else piece + b"!"

        return change

    link.disturb(disturbance)
    host, port = link.address.split(":")
    with socket.create_connection((host, int(port)), WAIT_S) as client:
        client.sendall(b"a")
        assert client.recv(10) == b"a!!"
        client.sendall(b"end")
        assert client.recv(10) == b""
    assert sorted(made) == [[b"a", b"end"], [b"a!"]]
    link.restore()
    with socket.create_connection((host, int(port)), WAIT_S) as client:
        client.sendall(b"a")
        assert client.recv(10) == b"a"


def test_it_listens_where_it_is_told_to() -> None:
    with socket.create_server(("127.0.0.1", 0)) as there:
        port = there.getsockname()[1]
        made = FaultyLink(f"127.0.0.1:{port}", f"127.0.0.3:{port}")
        assert made.address == f"127.0.0.3:{port}"
        made.close()


def test_it_passes_everything_on(link: FaultyLink, client: socket.socket) -> None:
    client.sendall(b"ping")
    assert client.recv(10) == b"ping"
    assert link.passed_bytes == 4
    link.delay(0.01)
    client.sendall(b"later")
    assert client.recv(10) == b"later"


def test_it_holds_back_and_closes_nothing(link: FaultyLink, client: socket.socket) -> None:
    link.hold()
    client.sendall(b"held")
    client.settimeout(0.1)
    with pytest.raises(TimeoutError):
        client.recv(10)
    link.restore()
    client.settimeout(WAIT_S)
    assert client.recv(10) == b"held"


def test_it_cuts_and_lets_new_connections_through(link: FaultyLink, client: socket.socket) -> None:
    client.sendall(b"a")
    assert client.recv(1) == b"a"
    link.cut()
    assert client.recv(1) == b""
    host, port = link.address.split(":")
    with socket.create_connection((host, int(port)), WAIT_S) as again:
        again.sendall(b"b")
        assert again.recv(1) == b"b"
    link.refuse()
    with socket.create_connection((host, int(port)), WAIT_S) as refused:
        assert refused.recv(1) == b""


def test_it_cuts_after_so_many_bytes(link: FaultyLink, client: socket.socket) -> None:
    link.cut_after(6)
    client.sendall(b"1234")
    assert client.recv(10) == b"1234"
    client.sendall(b"5678")
    rest = b""
    while data := client.recv(10):
        rest += data
    assert b"56".startswith(rest)  # The end of the answer may be lost.
    assert link.passed_bytes == 6


def test_a_cluster_behind_faulty_links_recovers_from_a_cut() -> None:
    nodes = graph_def(
        variable("v", (2,), device="/job:ps/task:0"),
        const("one", [1, 1]),
        node("init", "Assign", "v", "one"),
        node("read", "Neg", "v", device="/job:worker/task:0"),
    )
    with assert_nothing_left(), LocalCluster(1, 1, faulty=True) as cluster:
        session = open_session(
            cluster.target("worker", 0), credentials=cluster.credentials, create_timeout_s=60
        )
        session.extend(nodes)
        session.run([], {}, ["init"])
        assert session.run(["read:0"], {}, [])[0][0].tolist() == [-1, -1]
        cluster.link("ps", 0).refuse()
        with pytest.raises(UnavailableError):
            session.run(["read:0"], {}, [])
        cluster.link("ps", 0).restore()
        session.close()
        session = open_session(
            cluster.target("worker", 0), credentials=cluster.credentials, create_timeout_s=60
        )
        session.extend(nodes)
        # The worker has its own connection, which gRPC retries a second after it failed.
        deadline = time.monotonic() + 30
        while True:
            try:
                ((found,), _) = session.run(["read:0"], {}, [])
                break
            except UnavailableError:
                assert time.monotonic() < deadline
                time.sleep(0.1)
        assert found.tolist() == [-1, -1]
        session.close()
    with LocalCluster(1, 0) as cluster, pytest.raises(FailedPreconditionError, match="faulty=True"):
        cluster.link("ps", 0)

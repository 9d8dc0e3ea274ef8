"""What processes listen on, whether they require TLS there, and where secrets are found."""

from __future__ import annotations

import base64
import contextlib
import ipaddress
import socket
import ssl
from collections.abc import Iterable, Iterator
from pathlib import Path

import pyarrow as pa

_LISTENS = "0A"
_ALERT = 0x15  # the type of a TLS record
_DEADLINE_S = 10.0
_HELLO = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0"
"""The first bytes from a gRPC client without TLS."""


Place = tuple[str, int]
"""An address and a port."""


def open_sockets(pid: int | str = "self") -> dict[str, Place]:
    """Returns the listening TCP sockets in the process's network namespace, by inode."""
    found = {}
    for table in ("tcp", "tcp6"):
        for line in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == _LISTENS:
                host, port = fields[1].split(":")
                found[fields[9]] = _address(host), int(port, 16)
    return found


def listening_sockets(pid: int | str = "self") -> dict[str, Place]:
    """Returns the sockets on which a process listens, by inode; empty if it has ended."""
    inodes = set()
    with contextlib.suppress(OSError):
        for descriptor in Path(f"/proc/{pid}/fd").iterdir():
            with contextlib.suppress(OSError):
                inodes.add(str(descriptor.readlink()))
        return {i: place for i, place in open_sockets(pid).items() if f"socket:[{i}]" in inodes}
    return {}


def listening(pid: int | str = "self") -> set[Place]:
    """Returns the addresses and ports on which a process listens."""
    return set(listening_sockets(pid).values())


def _address(text: str) -> str:
    """Converts an address from the kernel's tables: words of four bytes, each reversed."""
    words = [bytes.fromhex(text[at : at + 8])[::-1] for at in range(0, len(text), 8)]
    found = ipaddress.ip_address(b"".join(words))
    return str(getattr(found, "ipv4_mapped", None) or found)


def is_closed(place: tuple[str, int]) -> bool:
    """Whether a port requires TLS, and a certificate from clients."""
    return _refuses_plain(place) and _refuses_strangers(place)


def _refuses_plain(place: tuple[str, int]) -> bool:
    """Whether a client without TLS gets no answer, or TLS's alert."""
    with socket.create_connection(place, _DEADLINE_S) as link:
        link.settimeout(_DEADLINE_S)
        try:
            link.sendall(_HELLO)
            heard = link.recv(4096)
        except ConnectionError:
            return True
    return not heard or heard[0] == _ALERT


def _refuses_strangers(place: tuple[str, int]) -> bool:
    """Whether the port uses TLS, but ends connections without a certificate of the job's authority.

    With TLS 1.3 a client considers its own handshake complete before the server has checked it.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.set_alpn_protocols(["h2"])
    with socket.create_connection(place, _DEADLINE_S) as link:
        try:
            secure = context.wrap_socket(link)
        except OSError:
            return False
    with secure:
        try:
            secure.sendall(_HELLO)
            return not secure.recv(4096)
        except (ssl.SSLError, ConnectionError):
            return True


def tree(pid: int) -> Iterator[int]:
    """Yields a process and all its descendants."""
    yield pid
    for task in Path(f"/proc/{pid}/task").glob("*"):
        with contextlib.suppress(OSError):
            for child in (task / "children").read_text().split():
                yield from tree(int(child))


def forms(secret: bytes) -> set[bytes]:
    """Returns a secret's possible forms in other bytes: unchanged, in base 16 and 64, in UTF-16."""
    found = {secret, secret.hex().encode(), secret.decode().encode("utf-16-le")}
    for before in range(3):
        coded = base64.b64encode(b"\0" * before + secret)
        found.add(coded[-(-before * 8 // 6) : (before + len(secret)) * 8 // 6])
    return found


def where(secrets: Iterable[bytes], pids: Iterable[int], folders: Iterable[Path]) -> list[str]:
    """Finds one of the secrets in processes' arguments and environments, and in files.

    Files compressed with Zstandard, such as Spark's event logs, are decompressed.
    """
    places = [Path(f"/proc/{pid}/{name}") for pid in pids for name in ("cmdline", "environ")]
    for folder in folders:
        places += [path for path in folder.rglob("*") if path.is_file()]
    wanted = {form for secret in secrets for form in forms(secret)}
    found = []
    for place in places:
        with contextlib.suppress(OSError):
            content = _content(place)
            if any(each in content for each in wanted):
                found.append(str(place))
    return found


def _content(place: Path) -> bytes:
    if place.suffix != ".zstd":
        return place.read_bytes()
    with pa.input_stream(place, compression="zstd") as stream:
        expanded: bytes = stream.read()
        return expanded

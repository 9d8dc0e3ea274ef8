"""A task's TLS settings: its certificate, its key, and the authority that signed all others.

The files come from elsewhere: `certificates` creates an authority for one job, or users have their
own PEM files.
"""

from __future__ import annotations

import contextlib
import os
import ssl
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import grpc

from sparkflow_runtime.errors import AlreadyExistsError, InvalidArgumentError, NotFoundError


@dataclass(frozen=True, slots=True)
class Tls:
    """One task's side of mutual TLS, as PEM. It serves and calls with the same certificate.

    Attributes:
        ca: Certificates of the authorities that must have signed the other side's.
        certificate: The task's own, followed by those between it and an authority.
        key: Its private key, without a passphrase.
        server_name: The name that the certificates of servers carry; "" for the host that is
            called, which is what public certificates carry.

    Raises:
        InvalidArgumentError: These are no such PEM texts, or the key is not the certificate's.
    """

    ca: bytes = field(repr=False)
    certificate: bytes = field(repr=False)
    key: bytes = field(repr=False)
    server_name: str = ""

    def __post_init__(self) -> None:
        self.client_context()

    @classmethod
    def from_files(
        cls,
        ca: str | os.PathLike[str],
        certificate: str | os.PathLike[str],
        key: str | os.PathLike[str],
        server_name: str = "",
    ) -> Tls:
        """Reads the three PEM files.

        Raises:
            NotFoundError: One of them cannot be read.
            InvalidArgumentError: They are invalid.
        """
        try:
            texts = (Path(ca).read_bytes(), Path(certificate).read_bytes(), Path(key).read_bytes())
        except OSError as error:
            raise NotFoundError(
                message=f"Cannot read {error.filename}, which TLS needs: {error.strerror}"
            ) from error
        return cls(*texts, server_name=server_name)

    def save(self, directory: str | os.PathLike[str]) -> None:
        """Writes `ca.pem`, `certificate.pem` and `key.pem`, readable by this user only.

        A missing folder is created, accessible by this user only.

        Raises:
            AlreadyExistsError: One of them exists; none is overwritten.
        """
        Path(directory).parent.mkdir(parents=True, exist_ok=True)
        Path(directory).mkdir(mode=0o700, exist_ok=True)
        for name in ("ca", "certificate", "key"):
            path = Path(directory, f"{name}.pem")
            try:
                file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
            except FileExistsError as error:
                raise AlreadyExistsError(
                    message=f"{path} exists: remove it, or save to another directory"
                ) from error
            with os.fdopen(file, "wb") as stream:
                stream.write(getattr(self, name))

    def export(self) -> dict[str, str]:
        """All of it, the key too, as texts for `from_export` in another process."""
        return {
            "ca": self.ca.decode("ascii"),
            "certificate": self.certificate.decode("ascii"),
            "key": self.key.decode("ascii"),
            "server_name": self.server_name,
        }

    @classmethod
    def from_export(cls, texts: Mapping[str, str]) -> Tls:
        """What another process exported."""
        ca, certificate, key = (texts[name].encode() for name in ("ca", "certificate", "key"))
        return cls(ca, certificate, key, texts["server_name"])

    def server_context(self) -> ssl.SSLContext:
        """For accepting: TLS 1.3, and only clients with a certificate of `ca`."""
        context = self._context(ssl.PROTOCOL_TLS_SERVER)
        context.verify_mode = ssl.CERT_REQUIRED
        return context

    def client_context(self) -> ssl.SSLContext:
        """For calling: TLS 1.3, the server's certificate and its name are verified."""
        return self._context(ssl.PROTOCOL_TLS_CLIENT)

    def server_credentials(self) -> grpc.ServerCredentials:
        """The same for a gRPC server."""
        pair = (self.key, self.certificate)
        return grpc.ssl_server_credentials([pair], self.ca, require_client_auth=True)

    def channel_credentials(self) -> grpc.ChannelCredentials:
        """The same for a gRPC channel."""
        return grpc.ssl_channel_credentials(self.ca, self.key, self.certificate)

    def _context(self, protocol: int) -> ssl.SSLContext:
        context = ssl.SSLContext(protocol)
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        with _as_file(self.certificate + b"\n" + self.key) as path:
            try:
                # A passphrase would be asked for on the terminal.
                context.load_cert_chain(path, password=lambda: b"")
                context.load_verify_locations(cadata=self.ca.decode("ascii"))
            except (ssl.SSLError, ValueError) as error:
                raise InvalidArgumentError(
                    message="TLS needs a certificate, its private key without a passphrase, and "
                    f"the authority's certificate, all as PEM: {error}"
                ) from error
        return context


@contextlib.contextmanager
def _as_file(content: bytes) -> Iterator[str]:
    """The path of a file with this content, as long as the `with` block lasts.

    `load_cert_chain` reads files only. On Linux it is one of memory without a name, so that no disk
    ever has the key; elsewhere a temporary one of mode 0600.
    """
    if sys.platform == "linux":
        with os.fdopen(os.memfd_create("sparkflow"), "wb") as file:
            file.write(content)
            file.flush()
            yield f"/proc/self/fd/{file.fileno()}"
        return
    with tempfile.NamedTemporaryFile(prefix="sparkflow-") as named:
        named.write(content)
        named.flush()
        yield named.name

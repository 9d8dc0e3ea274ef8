"""TLS in front of a gRPC server without TLS, as in hosted Spark Connect."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import ipaddress
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec

HOST = "127.0.0.1"


@contextlib.contextmanager
def tls_front(folder: Path, port: int) -> Iterator[tuple[int, Path]]:
    """Yields its port, and the file with the certificate that clients must trust.

    Args:
        folder: The folder for the certificate and its key.
        port: The server's port, on loopback.
    """
    certificate, key = _certificate(folder)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    context.set_alpn_protocols(["h2"])
    loop = asyncio.new_event_loop()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        inner_reader, inner_writer = await asyncio.open_connection(HOST, port)
        await asyncio.gather(_copy(reader, inner_writer), _copy(inner_reader, writer))

    server = loop.run_until_complete(asyncio.start_server(serve, HOST, 0, ssl=context))
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        yield server.sockets[0].getsockname()[1], certificate
    finally:
        asyncio.run_coroutine_threadsafe(_end(server), loop).result(20)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


async def _copy(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    with contextlib.suppress(ConnectionError, ssl.SSLError):
        while data := await source.read(1 << 16):
            target.write(data)
            await target.drain()
    target.close()


async def _end(server: asyncio.Server) -> None:
    server.close()
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for each in others:
        each.cancel()
    await asyncio.gather(*others, return_exceptions=True)


def _certificate(folder: Path) -> tuple[Path, Path]:
    """Creates a self-signed certificate for loopback, and its key, valid for a day."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.oid.NameOID.COMMON_NAME, "front")])
    now = datetime.datetime.now(datetime.timezone.utc)
    day = datetime.timedelta(days=1)
    address = x509.IPAddress(ipaddress.ip_address(HOST))
    signed = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - day)
        .not_valid_after(now + day)
        .add_extension(x509.SubjectAlternativeName([address]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    certificate, secret = folder / "front.pem", folder / "front.key"
    certificate.write_bytes(signed.public_bytes(serialization.Encoding.PEM))
    secret.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return certificate, secret

"""A certificate authority for one job. Needs the package `cryptography`: the extra `tls`.

It is not imported with `security`, as users with their own PEM files do not need the package.
"""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from sparkflow_runtime.errors import missing_package
from sparkflow_runtime.security.tls import Tls

try:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec
except ImportError as error:
    raise missing_package(
        "Making certificates for TLS",
        "cryptography",
        "tls",
        "give PEM files of your own (security.Tls.from_files)",
    ) from error

SERVER_NAME: Final = "task.sparkflow.internal"
"""The name in every certificate: tasks belong to the job, whatever their host."""
VALID_DAYS: Final = 365
_SKEW: Final = datetime.timedelta(days=1)
"""How far another host's clock may be behind."""


@dataclass(frozen=True, slots=True)
class Authority:
    """Signs the certificates of one job's tasks. Kept in memory of the process that starts the job.

    The holder of a certificate that it signed belongs to the job. Safe to use from several threads.

    Attributes:
        certificate: Its own certificate, as PEM.
    """

    certificate: bytes
    _key: ec.EllipticCurvePrivateKey = field(repr=False)
    _name: x509.Name = field(repr=False)

    @classmethod
    def create(cls) -> Authority:
        """Returns a new authority with its own key, valid for `VALID_DAYS` days."""
        key = ec.generate_private_key(ec.SECP256R1())
        name = _name("sparkflow job authority")
        extensions = (
            (x509.BasicConstraints(ca=True, path_length=0), True),
            (_key_usage(signs_certificates=True), True),
            (x509.SubjectKeyIdentifier.from_public_key(key.public_key()), False),
        )
        signed = _sign(name, key.public_key(), name, key, extensions)
        return cls(signed, key, name)

    def issue(self, task: str) -> Tls:
        """Returns a certificate with its own key for a task or client, valid for `VALID_DAYS` days.

        Args:
            task: The holder's name; only informative.
        """
        key = ec.generate_private_key(ec.SECP256R1())
        usages = (
            x509.oid.ExtendedKeyUsageOID.SERVER_AUTH,
            x509.oid.ExtendedKeyUsageOID.CLIENT_AUTH,
        )
        extensions = (
            (x509.BasicConstraints(ca=False, path_length=None), True),
            (_key_usage(signs_certificates=False), True),
            (x509.ExtendedKeyUsage(usages), False),
            (x509.SubjectAlternativeName([x509.DNSName(SERVER_NAME)]), False),
            (x509.SubjectKeyIdentifier.from_public_key(key.public_key()), False),
            (x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), False),
        )
        certificate = _sign(_name(task), key.public_key(), self._name, self._key, extensions)
        pem = key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        return Tls(self.certificate, certificate, pem, SERVER_NAME)


def _name(text: str) -> x509.Name:
    longest = 64  # RFC 5280's limit for a common name
    return x509.Name([x509.NameAttribute(x509.oid.NameOID.COMMON_NAME, text[:longest] or "client")])


def _key_usage(*, signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def _sign(
    subject: x509.Name,
    public_key: ec.EllipticCurvePublicKey,
    issuer: x509.Name,
    issuer_key: ec.EllipticCurvePrivateKey,
    extensions: Sequence[tuple[x509.ExtensionType, bool]],
) -> bytes:
    """The signed certificate as PEM; `extensions` with whether each is critical."""
    now = datetime.datetime.now(datetime.timezone.utc)
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(public_key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _SKEW)
        .not_valid_after(now + datetime.timedelta(days=VALID_DAYS))
    )
    for extension, critical in extensions:
        builder = builder.add_extension(extension, critical)
    return builder.sign(issuer_key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)

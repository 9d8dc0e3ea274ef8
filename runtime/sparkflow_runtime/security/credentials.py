"""What a session shows to a server: the job's token, and a certificate where there is TLS."""

from __future__ import annotations

from dataclasses import dataclass, field

from sparkflow_runtime.security.tls import Tls


@dataclass(frozen=True, slots=True)
class Credentials:
    """Everywhere where a session takes a token, it takes these as well.

    Attributes:
        token: The job's token; None without one.
        tls: The certificate, key and authority of a cluster with TLS; None without.
    """

    token: str | None = field(default=None, repr=False)
    tls: Tls | None = None

    @classmethod
    def of(cls, given: str | Credentials | None) -> Credentials:
        """The credentials that a user gave: themselves, a token, or None for none."""
        return given if isinstance(given, Credentials) else cls(given)

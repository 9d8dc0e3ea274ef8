"""What a session shows to a server: the job's token, and a certificate where there is TLS."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

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

    def export(self) -> dict[str, Any]:
        """All of it, the key too, as JSON has it, for `from_export` in another process."""
        return {"token": self.token, "tls": None if self.tls is None else self.tls.export()}

    @classmethod
    def from_export(cls, exported: Mapping[str, Any]) -> Credentials:
        """What another process exported."""
        tls = exported["tls"]
        return cls(exported["token"], None if tls is None else Tls.from_export(tls))

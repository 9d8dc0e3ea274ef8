"""A session's credentials for a server: the job's token, and a certificate for TLS."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from sparkflow_runtime.security.tls import Tls


@dataclass(frozen=True, slots=True)
class Credentials:
    """Credentials; accepted wherever a session accepts a token.

    Attributes:
        token: The job's token; None without one.
        tls: The certificate, key and authority of a cluster with TLS; None without.
    """

    token: str | None = field(default=None, repr=False)
    tls: Tls | None = None

    @classmethod
    def of(cls, given: str | Credentials | None) -> Credentials:
        """Returns a user's credentials, given as such, as a token, or as None for none."""
        return given if isinstance(given, Credentials) else cls(given)

    def export(self) -> dict[str, Any]:
        """Returns everything, including the key, as JSON values for `from_export` elsewhere."""
        return {"token": self.token, "tls": None if self.tls is None else self.tls.export()}

    @classmethod
    def from_export(cls, exported: Mapping[str, Any]) -> Credentials:
        """Returns the credentials that another process exported."""
        tls = exported["tls"]
        return cls(exported["token"], None if tls is None else Tls.from_export(tls))

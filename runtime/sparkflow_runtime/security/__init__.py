"""Authentication and encryption: tokens, defaults, TLS, certificates."""

from sparkflow_runtime.security.credentials import Credentials
from sparkflow_runtime.security.tls import Tls
from sparkflow_runtime.security.tokens import (
    TOKEN_BYTES,
    TOKEN_KEY,
    TokenInterceptor,
    is_loopback,
    metadata,
    new_token,
    redact,
    require_credentials,
)
from sparkflow_runtime.security.user_token import UserToken, shown_at, user_token

__all__ = [
    "TOKEN_BYTES",
    "TOKEN_KEY",
    "Credentials",
    "Tls",
    "TokenInterceptor",
    "UserToken",
    "is_loopback",
    "metadata",
    "new_token",
    "redact",
    "require_credentials",
    "shown_at",
    "user_token",
]

import pytest

from sparkflow_runtime import security
from sparkflow_runtime.errors import PermissionDeniedError


def test_tokens_are_256_random_bits() -> None:
    tokens = {security.new_token() for _ in range(100)}
    assert len(tokens) == 100
    assert {len(bytes.fromhex(token)) for token in tokens} == {32}


@pytest.mark.parametrize("host", ["127.0.0.1", "127.3.4.5", "localhost", "::1", "[::1]"])
def test_loopback_needs_no_credentials(host: str) -> None:
    assert security.is_loopback(host)
    security.require_credentials(host, None, insecure=False)


@pytest.mark.parametrize(
    "host", ["0.0.0.0", "::", "", "10.0.0.1", "example.org", "localhost.example.org", "127.0.0.1.x"]
)
def test_elsewhere_credentials_are_needed(host: str) -> None:
    assert not security.is_loopback(host)
    with pytest.raises(PermissionDeniedError, match="pass a token, bind to a loopback address"):
        security.require_credentials(host, None, insecure=False)
    security.require_credentials(host, "token", insecure=False)
    security.require_credentials(host, None, insecure=True)


def test_tokens_are_struck_out_of_texts() -> None:
    assert security.redact("see s3cret, s3cret", "s3cret") == "see <token>, <token>"
    assert security.redact("see", None) == "see"


def test_an_empty_token_is_none() -> None:
    """An unset environment variable must not open a server to everybody."""
    with pytest.raises(PermissionDeniedError, match="has no credentials"):
        security.require_credentials("0.0.0.0", "", insecure=False)

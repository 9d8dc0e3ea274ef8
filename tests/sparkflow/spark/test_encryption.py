"""When a job's tasks use TLS, and their credentials for it."""

import builtins
import pickle
from collections.abc import Mapping
from typing import Any

import pytest

from sparkflow.spark.encryption import new_credentials, speaks_tls
from sparkflow.spark.errors import SparkTrainingError
from sparkflow_runtime.security import Credentials

NOTHING: Mapping[str, str] = {}
ASKS = [
    "spark.ssl.enabled",
    "spark.ssl.rpc.enabled",
    "spark.network.crypto.enabled",
    "spark.authenticate.enableSaslEncryption",
]


@pytest.mark.parametrize(
    ("host", "wanted"),
    [
        ("127.0.0.1", False),
        ("localhost", False),
        ("::1", False),
        ("[::1]", False),
        ("10.0.0.7", True),
        ("driver.example.com", True),
        ("2001:db8::7", True),
        ("0.0.0.0", True),
        (None, True),
    ],
)
def test_auto_is_on_as_soon_as_one_address_is_not_loopback(host: str | None, wanted: bool) -> None:
    assert speaks_tls("auto", host, NOTHING.get) is wanted


@pytest.mark.parametrize("host", ["127.0.0.1", "10.0.0.7"])
def test_true_and_false_decide(host: str) -> None:
    assert speaks_tls(True, host, NOTHING.get)
    assert not speaks_tls(False, host, NOTHING.get)


@pytest.mark.parametrize("name", ASKS)
def test_where_spark_encrypts_nobody_turns_it_off(name: str) -> None:
    setting = {name: "True"}.get
    assert speaks_tls("auto", "127.0.0.1", setting)
    with pytest.raises(SparkTrainingError, match=rf"tls=False, but the cluster has {name}=true"):
        speaks_tls(False, "127.0.0.1", setting)
    assert not speaks_tls(False, "127.0.0.1", {name: "false"}.get)


def test_each_job_has_an_authority_of_its_own() -> None:
    one, other = new_credentials(True), new_credentials(True)
    assert one.tls is not None
    assert other.tls is not None
    assert one.tls.ca != other.tls.ca
    assert one.token != other.token
    assert new_credentials(False).tls is None


def test_credentials_travel_in_closures_and_lines_of_json_and_are_not_shown() -> None:
    made = new_credentials(True)
    assert pickle.loads(pickle.dumps(made)) == made  # noqa: S301  our own
    assert Credentials.from_export(made.export()) == made
    assert "PRIVATE" not in repr(made)
    assert made.token is not None
    assert made.token not in repr(made)


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name: str, *args: Any, **options: Any) -> Any:
        if name == "sparkflow_runtime.security.certificates":
            raise ImportError(name)
        return real(name, *args, **options)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(SparkTrainingError, match="pip install cryptography"):
        new_credentials(True)
    assert new_credentials(False).token

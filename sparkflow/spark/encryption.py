"""Whether the tasks of a job use TLS, and the credentials they present to each other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from sparkflow.spark.errors import SparkTrainingError
from sparkflow_runtime.security import Credentials, is_loopback, new_token

AUTO: Final = "auto"
"""The value for TLS if any address is not loopback."""

_SAY_SO: Final = (
    "spark.ssl.enabled",
    "spark.ssl.rpc.enabled",
    "spark.network.crypto.enabled",
    "spark.authenticate.enableSaslEncryption",
)
"""Settings with which the administrator of a cluster requires encrypted traffic."""

Setting = Callable[[str], str | None]
"""Looks up Spark's settings by name; returns None for one that is not set."""


def speaks_tls(wanted: bool | str, driver_host: str | None, setting: Setting) -> bool:
    """Returns whether the tasks of a job use TLS.

    Args:
        wanted: True, False or `auto`.
        driver_host: The address of the driver; None if unknown. Tasks listen on the address from
            which they reach the driver, so they are all on loopback if it is.
        setting: Spark's settings.

    Raises:
        SparkTrainingError: TLS is turned off, but Spark's settings require encryption. This is an
            error rather than a warning because the administrator has decided it, and nobody reads
            the warnings of a job.
    """
    said = [name for name in _SAY_SO if str(setting(name)).lower() == "true"]
    if wanted is False and said:
        raise SparkTrainingError(
            f"tls=False, but the cluster has {' and '.join(f'{name}=true' for name in said)}, so "
            "its traffic must be encrypted, sparkflow's included. Leave tls='auto'"
        )
    if wanted == AUTO:
        return bool(said) or driver_host is None or not is_loopback(driver_host)
    return bool(wanted)


def session_speaks_tls(wanted: bool | str, session: Any) -> bool:
    """Returns whether the tasks of a classic session's job use TLS; raises as `speaks_tls` does."""
    conf = session.sparkContext.getConf()
    return speaks_tls(wanted, conf.get("spark.driver.host"), conf.get)


def new_credentials(tls: bool) -> Credentials:
    """Creates the credentials that the tasks and the driver of one job share; each job has its own.

    All have the same certificate, because tasks move between hosts and are restarted; having it
    proves membership of the job. The authority's key is discarded before this returns, so no
    further certificate can be issued.

    Args:
        tls: Whether they use TLS.

    Raises:
        SparkTrainingError: They use TLS, and the package that creates certificates is missing.
    """
    if not tls:
        return Credentials(new_token())
    try:
        from sparkflow_runtime.security.certificates import Authority  # needs an extra
    except ImportError as error:
        raise SparkTrainingError(
            "The tasks of this job need TLS, because tls=True or because not all of their "
            "addresses are loopback, but the driver lacks the package that makes certificates: pip "
            "install cryptography. On a network that you trust, tls=False turns TLS off"
        ) from error
    return Credentials(new_token(), Authority.create().issue("sparkflow job"))

"""Whether the tasks of a job speak TLS, and what they show to each other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from sparkflow.spark.errors import SparkTrainingError
from sparkflow_runtime.security import Credentials, is_loopback, new_token

AUTO: Final = "auto"
"""TLS as soon as one address is not loopback."""

_SAY_SO: Final = (
    "spark.ssl.enabled",
    "spark.ssl.rpc.enabled",
    "spark.network.crypto.enabled",
    "spark.authenticate.enableSaslEncryption",
)
"""Settings by which whoever runs the cluster says that what its processes say is encrypted."""

Setting = Callable[[str], str | None]
"""Spark's settings by name; None for one that is not set."""


def speaks_tls(wanted: bool | str, driver_host: str | None, setting: Setting) -> bool:
    """Whether a job's tasks speak TLS.

    Args:
        wanted: True, False or `auto`.
        driver_host: Where the driver is reached; None if that is not known. The tasks listen at the
            address that they reach it from, so they are all on loopback if it is.
        setting: Spark's settings.

    Raises:
        SparkTrainingError: It is not wanted, and Spark's settings ask for it. That is an error and
            not a warning, because who runs the cluster has decided it, and nobody reads a job's
            warnings.
    """
    said = [name for name in _SAY_SO if str(setting(name)).lower() == "true"]
    if wanted is False and said:
        raise SparkTrainingError(
            f"tls=False, but the cluster has {' and '.join(f'{name}=true' for name in said)}, so "
            "its traffic must be encrypted, and sparkflow's with it. Leave tls='auto'"
        )
    if wanted == AUTO:
        return bool(said) or driver_host is None or not is_loopback(driver_host)
    return bool(wanted)


def session_speaks_tls(wanted: bool | str, session: Any) -> bool:
    """Whether those of a job of a classic session do; raises as `speaks_tls`."""
    conf = session.sparkContext.getConf()
    return speaks_tls(wanted, conf.get("spark.driver.host"), conf.get)


def new_credentials(tls: bool) -> Credentials:
    """What the tasks and the driver of one job show to each other; no other job's have it.

    All have the same certificate: tasks move between hosts and are started again, and whoever has
    one belongs to the job. The authority's key is gone when this returns, so there is no other.

    Args:
        tls: Whether they speak TLS.

    Raises:
        SparkTrainingError: They do, and the package that makes certificates is missing.
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
